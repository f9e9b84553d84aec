#pragma once

#include <cstdint>
#include <filesystem>

namespace titan {

/// Bytes that this process can still take: the machine's, or less where a control group (version 1 or 2) or
/// one above it allows less. `root` stands for "/", so that tests can give files of their own.
int64_t available_memory(const std::filesystem::path& root = "/");

}  // namespace titan
