#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "titan/config/fields.h"

namespace titan {

/// The reference's experiment with torchft.
struct FaultToleranceConfig {
  bool enable = false;
  std::string process_group = "gloo";
  int64_t process_group_timeout_ms = 10000;
  int64_t replica_id = 0;
  int64_t group_size = 0;
  int64_t min_replica_size = 1;
  std::optional<std::string> semi_sync_method = {};
  int64_t sync_steps = 5;
  bool should_quantize = false;
  int64_t fragment_sync_delay = 0;
  double fragment_update_alpha = 0.0;
  std::vector<std::vector<std::string>> module_fqns_per_model_fragment = {};
  int64_t num_fragments = 1;

  void describe(Fields& f) {
    f("enable", enable, "Replica groups that may come and go", Status::refused);
    f("process_group", process_group, "Backend between replicas", Status::refused);
    f("process_group_timeout_ms", process_group_timeout_ms, "Its time limit", Status::refused);
    f("replica_id", replica_id, "This replica's number", Status::refused);
    f("group_size", group_size, "Number of replicas", Status::refused);
    f("min_replica_size", min_replica_size, "Least number of replicas", Status::refused);
    f("semi_sync_method", semi_sync_method, "local_sgd or diloco", Status::refused);
    f("sync_steps", sync_steps, "Steps between synchronisations", Status::refused);
    f("should_quantize", should_quantize, "Quantise what is exchanged", Status::refused);
    f("fragment_sync_delay", fragment_sync_delay, "Steps a fragment's exchange may take", Status::refused);
    f("fragment_update_alpha", fragment_update_alpha, "Share of the local weights kept", Status::refused);
    f("module_fqns_per_model_fragment", module_fqns_per_model_fragment, "Modules of each fragment",
      Status::refused);
    f("num_fragments", num_fragments, "Number of fragments", Status::refused);
  }
};

}  // namespace titan
