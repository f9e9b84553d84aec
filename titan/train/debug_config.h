#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "titan/config/fields.h"

namespace titan {

/// Seeds, determinism and what is written down about a run.
struct DebugConfig {
  std::optional<int64_t> seed = {};
  bool deterministic = false;
  bool deterministic_warn_only = false;
  bool moe_force_load_balance = false;
  bool detect_anomaly = false;
  bool batch_invariant = false;
  bool spmd_typechecking = false;
  bool print_config = false;
  std::optional<std::string> save_config_file = {};
  bool enable_structured_logging = true;

  void describe(Fields& f) {
    f("seed", seed, "Seed of the initial weights; none: drawn and logged");
    f("deterministic", deterministic,
      "torch's deterministic algorithms; an operator without one is an error");
    f("deterministic_warn_only", deterministic_warn_only, "Such an operator only warns");
    f("moe_force_load_balance", moe_force_load_balance, "Send tokens to experts in turn", Status::refused);
    f("detect_anomaly", detect_anomaly, "autograd's anomaly mode: name the operator of a non-finite gradient",
      Status::refused);
    f("batch_invariant", batch_invariant, "The reference refuses it for pre-training", Status::refused);
    f("spmd_typechecking", spmd_typechecking, "The reference's check of sharded types", Status::refused);
    f("print_config", print_config, "Log the configuration");
    f("save_config_file", save_config_file, "Write the configuration to this file, under dump_folder");
    f("enable_structured_logging", enable_structured_logging, "The reference's log of spans",
      Status::no_meaning);
  }
};

}  // namespace titan
