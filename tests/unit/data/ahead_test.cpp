#include "titan/data/ahead.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>

using namespace titan;

namespace {
/// Waits until `value` is reached, or a second.
void wait_for(const std::atomic<int>& counter, int value) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (counter < value && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
}
}  // namespace

TEST_CASE("results come in order, made on another thread and never more than the depth ahead") {
  std::atomic<int> made = 0;
  std::thread::id maker;
  Ahead<int> ahead(3, [&] {
    maker = std::this_thread::get_id();
    return made++;
  });
  for (int i = 0; i < 100; ++i) {
    CHECK(ahead.next() == i);
    CHECK(made <= i + 1 + 3 + 1);  // taken, waiting, in the making
  }
  wait_for(made, 103);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(made == 103);
  CHECK(maker != std::this_thread::get_id());
}

TEST_CASE("with depth 0 the reader's thread makes each result when it is asked for") {
  int made = 0;
  std::thread::id maker;
  Ahead<int> ahead(0, [&] {
    maker = std::this_thread::get_id();
    return made++;
  });
  CHECK(made == 0);
  CHECK(ahead.next() == 0);
  CHECK(ahead.next() == 1);
  CHECK(made == 2);
  CHECK(maker == std::this_thread::get_id());
}

TEST_CASE("an error comes behind the results made before it, and stays") {
  int made = 0;
  Ahead<int> ahead(2, [&] {
    if (made == 3) throw std::runtime_error("broken");
    return made++;
  });
  for (int i = 0; i < 3; ++i) CHECK(ahead.next() == i);
  for (int i = 0; i < 2; ++i) CHECK_THROWS_WITH_AS(ahead.next(), "broken", std::runtime_error);
}

TEST_CASE("leaving early waits for the result in the making and no other") {
  std::atomic<int> made = 0;
  {
    Ahead<int> ahead(100'000'000, [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return made++;
    });
    ahead.next();
  }
  const int left = made;
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(made == left);
}
