#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace titan {

/// How a parameter is filled at the start: every element normal(0, value), or every element `value`.
struct Init {
  enum class Kind { normal, constant };
  Kind kind = Kind::normal;
  double value = 0.0;
};

/// One weight of a model. It is described first (shape, init); `value` stays undefined until the model is
/// materialized.
struct Parameter {
  /// Shape of the whole weight, whatever part of it this process holds.
  std::vector<int64_t> shape;
  Init init;
  /// Whether it gets gradients and is updated.
  bool trainable = true;
  /// The leaf tensor.
  at::Tensor value;

  int64_t numel() const {
    int64_t product = 1;
    for (const int64_t size : shape) product *= size;
    return product;
  }
};

/// A rectangular part of a weight, in the weight's own coordinates.
struct Block {
  std::vector<int64_t> offset;
  std::vector<int64_t> shape;
};

/// Fills `out` (float32 or bfloat16, contiguous, of block.shape) with the part `block` of the weight that
/// `init` describes. An element depends only on (seed, name, its index in the whole weight): any layout
/// starts from the same bits. Normal numbers come from Philox-4x32-10 (Salmon et al. 2011) and the Box-Muller
/// transform.
void fill_block(const at::Tensor& out, const Init& init, const std::vector<int64_t>& shape,
                const Block& block, uint64_t seed, std::string_view name);

}  // namespace titan
