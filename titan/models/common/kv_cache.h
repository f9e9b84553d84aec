#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

// B batch, S capacity in tokens, K key heads, H head_dim.
namespace titan {

/// Keys and values of one layer.
struct LayerCache {
  at::Tensor k_BSKH;
  at::Tensor v_BSKH;
};

/// Keys and values of the tokens that a model has already seen, for generation without gradients.
class KVCache {
 public:
  KVCache(std::vector<LayerCache> layers, int64_t capacity)
      : layers_(std::move(layers)), capacity_(capacity) {}

  LayerCache& layer(size_t index) { return layers_[index]; }
  int64_t length() const { return length_; }
  int64_t capacity() const { return capacity_; }
  void advance(int64_t tokens) { length_ += tokens; }

 private:
  std::vector<LayerCache> layers_;
  int64_t length_ = 0;
  int64_t capacity_;
};

}  // namespace titan
