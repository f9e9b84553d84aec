#pragma once

// The kernels that every recorded operator has in torch's dispatcher: a heavy header.

#include <ATen/core/boxing/OperatorKernel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <memory>

#include "titan/ops/recorded_operators.h"

namespace titan {

/// Runs the body: for CPU, which `neuron` uses too, and for Meta.
class OpBodyKernel final : public c10::OperatorKernel {
 public:
  explicit OpBodyKernel(std::shared_ptr<const OperatorRecord> record) : record_(std::move(record)) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) const;

 private:
  std::shared_ptr<const OperatorRecord> record_;
};

/// Notes that the arguments named in mutates_args have changed.
class OpMutationKernel final : public c10::OperatorKernel {
 public:
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) const;
};

/// Runs the forward and hangs the recorded backward on its results.
class OpAutogradKernel final : public c10::OperatorKernel {
 public:
  explicit OpAutogradKernel(std::shared_ptr<const OperatorRecord> record) : record_(std::move(record)) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) const;

 private:
  std::shared_ptr<const OperatorRecord> record_;
};

}  // namespace titan
