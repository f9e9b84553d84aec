#include "titan/launch/event_loop.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "titan/base/error.h"

namespace titan {

void EventLoop::watch(int fd, short events, Handler handler) {
  watches_.insert_or_assign(fd, Watch{events, next_number_++, std::move(handler)});
}

int64_t EventLoop::at(Clock::time_point time, Handler handler) {
  timers_.emplace(next_number_, Timer{time, std::move(handler)});
  return next_number_++;
}

bool EventLoop::run_posted() {
  const size_t count = posted_.size();
  for (size_t i = 0; i < count; ++i) {
    const Handler handler = std::move(posted_.front());
    posted_.pop_front();
    handler();
  }
  return count > 0;
}

bool EventLoop::run_timers() {
  bool ran = false;
  while (true) {
    const auto earlier = [](const auto& a, const auto& b) { return a.second.time < b.second.time; };
    const auto next = std::min_element(timers_.begin(), timers_.end(), earlier);
    if (next == timers_.end() || next->second.time > Clock::now()) return ran;
    const Handler handler = std::move(next->second.handler);
    timers_.erase(next);
    handler();
    ran = true;
  }
}

int EventLoop::wait_time() const {
  if (!posted_.empty()) return 0;
  int64_t least = -1;
  for (const auto& [number, timer] : timers_) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(timer.time - Clock::now()).count();
    const int64_t wait = std::clamp<int64_t>(left, 0, 1 << 30);
    if (least < 0 || wait < least) least = wait;
  }
  return static_cast<int>(least);
}

void EventLoop::run_once() {
  if (run_posted() || run_timers()) return;
  std::vector<pollfd> polled;
  std::vector<int64_t> numbers;
  for (const auto& [fd, watch] : watches_) {
    polled.push_back({fd, watch.events, 0});
    numbers.push_back(watch.number);
  }
  const int ready = ::poll(polled.data(), polled.size(), wait_time());
  if (ready < 0 && errno != EINTR) throw ValueError("cannot wait for the workers: {}", std::strerror(errno));
  for (size_t i = 0; ready > 0 && i < polled.size(); ++i) {
    if (polled[i].revents == 0) continue;
    const auto watch = watches_.find(polled[i].fd);  // an earlier handler may have ended it
    if (watch == watches_.end() || watch->second.number != numbers[i]) continue;
    const Handler handler = watch->second.handler;
    handler();
  }
}

}  // namespace titan
