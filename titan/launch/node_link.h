#pragma once

#include <functional>
#include <memory>
#include <string>

#include "titan/base/json.h"
#include "titan/launch/event_loop.h"
#include "titan/launch/options.h"

namespace titan {

/// A launcher's side of the job: messages of Coordinator, to and from wherever it runs.
class NodeLink {
 public:
  struct Events {
    std::function<void(const Json& message)> on_message;
    /// The job cannot go on: refused, nobody came, or the node that decides is lost.
    std::function<void(const std::string& why)> on_error;
  };

  virtual ~NodeLink() = default;
  virtual void report(const Json& message) = 0;
  /// Delivers what was reported last, and leaves.
  virtual void close() = 0;
};

/// Hosts the rendezvous where the options' endpoint is this node's, else joins the one there. Throws
/// ValueError: port in use, an endpoint that no node of the job can host.
std::unique_ptr<NodeLink> make_node_link(const TorchrunOptions& options, NodeLink::Events events,
                                         EventLoop& loop);

}  // namespace titan
