#include "titan/base/log.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <mutex>
#include <set>
#include <string>

#include "titan/base/warnings_said.h"

namespace titan {

namespace {

std::atomic<bool> are_warnings_said = false;

std::string timestamp() {
  using namespace std::chrono;
  const auto now = system_clock::now();
  const std::time_t seconds = system_clock::to_time_t(now);
  std::tm local{};
  ::localtime_r(&seconds, &local);
  char text[32];
  const size_t size = std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
  const auto millis = duration_cast<milliseconds>(now.time_since_epoch()).count() % 1000;
  std::snprintf(text + size, sizeof text - size, ",%03d", static_cast<int>(millis));
  return text;
}

}  // namespace

void log(LogLevel level, std::string_view message) {
  constexpr std::string_view kNames[] = {"INFO", "WARNING", "ERROR"};
  const std::string line =
      format("[titan] {} - root - {} - {}\n", timestamp(), kNames[static_cast<size_t>(level)], message);
  // One write a line: lines of several threads and processes do not mix.
  for (std::string_view rest = line; !rest.empty();) {
    const ssize_t written = ::write(STDERR_FILENO, rest.data(), rest.size());
    if (written <= 0) return;
    rest.remove_prefix(static_cast<size_t>(written));
  }
}

WarningsSaid::WarningsSaid() { are_warnings_said = true; }
WarningsSaid::~WarningsSaid() { are_warnings_said = false; }

void warn_once(std::string_view message) {
  static std::mutex mutex;
  static std::set<std::string, std::less<>> seen;
  {
    const std::lock_guard lock(mutex);
    if (!seen.emplace(message).second) return;
  }
  if (are_warnings_said) return;
  log(LogLevel::warning, message);
}

}  // namespace titan
