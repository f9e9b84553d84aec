// `titan store`: a c10d store, which `titan torchrun` starts for the workers of its job.

#include <unistd.h>

#include <cerrno>
#include <iostream>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "apps/titan/commands.h"
#include "apps/titan/commands/arguments.h"
#include "titan/distributed/quiet_c10d.h"
#include "titan/launch/connection.h"

namespace titan {
namespace {

/// Returns when standard input ends: then whoever started the store is gone.
void wait_for_end_of_input() {
  char bytes[256];
  while (true) {
    const ssize_t size = ::read(STDIN_FILENO, bytes, sizeof bytes);
    if (size == 0 || (size < 0 && errno != EINTR)) return;
  }
}

}  // namespace

int store_command(std::span<const std::string> args) {
  const Arguments arguments("store",
                            {{"port", "PORT", "Serve there; 0, the default, chooses a free port"},
                             {"listen-fd", "FD", "Serve a socket that listens already"}},
                            args);
  if (arguments.help_shown()) return 0;
  const QuietC10d quiet;  // also of clients whose address has no name
  c10d::TCPStoreOptions options;
  options.isServer = true;
  options.waitWorkers = false;
  options.port = static_cast<uint16_t>(arguments.integer("port", 0, 0));
  if (arguments.has("listen-fd")) {
    const int fd = static_cast<int>(arguments.integer("listen-fd", 0, 3));
    options.masterListenFd = fd;
    options.port = static_cast<uint16_t>(port_of(fd));
  }
  const c10d::TCPStore store("localhost", options);
  std::cout << store.getPort() << std::endl;
  wait_for_end_of_input();
  return 0;
}

}  // namespace titan
