#pragma once

#include <doctest/doctest.h>

#include "tests/unit/ops/outcome.h"
#include "titan/ops/recorded_operators.h"

namespace titan::testing {

/// Registers the operators of all test files that run, as loading a module does.
inline void load_operators() {
  static const bool loaded = [] {
    register_recorded_operators("the tests");
    return true;
  }();
  CHECK(loaded);
}

inline at::Tensor leaf(at::IntArrayRef sizes, unsigned seed) { return normal(sizes, seed).requires_grad_(); }

}  // namespace titan::testing
