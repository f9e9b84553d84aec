#pragma once

#include <array>
#include <string>
#include <vector>

#include "titan/config/fields.h"

namespace titan {

/// Which activations the backward pass computes again. The kind is the type: `activation_checkpoint:full`.
struct ActivationCheckpointConfig {
  bool preserve_rng_state = true;
  std::string determinism_check = "default";
  bool debug = false;

  void describe(Fields& f) {
    f("preserve_rng_state", preserve_rng_state, "Restore the random state for the second run",
      Status::no_meaning);
    f("determinism_check", determinism_check, "torch's check of the second run", Status::no_meaning);
    f("debug", debug, "torch's debugging output", Status::no_meaning);
  }
};

/// Keeps everything.
struct NoACConfig : ActivationCheckpointConfig {
  void describe(Fields& f) { f.base<ActivationCheckpointConfig>(*this); }
};

/// Keeps attention's output and every second matrix product of a block; norms, rope and SwiGLU run again.
struct SelectiveACConfig : ActivationCheckpointConfig {
  std::vector<std::string> force_recompute_mm_shapes_by_fqns = {"moe.router.gate"};

  void describe(Fields& f) {
    f.base<ActivationCheckpointConfig>(*this);
    f("force_recompute_mm_shapes_by_fqns", force_recompute_mm_shapes_by_fqns,
      "Matrix products that always run again", Status::refused);
  }
};

/// Keeps a block's input only.
struct FullACConfig : ActivationCheckpointConfig {
  void describe(Fields& f) { f.base<ActivationCheckpointConfig>(*this); }
};

/// Keeps what fits into a budget; the reference needs torch.compile for it.
struct MemoryBudgetACConfig : ActivationCheckpointConfig {
  double memory_budget = 0.5;
  bool visualize_memory_budget_pareto = false;

  void describe(Fields& f) {
    f.base<ActivationCheckpointConfig>(*this);
    f("memory_budget", memory_budget, "Share of the activations kept", Status::refused);
    f("visualize_memory_budget_pareto", visualize_memory_budget_pareto, "Draw the trade-off",
      Status::refused);
  }
};

template <>
inline constexpr auto alternatives<ActivationCheckpointConfig> = std::to_array<Alternative>(
    {{"none", &node_type<NoACConfig>, "Keep everything"},
     {"selective", &node_type<SelectiveACConfig>, "Keep attention and every second matrix product"},
     {"full", &node_type<FullACConfig>, "Keep each block's input only"},
     {"memory-budget", &node_type<MemoryBudgetACConfig>, "Keep what fits a budget", Status::refused}});

/// A slot that holds the reference's default, selective.
Poly<ActivationCheckpointConfig> default_activation_checkpoint();

}  // namespace titan
