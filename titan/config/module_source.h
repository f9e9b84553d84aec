#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace titan {

/// One `#include` line.
struct IncludeLine {
  std::string path;
  bool quoted;  ///< "path", not <path>
};

/// What a C++ text shows without a compiler.
struct ScannedText {
  std::vector<IncludeLine> includes;
  /// Functions defined at file scope, without `static` and outside of namespaces, in order.
  std::vector<std::string> functions;
  /// The paths of `__has_include("path")`.
  std::vector<std::string> asked_for;
};

/// Scans one file's text. Comments, literals, inactive-looking code and macros with arguments cost nothing
/// but a name too many: whether a name is what it seems is the compiler's business.
ScannedText scan_text(std::string_view text);

/// A user's source file with the local headers that it includes, transitively.
struct ModuleSource {
  std::vector<std::string> functions;      ///< of all its files
  std::vector<std::string> titan_headers;  ///< `titan/recipes.h` ..., as included
  bool needs_torch = false;                ///< something includes torch's headers
  /// Where the compiler looks first for the quoted includes of its files, whether anything is there or not.
  std::vector<std::filesystem::path> looked_for;
};

/// Reads `file` and what it includes: local headers beside the including file, titan's own below
/// `include_folder`. ValueError when `file` cannot be read.
ModuleSource scan_source(const std::filesystem::path& file, const std::filesystem::path& include_folder);

/// The SHA-256 over the paths and contents of `titan/recipes.h`, `titan/kernels.h` and every titan header
/// that it includes, transitively: two builds of one value can exchange configs.
std::string headers_hash(const std::filesystem::path& include_folder);

}  // namespace titan
