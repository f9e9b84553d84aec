#include "titan/launch/coordinator.h"

#include <doctest/doctest.h>

#include "titan/base/error.h"
#include "titan/launch/worker_env.h"

using namespace titan;

namespace {

/// A job whose nodes are this test.
struct Job {
  explicit Job(int64_t min_nodes, int64_t max_nodes, int64_t max_restarts = 0) {
    options.min_nodes = min_nodes;
    options.max_nodes = max_nodes;
    options.max_restarts = max_restarts;
    options.run_id = "job";
  }

  std::optional<std::string> join(int64_t node, int64_t workers = 1, const std::string& role = "default") {
    NodeHello hello = NodeHello::of(options);
    hello.local_world_size = workers;
    hello.role = role;
    return coordinator.join(node, hello);
  }

  void say(int64_t node, const std::string& type, double failed_at = 0) {
    Json message = Json::object();
    message.append_member("type", type);
    if (failed_at > 0) {
      Failure failure;
      failure.rank = node;
      failure.time = failed_at;
      message.append_member("failure", failure.to_json());
    }
    coordinator.message(node, message);
  }

  std::string last(int64_t node) { return sent[node].back()["type"].as_string(); }
  Assignment assignment(int64_t node) { return Assignment::from_json(sent[node].back()["assignment"]); }

  TorchrunOptions options;
  std::map<int64_t, std::vector<Json>> sent;
  int stores = 0, enough = 0;
  Coordinator coordinator{
      options,
      {.send = [this](int64_t node, const Json& message) { sent[node].push_back(message); },
       .open_store = [this] { return Coordinator::StoreAddress{"host", 1000 + ++stores}; },
       .on_enough = [this] { ++enough; }}};
};

}  // namespace

TEST_CASE("ranks follow the order of arrival, with different numbers of workers and roles") {
  Job job(3, 3);
  job.join(0, 2, "a");
  job.join(4, 3, "b");
  CHECK(job.sent.empty());
  job.join(2, 1, "a");
  const Assignment second = job.assignment(4), third = job.assignment(2);
  CHECK(second.group_rank == 1);
  CHECK(second.first_rank == 2);
  CHECK(second.first_role_rank == 0);
  CHECK(second.role_world_size == 3);
  CHECK(third.first_rank == 5);
  CHECK(third.world_size == 6);
  CHECK(third.first_role_rank == 2);
  CHECK(third.role_world_size == 3);
  CHECK(third.master_port == 1001);
}

TEST_CASE("the job ends well when every node is done, and not before") {
  Job job(2, 2);
  job.join(0);
  job.join(1);
  job.say(1, "done");
  CHECK(job.last(0) == "start");
  job.say(0, "done");
  CHECK(job.last(0) == "end");
  CHECK(job.sent[1].back().find("failure") == nullptr);
}

TEST_CASE("a failure stops all nodes, and all start again with a fresh store") {
  Job job(2, 2, 1);
  job.join(0);
  job.join(1);
  job.say(1, "failed", 5);
  CHECK(job.last(0) == "stop");
  CHECK(job.last(1) == "stop");
  job.say(0, "stopped");
  CHECK(job.stores == 1);
  job.say(1, "stopped");
  CHECK(job.assignment(0).restart_count == 1);
  CHECK(job.assignment(1).master_port == 1002);
}

TEST_CASE("without restarts left the earliest failure of any node is told to all") {
  Job job(2, 2);
  job.join(0);
  job.join(1);
  job.say(0, "failed", 5);
  job.say(0, "stopped", 5);
  job.say(1, "stopped", 4);
  for (const int64_t node : {0, 1}) {
    CHECK(job.last(node) == "end");
    CHECK(Failure::from_json(job.sent[node].back()["failure"]).rank == 1);
  }
}

TEST_CASE("a lost node ends a job that needs it, and a range goes on without it") {
  Job needs(2, 2, 3);
  needs.join(0);
  needs.join(1);
  needs.coordinator.lost(1, "gone");
  needs.say(0, "stopped");
  CHECK(needs.last(0) == "end");
  Job range(1, 2, 3);
  range.join(0);
  range.join(1);
  range.coordinator.lost(1, "gone");
  range.say(0, "stopped");
  CHECK(range.assignment(0).world_size == 1);
  CHECK(range.assignment(0).restart_count == 1);
}

TEST_CASE("a node that comes late to a range makes all start again, without counting as a restart") {
  Job job(1, 2);
  job.join(0);
  CHECK(job.enough == 1);
  job.coordinator.close_call();
  CHECK(job.assignment(0).world_size == 1);
  CHECK_FALSE(job.join(1).has_value());
  CHECK(job.last(0) == "stop");
  job.say(0, "stopped");
  CHECK(job.assignment(1).first_rank == 1);
  CHECK(job.assignment(1).restart_count == 0);
}

TEST_CASE("nodes that do not fit are refused with the reason") {
  Job job(2, 2);
  job.join(0);
  NodeHello other = NodeHello::of(job.options);
  other.version = "0.0.1";
  CHECK(job.coordinator.join(1, other)->starts_with("titan's version is 0.0.1 on this node and"));
  job.join(1);
  CHECK(job.join(2)->starts_with("the job has all its nodes already"));
  job.say(0, "done");
  job.say(1, "done");
  CHECK(job.join(2)->find("has ended") != std::string::npos);
}

TEST_CASE("when the node that decides leaves, the others' job ends") {
  Job job(2, 2, 5);
  job.join(0);
  job.join(1);
  job.coordinator.lost(Coordinator::kOwnNode, "signal");
  CHECK(job.last(1) == "end");
  CHECK(job.sent[1].back().find("failure") != nullptr);
}
