#pragma once

#include <string_view>

namespace titan {

/// While it lives, SIGINT and SIGTERM set a flag that the training loop reads; a second signal ends the
/// process at once. One at a time in a process.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  /// The signal that arrived, 0 while none has.
  int signal() const;
};

/// "SIGINT" or "SIGTERM".
std::string_view signal_name(int signal);

/// Exit code of a process that ended because of `signal`, as shells count: 130 for SIGINT, 143 for SIGTERM.
inline int signal_exit_code(int signal) { return 128 + signal; }

}  // namespace titan
