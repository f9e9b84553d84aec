#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>

#include "titan/train/kernel_check_kinds.h"
#include "titan/train/kernel_check_sets.h"
#include "titan/train/kernel_check_table.h"

namespace titan {

/// What a call of a user's code ended with: nothing, or what it threw.
struct Thrown {
  std::string error;
  bool is_refusal = true;  ///< a ValueError, which says that the call cannot be
};

/// Runs `work`; what a user's module throws becomes part of the report, whatever it is.
Thrown guarded(const std::function<void()>& work);

/// Of two undefined tensors too.
bool has_same_bits(const at::Tensor& a, const at::Tensor& b);

/// A module in a check, and where it is.
struct CheckedModule {
  const CheckKind& kind;
  const Module& module;
  at::Device device;
};

/// Calls a module forward and backward on a set's inputs; watches what it may not write.
CheckRun run_module(const CheckedModule& checked, const CheckSet& set);
/// The same with a call on other inputs between forward and backward, as another layer's or micro-batch's.
CheckRun run_apart(const CheckedModule& checked, const CheckSet& set);

}  // namespace titan
