// What the device says is in use is what its tensors hold, at its own sizes: 64-bit elements take four bytes.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <doctest/doctest.h>
#include <malloc.h>

#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "neuron_device.h"
#include "titan/ops/autograd.h"

namespace titan {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

void resize_storage(const Tensor& tensor, size_t bytes) {
  at::detail::getPrivateUse1Hooks().resizePrivateUse1Bytes(tensor.storage(), bytes);
}

/// Tensors that are made and kept, and what they hold beyond the inputs.
struct MemoryCase {
  std::string name;
  int64_t bytes, pieces;
  std::function<Tensors(const Tensor& floats, const Tensor& numbers)> make;  // float32[6, 4], int64[6, 4]
};

const std::vector<MemoryCase>& memory_cases() {
  static const std::vector<MemoryCase> all = {
      {"empty", 40, 1, [](auto&, auto&) -> Tensors { return {at::empty({10}, on_device(at::kFloat))}; }},
      {"empty of 64 bits", 40, 1,
       [](auto&, auto&) -> Tensors { return {at::empty({10}, on_device(at::kLong))}; }},
      {"empty of nothing", 0, 1,
       [](auto&, auto&) -> Tensors { return {at::empty({0, 3}, on_device(at::kFloat))}; }},
      {"empty_strided", 4 * (2 * 5 + 4), 1,
       [](auto&, auto&) -> Tensors { return {at::empty_strided({3, 4}, {5, 1}, on_device(at::kFloat))}; }},
      {"zeros in bfloat16", 20, 1,
       [](auto&, auto&) -> Tensors { return {at::zeros({10}, on_device(at::kBFloat16))}; }},
      {"complex128", 80, 1,
       [](auto&, auto&) -> Tensors { return {at::zeros({10}, on_device(at::kComplexDouble))}; }},
      {"arithmetic", 96, 1, [](auto& f, auto&) -> Tensors { return {f + f}; }},
      {"arithmetic in 64 bits", 2 * 96, 2,
       [](auto& f, auto& n) -> Tensors { return {n * 2, f.to(at::kDouble)}; }},
      {"views", 0, 0,
       [](auto& f, auto& n) -> Tensors {
         return {f.view({24}), f.t(), f.narrow(0, 1, 2), n.unsqueeze(0), f.unfold(1, 2, 1), f.detach(), n[1]};
       }},
      {"a view of what is gone", 96, 1, [](auto& f, auto&) -> Tensors { return {(f + 1).narrow(0, 0, 1)}; }},
      {"several results", 96 + 96, 2,
       [](auto& f, auto&) -> Tensors {
         auto [values, indices] = f.sort();
         return {values, indices};
       }},
      {"one result of several is let go", 96, 1,
       [](auto& f, auto&) -> Tensors { return {std::get<1>(f.sort())}; }},
      {"a list of results", 2 * 96, 2, [](auto& f, auto&) -> Tensors { return at::_foreach_add({f, f}, 1); }},
      {"an input comes back", 0, 0,
       [](auto& f, auto&) -> Tensors { return {f.contiguous(), f.to(at::kFloat), f.reshape({4, 6})}; }},
      {"in place", 0, 0,
       [](auto& f, auto& n) -> Tensors { return {f.add_(1), n.mul_(2), f.copy_(n), n.zero_(), f.fill_(2)}; }},
      {"an out variant that fits", 0, 0,
       [](auto& f, auto&) -> Tensors {
         Tensor out = f;
         return {at::mul_out(out, f, f)};
       }},
      {"an out variant that grows", 96, 1,
       [](auto& f, auto&) -> Tensors {
         Tensor out = at::empty({0}, f.options());
         return {at::mul_out(out, f, f)};
       }},
      {"clone", 2 * 96, 2, [](auto& f, auto& n) -> Tensors { return {f.clone(), n.clone()}; }},
      {"to and from the host", 48, 1,
       [](auto& f, auto&) -> Tensors { return {f.cpu(), f.cpu().to(at::kHalf).to(f.device())}; }},
      {"set_", 0, 0,
       [](auto& f, auto&) -> Tensors { return {at::empty({9}, f.options()).set_(f), f.cpu()}; }},
      {"set_ that makes its storage grow", 400, 1,
       [](auto& f, auto&) -> Tensors {
         const Tensor small = at::empty({3}, f.options().dtype(at::kLong));
         return {at::empty({0}, small.options()).set_(small.storage(), 0, {10, 10}, {10, 1}), small};
       }},
      {"resize_ up", 400, 1,
       [](auto& f, auto&) -> Tensors {
         return {at::empty({3}, f.options().dtype(at::kLong)).resize_({100})};
       }},
      {"resize_ down", 400, 1,
       [](auto& f, auto&) -> Tensors { return {at::empty({100}, f.options()).resize_({3})}; }},
      {"a storage is resized", 80, 2,
       [](auto& f, auto&) -> Tensors {
         const Tensor up = at::ones({3}, f.options().dtype(at::kDouble)), down = at::ones({100}, f.options());
         resize_storage(up, 160);
         resize_storage(down, 0);
         return {up.detach(), down};
       }},
      {"a storage is emptied and filled again", 400, 1,
       [](auto& f, auto&) -> Tensors {
         const Tensor numbers = at::ones({100}, f.options().dtype(at::kLong));
         resize_storage(numbers, 0);
         resize_storage(numbers, 800);
         return {numbers};
       }},
      {"what autograd keeps", 2 * 96 + 4, 3,
       [](auto& f, auto&) -> Tensors {
         const Tensor leaf = f.clone().requires_grad_();
         return {leaf.exp().sum(), leaf};  // the exponentials live in the graph alone
       }},
  };
  return all;
}

int64_t resident_pages() {
  std::ifstream file("/proc/self/statm");
  int64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident;
}

}  // namespace

