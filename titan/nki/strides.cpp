#include "titan/nki/strides.h"

namespace titan::nki {

std::vector<Dim> merged_dims(const std::vector<Dim>& dims, int64_t first) {
  std::vector<Dim> merged;
  for (auto dim = dims.begin() + first; dim != dims.end(); ++dim) {
    if (dim->count == 1) continue;
    if (!merged.empty() && merged.back().stride == dim->count * dim->stride) {
      merged.back() = {merged.back().count * dim->count, dim->stride};
    } else {
      merged.push_back(*dim);
    }
  }
  return merged;
}

}  // namespace titan::nki
