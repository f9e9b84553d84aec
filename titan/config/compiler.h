#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace titan {

/// The C++ compiler: $CXX if set (of `ccache g++ -m64` the g++; options are left out), else the one titan was
/// built with, else g++ on the PATH; nothing when it is not there.
std::optional<std::filesystem::path> find_compiler();

/// The paths in the rule of a make dependency file, as `-MMD -MF` writes it; the target is left out.
std::vector<std::string> parse_dependencies(std::string_view text);

/// The first errors of a compiler's output that concern `folder`'s files (the user's), each with its source
/// line. An error inside a header is shown at the user's line that led to it. All errors when none concerns
/// the user's files.
std::string readable_errors(std::string_view output, const std::filesystem::path& folder);

/// Runs a program with stdout and stderr in `log`, messages in English, and returns its exit code; 128 + N
/// when signal N ended it. ValueError when it cannot be started.
int run_logged(const std::vector<std::string>& command, const std::filesystem::path& log);

}  // namespace titan