TEST_CASE("what is in use is what live tensors hold, at the device's sizes") {
  neuron();
  for (const MemoryCase& test : memory_cases()) {
    CAPTURE(test.name);
    const int64_t bytes_before = allocated_bytes(), pieces_before = allocated_pieces();
    {
      const Tensor floats = at::ones({6, 4}, on_device(at::kFloat)),
                   numbers = at::ones({6, 4}, on_device(at::kLong));
      CHECK(allocated_bytes() - bytes_before == 2 * 96);
      const Tensors kept = test.make(floats, numbers);
      CHECK(allocated_bytes() - bytes_before == 2 * 96 + test.bytes);
      CHECK(allocated_pieces() - pieces_before == 2 + test.pieces);
    }
    CHECK(allocated_bytes() == bytes_before);
    CHECK(allocated_pieces() == pieces_before);
  }
}

TEST_CASE("a storage that is resized keeps what it holds") {
  const Tensor numbers = at::arange(4, on_device(at::kLong));
  resize_storage(numbers, 80);
  CHECK(numbers.as_strided({10}, {1}).narrow(0, 0, 4).cpu().equal(at::arange(4)));
}

TEST_CASE("a thousand steps of training leave nothing behind") {
  at::manual_seed(5);
  Tensor weight = at::randn({16, 16}, on_device(at::kFloat)).requires_grad_();
  const Tensor tokens = at::arange(8, on_device(at::kLong));
  const auto step = [&] {
    const Tensor hidden = at::embedding(weight, tokens).mm(weight).softmax(1);
    const Tensor loss = std::get<0>(hidden.sort(1)).log().mean() + hidden.narrow(0, 1, 2).sum();
    backward(loss);
    const NoGrad no_grad;
    weight.sub_(weight.grad(), 1e-3);
    weight.mutable_grad() = Tensor();
  };
  for (int i = 0; i < 200; ++i) step();
  const int64_t bytes = allocated_bytes(), pieces = allocated_pieces(), pages = resident_pages();
  const size_t heap = mallinfo2().uordblks;
  for (int i = 200; i < 1000; ++i) {
    step();
    REQUIRE(allocated_bytes() == bytes);
    REQUIRE(allocated_pieces() == pieces);
  }
  // A tensor's object left behind in each step would be 150 KiB of the heap.
  CHECK(mallinfo2().uordblks < heap + (64 << 10));
  CHECK(resident_pages() < pages + 512);
  CHECK(weight.isfinite().all().item().toBool());
}

}  // namespace titan
