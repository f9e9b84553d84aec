#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "titan/nki.h"
#include "titan/nki/error.h"
#include "titan/nki/memory.h"

/// What tests of data movement and of TensorE share.
namespace titan::nki::moving {

namespace nl = titan::nki::language;
namespace nisa = titan::nki::isa;

inline int64_t size_of(const std::vector<int64_t>& shape) {
  int64_t size = 1;
  for (const int64_t n : shape) size *= n;
  return size;
}

/// A tensor of the host with these numbers; it counts as written.
inline Tensor host(std::vector<int64_t> shape, Dtype dtype, const std::vector<float>& values) {
  const int64_t count = size_of(shape);
  auto bytes = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(count * itemsize(dtype)));
  from_float(values.data(), dtype, bytes->data(), count);
  void* data = bytes->data();
  return host_tensor("host", std::move(shape), dtype, data, std::move(bytes));
}

/// The numbers of a whole tensor of HBM.
inline std::vector<float> numbers(const Tensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.numel()));
  to_float(tensor.allocation()->data, tensor.dtype(), values.data(), tensor.numel());
  return values;
}

/// 0, 1, 2, ...
inline std::vector<float> counting(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return values;
}

/// Multiples of 1/4 within -2 .. 2, which every float dtype holds.
inline std::vector<float> quarters(int64_t count, uint32_t seed) {
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) {
    seed = seed * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<int>(seed >> 16) % 17 - 8) / 4;
  }
  return values;
}

/// A tensor of SBUF with these numbers.
inline Tensor on_sbuf(std::vector<int64_t> shape, Dtype dtype, const std::vector<float>& values) {
  Tensor tile = nl::ndarray(shape, dtype);
  nisa::dma_copy(tile, host(shape, dtype, values));
  return tile;
}

/// A tensor on chip, brought to the host; PSUM by way of SBUF.
inline std::vector<float> bring(const Tensor& tensor) {
  const Tensor out =
      host(tensor.shape(), tensor.dtype(), std::vector<float>(static_cast<size_t>(tensor.numel())));
  if (tensor.buffer() == Buffer::psum) {
    Tensor copy = nl::ndarray(tensor.shape(), tensor.dtype());
    nisa::tensor_copy(copy, tensor);
    nisa::dma_copy(out, copy);
  } else {
    nisa::dma_copy(out, tensor);
  }
  return numbers(out);
}

inline void on_core(const std::function<void()>& body, const RunOptions& options = {}) {
  run_on_cores(options, body);
}

/// The rule that a kernel breaks, and what is said about it.
struct Broken {
  std::string rule, what;
  bool says(const std::string& text) const { return what.find(text) != std::string::npos; }
};
inline Broken broken(const std::function<void()>& body, const RunOptions& options = {}) {
  try {
    run_on_cores(options, body);
  } catch (const KernelError& error) {
    return {error.rule, error.what()};
  }
  return {"none", ""};
}

}  // namespace titan::nki::moving
