#include "titan/train/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <initializer_list>

#include "titan/base/error.h"

namespace titan {
namespace {

// A signal handler can reach nothing but a static; lock-free atomics are safe in it.
std::atomic<int> received_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);

void remember(int signal) {
  // Advice for whoever pressed Ctrl-C; SIGTERM comes from a program.
  constexpr std::string_view kNote = "\ntitan: stopping after this step (once more: at once)\n";
  received_signal.store(signal);
  if (signal != SIGINT) return;
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kNote.data(), kNote.size());
}

}  // namespace

InterruptGuard::InterruptGuard() {
  received_signal.store(0);
  struct sigaction action = {};
  action.sa_handler = remember;
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // the second signal meets the default action
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM}) {
    check(sigaction(signal, &action, nullptr) == 0, "SIGINT and SIGTERM can be handled");
  }
}

InterruptGuard::~InterruptGuard() {
  for (const int signal : {SIGINT, SIGTERM}) ::signal(signal, SIG_DFL);
}

int InterruptGuard::signal() const { return received_signal.load(); }

std::string_view signal_name(int signal) { return signal == SIGINT ? "SIGINT" : "SIGTERM"; }

}  // namespace titan
