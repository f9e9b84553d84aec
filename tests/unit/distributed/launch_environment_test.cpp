#include <doctest/doctest.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include "titan/base/error.h"
#include "titan/distributed/world.h"

namespace titan {
namespace {

using Variables = std::map<std::string, std::string>;

/// The launch that these variables, and no others, describe.
Launch launch_of(const Variables& variables) {
  Variables before;
  for (const char* name :
       {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT",
        "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"}) {
    if (const char* value = std::getenv(name)) before[name] = value;
    unsetenv(name);
  }
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  const auto restore = [&] {
    for (const auto& [name, value] : variables) unsetenv(name.c_str());
    for (const auto& [name, value] : before) setenv(name.c_str(), value.c_str(), 1);
  };
  try {
    const Launch launch = Launch::from_env();
    restore();
    return launch;
  } catch (const ConfigError&) {
    restore();
    throw;
  }
}

const Variables kWorker = {{"RANK", "5"},
                           {"WORLD_SIZE", "8"},
                           {"LOCAL_RANK", "1"},
                           {"LOCAL_WORLD_SIZE", "4"},
                           {"GROUP_RANK", "1"},
                           {"MASTER_ADDR", "node0"},
                           {"MASTER_PORT", "29500"},
                           {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                           {"TORCHELASTIC_RUN_ID", "job"},
                           {"TORCHELASTIC_RESTART_COUNT", "2"}};

/// What is said when `name` has that value, or is missing.
std::string refusal(const std::string& name, const std::optional<std::string>& value) {
  Variables variables = kWorker;
  variables.erase(name);
  if (value) variables[name] = *value;
  try {
    launch_of(variables);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("without WORLD_SIZE there is one process, whatever else is set") {
  const Launch launch = launch_of({{"RANK", "nonsense"}, {"MASTER_PORT", "x"}});
  CHECK(launch.world_size == 1);
  CHECK(launch.rank == 0);
  CHECK(launch.local_world_size == 1);
}

TEST_CASE("a worker of torchrun knows its place") {
  const Launch launch = launch_of(kWorker);
  CHECK(launch.rank == 5);
  CHECK(launch.world_size == 8);
  CHECK(launch.local_rank == 1);
  CHECK(launch.local_world_size == 4);
  CHECK(launch.group_rank == 1);
  CHECK(launch.master_addr == "node0");
  CHECK(launch.master_port == 29500);
  CHECK(launch.agent_store);
  CHECK(launch.run_id == "job");
  CHECK(launch.restart_count == 2);
}

TEST_CASE("a worker of no launcher is on one node with the others") {
  const Launch launch =
      launch_of({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "1"}});
  CHECK(launch.local_rank == 1);
  CHECK(launch.local_world_size == 2);
  CHECK_FALSE(launch.agent_store);
}

TEST_CASE("a job of one process needs no endpoint") {
  CHECK(launch_of({{"WORLD_SIZE", "1"}}).world_size == 1);
}

TEST_CASE("a variable that is missing or makes no sense is named") {
  const auto names = [](const std::string& text, const std::string& name) {
    return text.find("the environment variable " + name + " is") != std::string::npos;
  };
  for (const char* name : {"RANK", "MASTER_ADDR", "MASTER_PORT"})
    CHECK(names(refusal(name, std::nullopt), name));
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK",
                           "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"}) {
    CHECK(names(refusal(name, "4x"), name));
    CHECK(names(refusal(name, "-1"), name));
    CHECK(names(refusal(name, "99999999999999999999"), name));
  }
  CHECK(names(refusal("RANK", "8"), "RANK"));
  CHECK(names(refusal("LOCAL_RANK", "4"), "LOCAL_RANK"));
  CHECK(names(refusal("LOCAL_WORLD_SIZE", "9"), "LOCAL_WORLD_SIZE"));
  CHECK(names(refusal("WORLD_SIZE", "0"), "WORLD_SIZE"));
  CHECK(names(refusal("MASTER_PORT", "70000"), "MASTER_PORT"));
}

}  // namespace titan
