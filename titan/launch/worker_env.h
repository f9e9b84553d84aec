#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "titan/base/json.h"
#include "titan/launch/options.h"

namespace titan {

/// The place of one node's workers in the job.
struct Assignment {
  int64_t group_rank = 0, group_world_size = 1;  ///< this node among the nodes
  int64_t first_rank = 0, world_size = 1;        ///< its workers among all
  int64_t first_role_rank = 0, role_world_size = 1;
  std::string master_addr;
  int64_t master_port = 0;
  int64_t restart_count = 0;

  Json to_json() const;
  static Assignment from_json(const Json& json);
};

/// "NAME=value" for every variable of a worker: this process's own, and those by which torchrun tells a
/// worker its place. `error_file` is "" where there is none.
std::vector<std::string> worker_environment(const TorchrunOptions& options, const Assignment& assignment,
                                            int64_t local_rank, const std::string& error_file);

/// The worker's prefix in console lines, "[rank0]:"; TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE replaces it, with
/// ${role_name}, ${local_rank} and ${rank} in it.
std::string line_prefix(const TorchrunOptions& options, const Assignment& assignment, int64_t local_rank);

/// `text` with every `${name}` replaced.
std::string substitute(std::string text, std::string_view name, std::string_view value);

/// Whether workers are told that the launcher's store serves them (TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 says
/// no: then rank 0 opens it).
bool serves_store();

}  // namespace titan
