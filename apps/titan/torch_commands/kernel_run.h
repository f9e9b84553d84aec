#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace titan {

enum class KernelVerb : uint8_t { run, trace };

/// Gives `--from` and `--from=VALUE` the name `to`. ConfigError when both are there.
void rename_flag(std::vector<std::string>& words, const std::string& from, const std::string& to);

/// `titan kernel run KERNEL ...` and `titan kernel trace KERNEL ...`, the words after the verb.
int run_kernel_command(std::vector<std::string> words, KernelVerb verb);

}  // namespace titan
