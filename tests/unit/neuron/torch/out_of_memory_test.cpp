// A device that is full says what was asked for and what holds its memory, and goes on.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>
#include <doctest/doctest.h>
#include <malloc.h>

#include <functional>
#include <string>
#include <vector>

#include "neuron_device.h"
#include "titan/ops/autograd.h"

namespace titan {
namespace {

using at::Tensor;

constexpr int64_t kMiB = 1 << 20;

at::TensorOptions bytes_of_device() { return at::TensorOptions(neuron()).dtype(at::kByte); }

/// Leaves `left` bytes of the device to others for its lifetime. Nobody touches the memory, so that the host
/// has to give none.
Tensor hold_all_but(int64_t left) {
  return at::empty({kTestHbmBytes - allocated_bytes() - left}, bytes_of_device());
}

int64_t failures() { return static_cast<int64_t>(device_count("num_ooms")); }
/// Bytes of this process's heap.
int64_t host_bytes() {
  const auto heap = mallinfo2();
  return static_cast<int64_t>(heap.uordblks + heap.hblkhd);
}

/// What the device says when it is full; fails the test when it is not.
std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const c10::OutOfMemoryError& error) {
    return error.what_without_backtrace();
  }
  FAIL("the device had room");
  return "";
}

bool has(const std::string& message, const std::string& text) {
  return message.find(text) != std::string::npos;
}

}  // namespace

TEST_CASE(
    "memory that does not fit is an error that says what was asked for, what is free and what holds it") {
  neuron();
  const int64_t bytes = allocated_bytes(), count = allocated_pieces(), before = failures();
  const double retries = device_count("num_alloc_retries");
  {
    set_device_phase("weights");
    const Tensor weights = at::empty({256 * kMiB / 4}, bytes_of_device().dtype(at::kLong));
    set_device_phase("forward");
    const Tensor rest = hold_all_but(16 * kMiB);
    const int64_t held = allocated_bytes();
    const std::string message =
        message_of([] { at::empty({5 * kMiB}, bytes_of_device().dtype(at::kDouble)); });
    CAPTURE(message);
    CHECK(has(message, "Tried to allocate 20.00 MiB"));
    CHECK(has(message, "1.00 GiB of HBM"));
    CHECK(has(message, "16.00 MiB free"));
    CHECK(has(message, "weights: 256.00 MiB in 1 tensor (aten::empty int64: 256.00 MiB in 1)"));
    CHECK(has(message, "forward: "));
    CHECK(has(message, "aten::empty uint8"));
    CHECK(failures() == before + 1);
    CHECK(device_count("num_alloc_retries") == retries + 1);
    CHECK(allocated_bytes() == held);
    // What fits to the byte is given.
    CHECK(at::empty({16 * kMiB}, bytes_of_device()).numel() == 16 * kMiB);
    CHECK(failures() == before + 1);
  }
  CHECK(allocated_bytes() == bytes);
  CHECK(allocated_pieces() == count);
}

TEST_CASE("a result that does not fit is freed, its operator named, and the inputs stay as they were") {
  neuron();
  const int64_t bytes = allocated_bytes(), count = allocated_pieces(), before = failures();
  {
    const Tensor small = at::ones({kMiB}, bytes_of_device());
    const Tensor rest = hold_all_but(3 * kMiB);
    const int64_t held = allocated_bytes(), on_host = host_bytes();
    CHECK(has(message_of([&] { small.to(at::kInt); }), "4.00 MiB"));
    CHECK(has(message_of([&] { small.repeat({4}); }), "4.00 MiB"));
    CHECK(has(message_of([&] { at::cat({small, small, small, small}); }), "4.00 MiB"));
    // Of two results the first one fits: it is freed too.
    CHECK(has(message_of([&] { small.view({1, kMiB}).sort(1); }), "4.00 MiB"));
    Tensor out = at::zeros({0}, small.options());
    CHECK(has(message_of([&] { at::cat_out(out, {small, small, small, small}); }), "4.00 MiB"));
    CHECK(out.sizes() == at::IntArrayRef{0});
    out = at::zeros({3}, small.options());
    CHECK(has(message_of([&] { out.resize_({5 * kMiB}); }), "5.00 MiB"));
    CHECK(out.sizes() == at::IntArrayRef{3});
    CHECK(out.sum().item<int64_t>() == 0);
    out = Tensor();
    CHECK(allocated_bytes() == held);
    CHECK(host_bytes() < on_host + kMiB);
    CHECK(failures() == before + 6);
    CHECK(small.sum().item<int64_t>() == kMiB);
    // The list names the operator that holds memory.
    const Tensor doubled = small.mul(2);
    CHECK(has(message_of([] { at::empty({8 * kMiB}, bytes_of_device()); }), "aten::mul.Tensor uint8"));
  }
  CHECK(allocated_bytes() == bytes);
  CHECK(allocated_pieces() == count);
}

TEST_CASE("a backward that does not fit fails on autograd's thread, and the device is usable afterwards") {
  neuron();
  const int64_t bytes = allocated_bytes(), count = allocated_pieces(), before = failures();
  {
    const Tensor x = at::ones({2 * kMiB}, bytes_of_device().dtype(at::kFloat)).requires_grad_();
    Tensor loss = x.mul(x).mul(x).sum();
    Tensor rest = hold_all_but(kMiB);
    CHECK(has(message_of([&] { backward(loss); }), "Tried to allocate 8.00 MiB"));
    CHECK(failures() > before);
    rest = Tensor();
    loss = x.mul(x).sum();
    backward(loss);
    CHECK(x.grad().narrow(0, 5, 1).item<float>() == 2);
  }
  CHECK(allocated_bytes() == bytes);
  CHECK(allocated_pieces() == count);
}

}  // namespace titan
