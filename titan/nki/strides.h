#pragma once

#include <cstdint>
#include <vector>

#include "titan/nki/tensor.h"

namespace titan::nki {

/// More elements than any memory has: sums of a few numbers up to it do not overflow.
inline constexpr int64_t kMostElements = int64_t{1} << 48;

/// The dimensions from `first` on as few as reach the same elements in the same order: sizes of 1 go,
/// neighbours that are one run of equal steps become one.
std::vector<Dim> merged_dims(const std::vector<Dim>& dims, int64_t first);

}  // namespace titan::nki
