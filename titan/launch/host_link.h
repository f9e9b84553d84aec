#pragma once

#include <map>
#include <memory>

#include "titan/launch/agent_store.h"
#include "titan/launch/connection.h"
#include "titan/launch/coordinator.h"
#include "titan/launch/node_link.h"

namespace titan {

/// The node that decides: it listens for the others, and its own launcher is one of them.
class HostLink : public NodeLink {
 public:
  /// `listener` is closed where there is one node only, and nobody to meet.
  HostLink(const TorchrunOptions& options, OwnedFd listener, Events events, EventLoop& loop);
  ~HostLink() override;

  void report(const Json& message) override;
  void close() override;

 private:
  void accept_node();
  void on_line(int64_t node, const std::string& line);
  void greet(int64_t node, const std::string& line);
  void refuse(int64_t node, const std::string& why);
  void drop(int64_t node);
  void send(int64_t node, const Json& message);
  Coordinator::StoreAddress open_store();
  void wait_for_nodes();

  struct Peer {
    std::unique_ptr<LineConnection> connection;
    bool joined = false;
  };

  const TorchrunOptions& options_;
  Events events_;
  EventLoop& loop_;
  OwnedFd listener_, store_listener_;
  AgentStore store_;
  Coordinator coordinator_;
  std::map<int64_t, Peer> peers_;
  int64_t next_node_ = Coordinator::kOwnNode + 1;
};

}  // namespace titan
