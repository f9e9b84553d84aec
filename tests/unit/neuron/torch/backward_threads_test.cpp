// torch runs the backward of a device on a thread of its own; it computes with as many threads as the main
// one.
#include <ATen/Parallel.h>
#include <ATen/ops/ones.h>
#include <doctest/doctest.h>

#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>

#include "tests/unit/neuron/torch/neuron_device.h"
#include "titan/ops/autograd.h"
#include "titan/ops/threads.h"

namespace titan {
namespace {

/// Threads that take part in a loop that is long enough for all.
size_t threads_of_a_loop() {
  std::mutex mutex;
  std::set<std::thread::id> seen;
  at::parallel_for(0, 3, 1, [&](int64_t, int64_t) {
    const std::lock_guard lock(mutex);
    seen.insert(std::this_thread::get_id());
  });
  return seen.size();
}

}  // namespace

TEST_CASE("A backward on the device runs on another thread, with as many threads as were set up") {
  setenv("TITAN_NUM_THREADS", "3", 1);
  set_up_threads();
  const at::Device device = neuron();
  REQUIRE(threads_of_a_loop() == 3);

  std::thread::id thread;
  int threads = 0;
  size_t in_loop = 0;
  const at::Tensor x = at::ones({4}, at::TensorOptions().device(device)).requires_grad_();
  Backward twice{.name = "twice", .inputs = {x}, .saved = {}};
  twice.fn = [&](const GradientCall& call) -> std::vector<at::Tensor> {
    thread = std::this_thread::get_id();
    threads = at::get_num_threads();
    in_loop = threads_of_a_loop();
    return {call.grad_outputs[0]};
  };
  const at::Tensor y = differentiable(std::move(twice), [&] { return x.mul(2); });
  backward(y.sum());
  CHECK(thread != std::thread::id());
  CHECK(thread != std::this_thread::get_id());
  CHECK(threads == 3);
  CHECK(in_loop == 3);
  unsetenv("TITAN_NUM_THREADS");
}

}  // namespace titan
