#include <initializer_list>

#include "titan/nki/check_rules.h"

namespace titan::nki {

namespace {

/// Bits of Engine.
constexpr unsigned engine_set(std::initializer_list<Engine> engines) {
  unsigned set = 0;
  for (const Engine engine : engines) set |= 1U << static_cast<unsigned>(engine);
  return set;
}

/// Engines that carry an instruction out.
struct EnginesOf {
  using enum Engine;
  static constexpr unsigned any = engine_set({tensor, vector, scalar, gpsimd, dma, sync});

  unsigned operator()(const DmaCopy&) const { return engine_set({dma}); }
  unsigned operator()(const DmaTranspose&) const { return engine_set({dma}); }
  unsigned operator()(const DmaCompute&) const { return engine_set({dma}); }
  unsigned operator()(const SendRecv&) const { return engine_set({dma}); }
  unsigned operator()(const CoreBarrier&) const { return any; }
  unsigned operator()(const DevicePrint&) const { return any | 1U; }
  unsigned operator()(const TensorCopy&) const { return engine_set({vector, scalar, gpsimd}); }
  unsigned operator()(const Memset&) const { return engine_set({vector, gpsimd}); }
  unsigned operator()(const Iota&) const { return engine_set({gpsimd}); }
  unsigned operator()(const AffineSelect&) const { return engine_set({gpsimd}); }
  unsigned operator()(const TensorPartitionReduce&) const { return engine_set({gpsimd}); }
  unsigned operator()(const Matmul&) const { return engine_set({tensor}); }
  unsigned operator()(const Transpose&) const { return engine_set({tensor, vector}); }
  unsigned operator()(const TensorTensor&) const { return engine_set({vector, gpsimd}); }
  unsigned operator()(const TensorScalar&) const { return engine_set({vector, scalar, gpsimd}); }
  unsigned operator()(const Activation&) const { return engine_set({scalar}); }
  unsigned operator()(const Reciprocal&) const { return engine_set({vector, scalar}); }
  template <class Other>
  unsigned operator()(const Other&) const {
    return engine_set({Engine::vector});
  }
};

std::string engine_names(unsigned set) {
  std::vector<std::string> names;
  for (unsigned i = 1; i <= static_cast<unsigned>(Engine::sync); ++i) {
    if ((set & (1U << i)) != 0) names.emplace_back(engine_name(static_cast<Engine>(i)));
  }
  return join(names, ", ");
}

}  // namespace

void check_engine(const Checked& checked) {
  const Engine engine = checked.instruction.engine;
  const unsigned allowed = std::visit(EnginesOf{}, checked.instruction.attributes);
  if ((allowed & engine_set({engine})) != 0) return;
  checked.fail("engine", format("engine {} does not carry out {}: use {}", engine_name(engine),
                                checked.instruction.name(), engine_names(allowed)));
}

}  // namespace titan::nki
