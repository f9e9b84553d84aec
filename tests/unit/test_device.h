#pragma once

#include <ATen/ops/empty.h>

namespace titan::tests {

/// Where tensors are made that name no device: the CPU, or neuron (default_device.cpp).
inline at::Device test_device() { return at::empty({0}).device(); }

}  // namespace titan::tests
