#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "titan/base/json.h"
#include "titan/launch/failure.h"
#include "titan/launch/options.h"

namespace titan {

/// What a launcher says of its node when it joins.
struct NodeHello {
  std::string version, run_id, nnodes, backend;  ///< must be the same on all nodes
  std::string host, role;
  int64_t local_world_size = 1;
  int64_t node_rank = 0;  ///< only with the static backend

  /// This node's.
  static NodeHello of(const TorchrunOptions& options);
  Json to_json() const;
  static NodeHello from_json(const Json& json);
};

/// Decides for all nodes of a job: who is in it, when it starts, stops, starts again and ends. It knows
/// nothing of sockets; nodes have numbers that the caller chose, kOwnNode for the one that decides.
///
/// To a node: {"type": "start", "assignment"}, {"type": "stop"} (answered by "stopped"), {"type": "end",
/// "failure"?}. From a node: {"type": "done"}, {"type": "failed", "failure"}, {"type": "stopped",
/// "failure"?},
/// {"type": "leaving", "message"}.
class Coordinator {
 public:
  static constexpr int64_t kOwnNode = 0;

  struct StoreAddress {
    std::string host;
    int64_t port = 0;
  };
  struct Actions {
    std::function<void(int64_t node, const Json& message)> send;
    std::function<StoreAddress()> open_store;  ///< a fresh store for the workers
    std::function<void()> on_enough;           ///< the least number of nodes is there, but not the most
  };

  Coordinator(const TorchrunOptions& options, Actions actions)
      : options_(options), actions_(std::move(actions)) {}

  /// Takes the node in and returns nothing, or says why not.
  std::optional<std::string> join(int64_t node, const NodeHello& hello);
  /// Starts with the nodes that are there, where they are enough.
  void close_call();
  void message(int64_t node, const Json& message);
  /// The node will send nothing more.
  void lost(int64_t node, const std::string& why);

  bool gathering() const { return state_ == State::gathering; }
  /// "1 of 2 nodes (node1)".
  std::string present() const;

 private:
  enum class State { gathering, running, stopping, ended };
  struct Node {
    int64_t number;
    NodeHello hello;
    bool done = false, stopped = false;
  };

  std::optional<std::string> mismatch(const NodeHello& hello) const;
  void start();
  void stop();
  void after_stop();
  void end();
  void send_all(const Json& message);
  void note(const Failure& failure);
  void check_progress();
  Node* find(int64_t number);
  int64_t world_size(const std::vector<Node>& nodes, const std::string& role) const;

  const TorchrunOptions& options_;
  Actions actions_;
  State state_ = State::gathering;
  std::vector<Node> nodes_, late_;
  std::optional<Failure> first_failure_;
  int64_t restart_count_ = 0;
};

}  // namespace titan
