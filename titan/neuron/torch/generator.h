#pragma once

#include <ATen/core/Generator.h>

#include <optional>

namespace titan::neuron {

/// The device's generator, seeded by torch::manual_seed as the CPU's is: with one seed both give the same
/// numbers.
const at::Generator& default_generator();

/// Another generator of the device.
at::Generator make_generator();

/// The generator that a CPU kernel draws from for `given`, the device's or none: the default one. ValueError
/// for one of another device.
at::Generator host_generator(const std::optional<at::Generator>& given);

}  // namespace titan::neuron
