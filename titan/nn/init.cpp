#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <array>
#include <cmath>
#include <numbers>

#include "titan/base/error.h"
#include "titan/nn/parameter.h"

namespace titan {

namespace {

using Words = std::array<uint32_t, 4>;

/// Philox-4x32 with 10 rounds; constants of the paper.
Words philox(Words counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

/// FNV-1a, 64 bits.
uint64_t hash_name(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

/// Element `index` of the stream of standard normal numbers that belongs to (seed, name).
/// One scalar routine for every element, so that the place of an element in a block cannot matter.
float standard_normal(uint64_t seed, uint64_t name_hash, uint64_t index) {
  const uint64_t group = index / 4;
  const Words words = philox({static_cast<uint32_t>(group), static_cast<uint32_t>(group >> 32),
                              static_cast<uint32_t>(name_hash), static_cast<uint32_t>(name_hash >> 32)},
                             {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  const size_t pair = (index % 4) & ~size_t{1};
  constexpr float kUnit = 1.0f / 4294967296.0f;
  const float radius = std::sqrt(-2.0f * std::log((static_cast<float>(words[pair]) + 0.5f) * kUnit));
  const float angle = 2.0f * std::numbers::pi_v<float> * static_cast<float>(words[pair + 1]) * kUnit;
  return radius * (index % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

/// Index in the whole weight of element `i` of a block.
uint64_t global_index(int64_t i, const std::vector<int64_t>& shape, const Block& block) {
  uint64_t index = 0, stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    index += static_cast<uint64_t>(block.offset[d] + i % block.shape[d]) * stride;
    i /= block.shape[d];
    stride *= static_cast<uint64_t>(shape[d]);
  }
  return index;
}

}  // namespace

void fill_block(const at::Tensor& out, const Init& init, const std::vector<int64_t>& shape,
                const Block& block, uint64_t seed, std::string_view name) {
  check(out.is_contiguous() && out.sizes().equals(block.shape), "a block is filled in its own shape");
  if (!out.is_cpu()) {
    // The numbers are made on the host.
    const at::Tensor host = at::empty(out.sizes(), out.options().device(at::kCPU).requires_grad(false));
    fill_block(host, init, shape, block, seed, name);
    out.copy_(host);
    return;
  }
  if (init.kind == Init::Kind::constant) {
    out.fill_(init.value);
    return;
  }
  const bool narrow = out.scalar_type() == at::kBFloat16;
  check(narrow || out.scalar_type() == at::kFloat, "parameters are float32 or bfloat16");
  const uint64_t name_hash = hash_name(name);
  const float std_dev = static_cast<float>(init.value);
  void* data = out.data_ptr();
  at::parallel_for(0, out.numel(), 1 << 14, [&](int64_t begin, int64_t end) {
    const int64_t row = block.shape.empty() ? 1 : block.shape.back();
    uint64_t index = 0;
    for (int64_t i = begin; i < end; ++i, ++index) {
      if (i == begin || i % row == 0) index = global_index(i, shape, block);
      const float value = std_dev * standard_normal(seed, name_hash, index);
      if (narrow) {
        static_cast<c10::BFloat16*>(data)[i] = c10::BFloat16(value);
      } else {
        static_cast<float*>(data)[i] = value;
      }
    }
  });
}

}  // namespace titan
