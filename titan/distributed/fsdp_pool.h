#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace titan {

/// Memory for gathered weights. A block that one unit gives back waits for the next unit of the same size, so
/// that layers use the same pages again and again; as soon as another size is asked for, what waits is freed.
/// Thus blocks in use and blocks that wait are together no more than the units that are gathered at once.
class StoragePool {
 public:
  /// A block of that many bytes (uint8, undefined content).
  at::Tensor take(int64_t bytes, at::Device device);

  void give_back(at::Tensor block);

 private:
  std::vector<at::Tensor> waiting_;
};

}  // namespace titan
