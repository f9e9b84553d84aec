#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "titan/nki.h"
#include "titan/nki/error.h"
#include "titan/nki/rows.h"

/// What tests of instructions on elements share: tensors on chip filled and read past all instructions.
namespace titan::nki::lanes {

namespace nl = titan::nki::language;
namespace nisa = titan::nki::isa;
using Floats = std::vector<float>;

/// Runs `body` as a kernel of one core.
inline void on_core(const std::function<void()>& body, RunOptions options = {}) {
  run_on_cores(options, body);
}

inline Floats values(const Tensor& tensor) {
  const Rows rows(tensor);
  Floats all_values(static_cast<size_t>(rows.partitions() * rows.count()));
  for (int64_t p = 0; p < rows.partitions(); ++p) rows.read(p, all_values.data() + p * rows.count());
  return all_values;
}

inline Tensor fill(Tensor tensor, const Floats& from) {
  const Rows rows(tensor);
  for (int64_t p = 0; p < rows.partitions(); ++p) rows.write(p, from.data() + p * rows.count());
  return tensor;
}

/// What a dtype makes of numbers.
inline float rounded(float value, Dtype dtype) {
  std::byte bits[4];
  from_float(&value, dtype, bits, 1);
  to_float(bits, dtype, &value, 1);
  return value;
}

/// Numbers in -3 .. 3 that differ, none of them 0.
inline Floats draw(int64_t count, uint32_t seed) {
  Floats drawn(static_cast<size_t>(count));
  for (float& value : drawn) {
    seed = seed * 1664525U + 1013904223U;
    value = (static_cast<float>(seed >> 8) / 16777216.0F - 0.5F) * 6.0F;
    if (value == 0) value = 1;
  }
  return drawn;
}

inline Tensor drawn(const Tensor& tensor, uint32_t seed) { return fill(tensor, draw(tensor.numel(), seed)); }

inline Tensor tile(std::vector<int64_t> shape, Dtype dtype = Dtype::float32, Buffer buffer = Buffer::sbuf) {
  return nl::ndarray(std::move(shape), dtype, buffer);
}

inline Tensor tile_of(std::vector<int64_t> shape, const Floats& from, Dtype dtype = Dtype::float32) {
  return fill(tile(std::move(shape), dtype), from);
}

/// Ways to lie in memory; `elements` of each partition are 15.
struct Layout {
  const char* name;
  int64_t partitions;
  std::function<Tensor(Dtype, Buffer)> make;
};

inline std::vector<Layout> layouts() {
  return {
      {"one row", 1, [](Dtype d, Buffer b) { return tile({1, 15}, d, b); }},
      {"all partitions", 128, [](Dtype d, Buffer b) { return tile({128, 15}, d, b); }},
      {"every second element", 5,
       [](Dtype d, Buffer b) { return tile({5, 30}, d, b)(all, Slice{0, 30, 2}); }},
      {"partitions from 32 on", 7, [](Dtype d, Buffer b) { return tile({64, 15}, d, b)(ds(32, 7), all); }},
      {"a part of each row", 6, [](Dtype d, Buffer b) { return tile({6, 40}, d, b)(all, ds(11, 15)); }},
      {"dimensions exchanged", 4,
       [](Dtype d, Buffer b) { return tile({4, 3, 5}, d, b).permute({0, 2, 1}).reshape({4, 5, 3}); }},
  };
}

}  // namespace titan::nki::lanes
