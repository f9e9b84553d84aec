#pragma once

#include <sys/types.h>

#include <functional>

#include "titan/launch/event_loop.h"
#include "titan/launch/process.h"

namespace titan {

/// The c10d store that TORCHELASTIC_USE_AGENT_STORE promises to workers: a child `titan store`, the only
/// process of a launcher that loads libtorch. Workers may connect at once; they are served when it is ready.
class AgentStore {
 public:
  explicit AgentStore(EventLoop& loop) : loop_(loop) {}
  ~AgentStore() { stop(); }
  AgentStore(const AgentStore&) = delete;
  AgentStore& operator=(const AgentStore&) = delete;

  /// Ends an earlier child and starts one that serves `listening`, a socket that stays the caller's.
  /// `on_loss` is called when it ends by itself. Throws ValueError.
  void start(int listening, std::function<void()> on_loss);
  void stop();

 private:
  EventLoop& loop_;
  pid_t pid_ = 0;
  OwnedFd control_;  ///< the child lives as long as this is open
};

}  // namespace titan
