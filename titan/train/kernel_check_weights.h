#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "titan/config/node.h"
#include "titan/nn/module.h"
#include "titan/train/kernel_check_table.h"

namespace titan {

/// By their names: two modules may register theirs in different orders.
std::vector<CheckedValue> weights_of(const Module& module);

/// Builds the module of a node and draws its weights. ValueError when there is none.
ModulePtr build_with_weights(Node node, at::ScalarType dtype, at::Device device);

/// Drawn weights: constants (those of norms) get noise, so that one that is left out shows.
void add_noise(const Module& module, at::ScalarType dtype, at::Device device);

/// Gives `to` the weights of `from`; ValueError naming those that only one of them has.
void copy_weights(const Module& from, const Module& to);

}  // namespace titan
