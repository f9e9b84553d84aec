#include "titan/launch/agent_store.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "titan/base/error.h"
#include "titan/base/file.h"

namespace titan {

void AgentStore::start(int listening, std::function<void()> on_loss) {
  stop();
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw ValueError("cannot make a connection to the store: {}", std::strerror(errno));
  }
  control_ = OwnedFd(ends[0]);
  const OwnedFd child_end(ends[1]);
  ::fcntl(control_.get(), F_SETFL, O_NONBLOCK);
  ProgramStart start;
  start.file = executable_path().string();
  start.args = {start.file, "store", "--listen-fd", "3"};
  for (char** entry = ::environ; *entry != nullptr; ++entry) start.environment.emplace_back(*entry);
  start.in = start.out = child_end.get();
  start.extra = listening;
  pid_ = start_program(start);
  loop_.watch(control_.get(), POLLIN, [this, on_loss = std::move(on_loss)] {
    char text[64];  // the port, which the caller knows
    const ssize_t size = ::read(control_.get(), text, sizeof text);
    if (size > 0 || (size < 0 && (errno == EAGAIN || errno == EINTR))) return;
    const auto tell = on_loss;
    stop();
    tell();
  });
}

void AgentStore::stop() {
  if (pid_ == 0) return;
  loop_.unwatch(control_.get());
  control_.reset();
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

}  // namespace titan
