#pragma once

#include <filesystem>

namespace titan {

/// Throws ValueError for a library that was cut off, half copied say: the loader would map what is not there
/// and end the process. A file that is no ELF file passes; the loader has words for that.
void require_whole_library(const std::filesystem::path& library);

}  // namespace titan
