#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "titan/nki/tensor.h"

namespace titan::nki {

/// How many neighbouring elements of a partition one result is made of, where `axes` (from the end if
/// negative) are the last free dimensions of `data`; nothing where they are not.
inline std::optional<int64_t> reduced_free_size(const Tensor& data, std::vector<int64_t> axes) {
  for (int64_t& axis : axes) axis += axis < 0 ? data.ndim() : 0;
  std::ranges::sort(axes, std::greater<>());
  int64_t expected = data.ndim() - 1;
  int64_t size = 1;
  for (const int64_t axis : axes) {
    if (axis != expected-- || axis < 1) return {};
    size *= data.size(axis);
  }
  if (axes.empty()) return {};
  return size;
}

}  // namespace titan::nki
