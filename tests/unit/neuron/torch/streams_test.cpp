// Streams and events through torch's own interfaces: they order simulated time.
#include <ATen/Functions.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <doctest/doctest.h>

#include <thread>

#include "neuron_device.h"
#include "titan/ops/autograd.h"

namespace titan {
namespace {

using at::Tensor;

constexpr auto kNeuron = c10::DeviceType::PrivateUse1;

c10::impl::VirtualGuardImpl guard() {
  neuron();
  return c10::impl::VirtualGuardImpl(kNeuron);
}

c10::Stream current() { return guard().getStream(neuron()); }
c10::Stream new_stream() { return guard().getNewStream(neuron()); }

c10::Event recorded(const c10::Stream& stream) {
  c10::Event event(kNeuron, c10::EventFlag::BACKEND_DEFAULT);
  event.record(stream);
  return event;
}

/// Milliseconds of simulated time from one stream's end to another's.
double milliseconds(const c10::Stream& from, const c10::Stream& to) {
  return recorded(from).elapsedTime(recorded(to));
}

/// Gives `stream` some work.
void work_on(const c10::Stream& stream) {
  const c10::StreamGuard on_stream(stream);
  const Tensor a = at::ones({64, 64}, at::TensorOptions(neuron()));
  a.mm(a);
}

}  // namespace

TEST_CASE("a guard sets this thread's stream and puts the last one back") {
  const c10::Stream first = current(), other = new_stream();
  CHECK(first == guard().getDefaultStream(neuron()));
  CHECK(other != first);
  CHECK(other != new_stream());
  CHECK(other.device() == neuron());
  {
    const c10::StreamGuard on_other(other);
    CHECK(on_other.original_stream() == first);
    CHECK(current() == other);
    c10::Stream of_thread = other;
    std::thread([&] { of_thread = current(); }).join();
    CHECK(of_thread == first);
  }
  CHECK(current() == first);
}

TEST_CASE("work takes simulated time on the current stream only") {
  const c10::Stream first = current(), other = new_stream();
  CHECK(milliseconds(first, other) == 0);
  work_on(other);
  const double busy = milliseconds(first, other);
  CHECK(busy > 0);
  work_on(other);
  CHECK(milliseconds(first, other) > busy);
  CHECK(milliseconds(other, first) < 0);
}

TEST_CASE("a stream that waits for an event goes on after it, one that does not wait goes on by itself") {
  const c10::Stream worker = new_stream(), waits = new_stream(), does_not = new_stream();
  work_on(worker);
  const c10::Event done = recorded(worker);
  work_on(worker);
  done.block(waits);
  CHECK(done.elapsedTime(recorded(waits)) == 0);
  CHECK(done.elapsedTime(recorded(does_not)) < 0);
  work_on(waits);
  work_on(does_not);
  CHECK(milliseconds(does_not, waits) > 0);
  // What the event waited for was the worker's first half, not all of it.
  CHECK(done.elapsedTime(recorded(worker)) == doctest::Approx(done.elapsedTime(recorded(waits))));
  // Waiting for the past changes nothing.
  const c10::Event late = recorded(waits);
  done.block(waits);
  CHECK(late.elapsedTime(recorded(waits)) == 0);
  worker.wait(late);
  CHECK(late.elapsedTime(recorded(worker)) == 0);
}

TEST_CASE("events and streams are done when they are asked") {
  const c10::Stream stream = new_stream();
  work_on(stream);
  const c10::Event event = recorded(stream);
  CHECK(event.query());
  CHECK(stream.query());
  event.synchronize();
  stream.synchronize();
  guard().synchronizeDevice(0);
  CHECK(event.was_marked_for_recording());
  CHECK(event.device() == neuron());
  // Recorded again, an event moves.
  c10::Event again = recorded(stream);
  work_on(stream);
  again.record(stream);
  CHECK(event.elapsedTime(again) > 0);
  // A moved event has gone with its owner; one that was never recorded holds nothing.
  const c10::Event moved = std::move(again);
  CHECK(event.elapsedTime(moved) > 0);
  const c10::Event never(kNeuron, c10::EventFlag::BACKEND_DEFAULT);
  CHECK(never.query());
  never.block(stream);
  CHECK_THROWS(event.elapsedTime(never));
}

TEST_CASE("streams that are not this device's are refused") {
  const c10::Stream other_device(c10::Stream::UNSAFE, c10::Device(kNeuron, 1), 0),
      unknown(c10::Stream::UNSAFE, neuron(), 1 << 20), host(c10::Stream::DEFAULT, c10::Device(c10::kCPU));
  CHECK_THROWS_WITH_AS(c10::StreamGuard{other_device}, doctest::Contains("neuron:0"), std::exception);
  CHECK_THROWS_WITH_AS(c10::StreamGuard{unknown}, doctest::Contains("1048576"), std::exception);
  CHECK_THROWS(recorded(other_device));
  CHECK_THROWS(recorded(unknown));
  CHECK_THROWS(recorded(host));
  const c10::Event event = recorded(current());
  CHECK_THROWS(event.block(other_device));
  CHECK_THROWS(event.block(host));
  CHECK_THROWS(guard().exchangeStream(other_device));
  CHECK_THROWS(guard().getStream(c10::Device(kNeuron, 1)));
  CHECK_THROWS(guard().getNewStream(c10::Device(kNeuron, 1)));
  CHECK(current() == guard().getDefaultStream(neuron()));
}

TEST_CASE("a backward runs on the stream of its forward") {
  const c10::Stream stream = new_stream(), first = current();
  c10::Stream seen = first;
  std::thread::id thread;
  Tensor loss;
  {
    const c10::StreamGuard on_stream(stream);
    const Tensor x = at::ones({4}, at::TensorOptions(neuron())).requires_grad_();
    Backward identity{.name = "identity", .inputs = {x}, .saved = {}};
    identity.fn = [&](const GradientCall& call) -> std::vector<Tensor> {
      seen = current();
      thread = std::this_thread::get_id();
      return {call.grad_outputs[0]};
    };
    loss = differentiable(std::move(identity), [&] { return x.mul(2); }).sum();
  }
  const c10::Event before = recorded(stream);
  backward(loss);
  CHECK(seen == stream);
  CHECK(thread != std::this_thread::get_id());
  CHECK(current() == first);
  CHECK(before.elapsedTime(recorded(stream)) > 0);
}

}  // namespace titan
