#pragma once

#include <string>
#include <string_view>

namespace titan {

/// The SHA-256 of `bytes` (FIPS 180-4) in 64 lower-case hexadecimal digits.
std::string sha256(std::string_view bytes);

}  // namespace titan
