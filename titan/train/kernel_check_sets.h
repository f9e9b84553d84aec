#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "titan/train/kernel_check_kinds.h"

namespace titan {

/// What a kernel check draws, it draws from this.
inline constexpr uint64_t kCheckSeed = 20260701;

/// One choice of inputs.
struct CheckSet {
  at::ScalarType dtype = at::kFloat;
  int64_t batch = 1, seq_len = 0;
  bool has_documents = false;
  /// A rotary cache of any numbers: the kernel reads each where it should. Both halves of a real one hold the
  /// same numbers.
  bool has_drawn_cache = false;
  /// Small numbers, such as an embedding's rows, show what is added to their squares.
  double scale = 1;
  uint64_t seed = kCheckSeed;

  /// As the table has it.
  std::string text(const CheckKind& kind) const;
};

/// What a kind of module is given: one tensor per input, [B, T, dims...].
std::vector<at::Tensor> draw(const CheckKind& kind, const CheckSet& set);

/// What a module makes of the positions of a set.
LayerContext context_for(const CheckKind& kind, const CheckSet& set, const Module& module, at::Device device);

}  // namespace titan
