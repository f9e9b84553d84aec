#pragma once

#include <string>

namespace titan {

/// In a catch block: what the code of a user's module has thrown, in words. Such code may throw anything.
std::string thrown_text();

}  // namespace titan
