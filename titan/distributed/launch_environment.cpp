#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "titan/base/env.h"
#include "titan/base/error.h"
#include "titan/base/number.h"
#include "titan/distributed/world.h"

namespace titan {
namespace {

std::optional<int64_t> number_from_env(const char* name, int64_t lowest, int64_t highest) {
  const std::optional<std::string> text = env(name);
  if (!text) return std::nullopt;
  const auto value = parse_number<int64_t>(*text);
  if (!value) {
    throw ConfigError("the environment variable {} is '{}'; torchrun sets it to a whole number", name, *text);
  }
  if (*value < lowest || *value > highest) {
    throw ConfigError("the environment variable {} is {}; it must be from {} to {}", name, *value, lowest,
                      highest);
  }
  return value;
}

template <class T>
T required_from_env(std::optional<T> value, const char* name, int64_t world_size) {
  if (value) return *value;
  throw ConfigError(
      "WORLD_SIZE is {} but the environment variable {} is not set; start ranks by torchrun or titan "
      "torchrun, "
      "which set both, or unset WORLD_SIZE to run one process",
      world_size, name);
}

}  // namespace

Launch Launch::from_env() {
  constexpr int64_t kMany = std::numeric_limits<int32_t>::max();
  Launch launch;
  const std::optional<int64_t> world_size = number_from_env("WORLD_SIZE", 1, kMany);
  if (!world_size) return launch;
  launch.world_size = *world_size;
  const std::optional<int64_t> rank = number_from_env("RANK", 0, launch.world_size - 1);
  const std::optional<int64_t> group_rank = number_from_env("GROUP_RANK", 0, launch.world_size - 1);
  const std::optional<int64_t> local_size = number_from_env("LOCAL_WORLD_SIZE", 1, launch.world_size);
  launch.group_rank = group_rank.value_or(0);
  // Without a launcher all ranks are on one node; with one that does not tell, only this rank is known to be.
  launch.local_world_size = local_size.value_or(group_rank ? 1 : launch.world_size);
  const std::optional<int64_t> local_rank =
      number_from_env("LOCAL_RANK", 0, (local_size ? *local_size : launch.world_size) - 1);
  launch.agent_store = env("TORCHELASTIC_USE_AGENT_STORE") == "True";
  launch.run_id = env("TORCHELASTIC_RUN_ID").value_or("");
  launch.restart_count = number_from_env("TORCHELASTIC_RESTART_COUNT", 0, kMany).value_or(0);
  const std::optional<int64_t> port = number_from_env("MASTER_PORT", 1, 65535);
  const std::optional<std::string> address = env("MASTER_ADDR");
  if (launch.world_size == 1) {
    launch.rank = rank.value_or(0);
    launch.master_addr = address.value_or("");
    launch.master_port = port.value_or(0);
    return launch;
  }
  launch.rank = required_from_env(rank, "RANK", launch.world_size);
  launch.local_rank = local_rank.value_or(group_rank ? 0 : launch.rank);
  launch.master_addr = required_from_env(address, "MASTER_ADDR", launch.world_size);
  launch.master_port = required_from_env(port, "MASTER_PORT", launch.world_size);
  return launch;
}

}  // namespace titan
