#include "titan/launch/worker_env.h"

#include <unistd.h>

#include <map>

#include "titan/base/env.h"
#include "titan/base/error.h"
#include "titan/launch/process.h"

namespace titan {
namespace {

std::map<std::string, std::string> own_environment() {
  std::map<std::string, std::string> variables;
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string::npos) variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

/// The one GPU that a worker sees under --virtual-local-rank.
std::string visible_gpu(int64_t local_rank) {
  const auto visible = env("CUDA_VISIBLE_DEVICES");
  if (!visible) return format("{}", local_rank);
  const std::vector<std::string> gpus = split(*visible, ',');
  if (local_rank >= static_cast<int64_t>(gpus.size())) {
    throw ValueError("--virtual_local_rank: local rank {} has no GPU in CUDA_VISIBLE_DEVICES={}", local_rank,
                     *visible);
  }
  return std::string(trim(gpus[static_cast<size_t>(local_rank)]));
}

std::string signal_names(const std::vector<int>& signals) {
  std::vector<std::string> names;
  for (const int signal : signals) names.push_back(name_of_signal(signal));
  return join(names, ",");
}

}  // namespace

Json Assignment::to_json() const {
  Json json = Json::object();
  json.append_member("group_rank", group_rank);
  json.append_member("group_world_size", group_world_size);
  json.append_member("first_rank", first_rank);
  json.append_member("world_size", world_size);
  json.append_member("first_role_rank", first_role_rank);
  json.append_member("role_world_size", role_world_size);
  json.append_member("master_addr", master_addr);
  json.append_member("master_port", master_port);
  json.append_member("restart_count", restart_count);
  return json;
}

Assignment Assignment::from_json(const Json& json) {
  return {.group_rank = json["group_rank"].as_int(),
          .group_world_size = json["group_world_size"].as_int(),
          .first_rank = json["first_rank"].as_int(),
          .world_size = json["world_size"].as_int(),
          .first_role_rank = json["first_role_rank"].as_int(),
          .role_world_size = json["role_world_size"].as_int(),
          .master_addr = json["master_addr"].as_string(),
          .master_port = json["master_port"].as_int(),
          .restart_count = json["restart_count"].as_int()};
}

std::vector<std::string> worker_environment(const TorchrunOptions& options, const Assignment& assignment,
                                            int64_t local_rank, const std::string& error_file) {
  std::map<std::string, std::string> variables = own_environment();
  const auto set = [&](const char* name, int64_t value) { variables[name] = format("{}", value); };
  set("LOCAL_RANK", options.virtual_local_rank ? 0 : local_rank);
  set("RANK", assignment.first_rank + local_rank);
  set("GROUP_RANK", assignment.group_rank);
  set("ROLE_RANK", assignment.first_role_rank + local_rank);
  set("LOCAL_WORLD_SIZE", options.local_world_size);
  set("WORLD_SIZE", assignment.world_size);
  set("GROUP_WORLD_SIZE", assignment.group_world_size);
  set("ROLE_WORLD_SIZE", assignment.role_world_size);
  set("MASTER_PORT", assignment.master_port);
  set("TORCHELASTIC_RESTART_COUNT", assignment.restart_count);
  set("TORCHELASTIC_MAX_RESTARTS", options.max_restarts);
  variables["MASTER_ADDR"] = assignment.master_addr;
  variables["ROLE_NAME"] = options.role;
  variables["TORCHELASTIC_RUN_ID"] = options.run_id;
  variables["TORCHELASTIC_USE_AGENT_STORE"] =
      options.backend == RendezvousBackend::fixed || serves_store() ? "True" : "False";
  variables["TORCHELASTIC_ERROR_FILE"] = error_file;
  variables["TORCHELASTIC_SIGNALS_TO_HANDLE"] = signal_names(options.signals);
  variables.emplace("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  if (options.local_world_size > 1) variables.emplace("OMP_NUM_THREADS", "1");
  if (options.virtual_local_rank) variables["CUDA_VISIBLE_DEVICES"] = visible_gpu(local_rank);
  std::vector<std::string> entries;
  for (const auto& [name, value] : variables) entries.push_back(name + "=" + value);
  return entries;
}

std::string line_prefix(const TorchrunOptions& options, const Assignment& assignment, int64_t local_rank) {
  const auto pattern = env("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE");
  if (!pattern) return format("[{}{}]:", options.role, local_rank);
  std::string prefix = substitute(*pattern, "role_name", options.role);
  prefix = substitute(prefix, "local_rank", format("{}", local_rank));
  return substitute(prefix, "rank", format("{}", assignment.first_rank + local_rank));
}

std::string substitute(std::string text, std::string_view name, std::string_view value) {
  const std::string place = format("${{}}", name);
  for (size_t at = 0; (at = text.find(place, at)) != std::string::npos; at += value.size()) {
    text.replace(at, place.size(), value);
  }
  return text;
}

bool serves_store() { return env("TORCH_DISABLE_SHARE_RDZV_TCP_STORE") != "1"; }

}  // namespace titan
