#pragma once

#include <optional>
#include <string>

namespace titan {

/// The environment variable's value; unset and empty are both nothing.
std::optional<std::string> env(const char* name);

}  // namespace titan
