#pragma once

#include <string>

namespace titan {

/// In a catch block around the code of a user's module: throws what it has thrown, and says who was at work
/// ("the backward of my_kernels::rope"). Errors of titan's keep their words, torch's get the name added, and
/// anything else, which may be no exception at all, becomes a ValueError.
[[noreturn]] void rethrow_from(const std::string& who);

}  // namespace titan
