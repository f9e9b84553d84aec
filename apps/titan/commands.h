#pragma once

#include <span>
#include <string>

namespace titan {

using CommandFunction = int(std::span<const std::string> args);

// Every command takes the words after its name and returns the exit code. C linkage, because the program
// finds them by name in the library that it opens.
extern "C" {

// libtitan_core.so
int config_command(std::span<const std::string> args);
int devices_command(std::span<const std::string> args);
int tokenize_command(std::span<const std::string> args);
int torchrun_command(std::span<const std::string> args);
int version_command(std::span<const std::string> args);

// libtitan.so
int batches_command(std::span<const std::string> args);
int forward_command(std::span<const std::string> args);
int generate_command(std::span<const std::string> args);
int kernel_command(std::span<const std::string> args);
int shapes_command(std::span<const std::string> args);
int store_command(std::span<const std::string> args);
int train_command(std::span<const std::string> args);

/// Runs a command and turns its errors into one message on stderr and an exit code: 2 for a ConfigError, 1
/// for anything else that is thrown, and for output that could not be written. The only place that does.
int run_command(CommandFunction* command, std::span<const std::string> args);

/// Says on stderr that there is no command `name`, and which one of `known` may have been meant. Returns 2.
int unknown_command(const std::string& name, std::span<const std::string> known);
}

}  // namespace titan
