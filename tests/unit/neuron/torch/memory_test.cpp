// What the device says is in use is what its tensors hold, at its own sizes: 64-bit elements take four bytes.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <doctest/doctest.h>
#include <malloc.h>

#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "neuron_device.h"
#include "titan/ops/autograd.h"

namespace titan {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

int64_t blocks() { return static_cast<int64_t>(device_count("allocation.all.current")); }

at::TensorOptions on_device(at::ScalarType dtype) { return at::TensorOptions(neuron()).dtype(dtype); }

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

/// A list kept by hand: of one thread, for its own tensors.
class HandList {
 public:
  explicit HandList(uint32_t seed) : random_(seed) {}

  void step() {
    switch (pieces_.empty() ? 0 : below(8)) {
      case 0:
      case 1:
        return make(at::empty({1 + below(500)}, on_device(kDtypes[static_cast<size_t>(below(6))])));
      case 2: {
        const Tensor& tensor = any().tensors[0];
        return make(tensor.eq(0));
      }
      case 3: {
        Piece& piece = any();
        if (piece.tensors[0].numel() > 0) piece.tensors.push_back(piece.tensors[0].narrow(0, 0, 1));
        return;
      }
      case 4:
        any().tensors[0].zero_();
        any().tensors[0].fill_(1);
        return;
      case 5:
        return resize(any());
      default:
        return let_go();
    }
  }
  void clear() {
    while (!pieces_.empty()) let_go();
  }

  int64_t current = 0, peak = 0, allocated = 0, freed = 0;
  int64_t pieces_made = 0, pieces_freed = 0;

 private:
  static constexpr at::ScalarType kDtypes[] = {at::kFloat, at::kLong,     at::kDouble,
                                               at::kBool,  at::kBFloat16, at::kComplexDouble};
  struct Piece {
    Tensors tensors;  ///< the first one and views of it
    int64_t bytes;
  };

  static int64_t element_of(at::ScalarType dtype) {
    if (dtype == at::kLong || dtype == at::kDouble) return 4;
    if (dtype == at::kComplexDouble) return 8;
    return static_cast<int64_t>(c10::elementSize(dtype));
  }

  int64_t below(int64_t limit) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(limit)); }
  Piece& any() { return pieces_[static_cast<size_t>(below(static_cast<int64_t>(pieces_.size())))]; }

  void came(int64_t bytes) {
    current += bytes;
    allocated += bytes;
    ++pieces_made;
    peak = std::max(peak, current);
  }
  void went(int64_t bytes) {
    current -= bytes;
    freed += bytes;
    ++pieces_freed;
  }

  void make(Tensor tensor) {
    const int64_t bytes = tensor.numel() * element_of(tensor.scalar_type());
    pieces_.push_back({.tensors = {std::move(tensor)}, .bytes = bytes});
    came(bytes);
  }

  void resize(Piece& piece) {
    const Tensor& tensor = piece.tensors[0];
    const int64_t count = below(600), bytes = count * element_of(tensor.scalar_type());
    tensor.resize_({count});
    if (bytes <= piece.bytes) return;
    came(bytes);
    went(piece.bytes);
    piece.bytes = bytes;
  }

  void let_go() {
    Piece& piece = any();
    piece.tensors.pop_back();
    if (!piece.tensors.empty()) return;
    went(piece.bytes);
    std::swap(piece, pieces_.back());
    pieces_.pop_back();
  }

  std::mt19937 random_;
  std::vector<Piece> pieces_;
};

c10::CachingAllocator::Stat torch_count(const c10::CachingAllocator::StatArray& counts) {
  return counts[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
}

c10::CachingDeviceAllocator::DeviceStats torch_statistics() {
  return at::getDeviceAllocator(c10::DeviceType::PrivateUse1)->getDeviceStats(0);
}

/// Sums begin anew, so that lists that begin with nothing can be compared.
void forget_sums() {
  at::getDeviceAllocator(c10::DeviceType::PrivateUse1)->resetAccumulatedStats(0);
  reset_peak_device_memory();
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
    const int64_t bytes_before = allocated_bytes(), pieces_before = blocks();
    {
      const Tensor floats = at::ones({6, 4}, on_device(at::kFloat)),
                   numbers = at::ones({6, 4}, on_device(at::kLong));
      CHECK(allocated_bytes() - bytes_before == 2 * 96);
      const Tensors kept = test.make(floats, numbers);
      CHECK(allocated_bytes() - bytes_before == 2 * 96 + test.bytes);
      CHECK(blocks() - pieces_before == 2 + test.pieces);
    }
    CHECK(allocated_bytes() == bytes_before);
    CHECK(blocks() == pieces_before);
  }
}

TEST_CASE("a storage that is resized keeps what it holds") {
  const Tensor numbers = at::arange(4, on_device(at::kLong));
  resize_storage(numbers, 80);
  CHECK(numbers.as_strided({10}, {1}).narrow(0, 0, 4).cpu().equal(at::arange(4)));
}

TEST_CASE("the statistics are those of a list kept by hand, after every one of many steps") {
  neuron();
  const int64_t before = allocated_bytes(), pieces_before = blocks();
  forget_sums();
  HandList list(1);
  for (int i = 0; i < 3000; ++i) {
    list.step();
    const auto statistics = torch_statistics();
    const auto bytes = torch_count(statistics.allocated_bytes), pieces = torch_count(statistics.allocation);
    REQUIRE(pieces.allocated == list.pieces_made);
    REQUIRE(pieces.freed == list.pieces_freed);
    REQUIRE(bytes.current - before == list.current);
    REQUIRE(bytes.peak - before == list.peak);
    REQUIRE(bytes.allocated == list.allocated);
    REQUIRE(bytes.freed == list.freed);
  }
  list.clear();
  CHECK(allocated_bytes() == before);
  CHECK(blocks() == pieces_before);
}

TEST_CASE("the statistics are those of lists that two threads keep at once") {
  neuron();
  const int64_t before = allocated_bytes(), pieces_before = blocks();
  forget_sums();
  HandList lists[] = {HandList(2), HandList(3)};
  std::vector<std::thread> threads;
  for (HandList& list : lists) {
    threads.emplace_back([&list] {
      for (int i = 0; i < 5000; ++i) list.step();
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto sum = [&](int64_t HandList::* member) { return lists[0].*member + lists[1].*member; };
  const auto statistics = torch_statistics();
  const auto bytes = torch_count(statistics.allocated_bytes), pieces = torch_count(statistics.allocation);
  CHECK(bytes.current - before == sum(&HandList::current));
  CHECK(bytes.allocated == sum(&HandList::allocated));
  CHECK(bytes.freed == sum(&HandList::freed));
  CHECK(bytes.peak - before >= std::max(lists[0].peak, lists[1].peak));
  CHECK(bytes.peak - before <= sum(&HandList::peak));
  CHECK(pieces.allocated == sum(&HandList::pieces_made));
  CHECK(pieces.freed == sum(&HandList::pieces_freed));
  CHECK(pieces.current - pieces_before == sum(&HandList::pieces_made) - sum(&HandList::pieces_freed));
  CHECK(statistics.num_alloc_retries == 0);
  CHECK(statistics.num_ooms == 0);
  // titan's own keys say the same.
  CHECK(allocated_bytes() == bytes.current);
  CHECK(static_cast<int64_t>(device_count("allocated_bytes.all.peak")) == bytes.peak);
  CHECK(static_cast<int64_t>(device_count("allocated_bytes.all.allocated")) == bytes.allocated);
  CHECK(static_cast<int64_t>(device_count("allocation.all.freed")) == pieces.freed);
  for (HandList& list : lists) list.clear();
  CHECK(allocated_bytes() == before);
  CHECK(blocks() == pieces_before);
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
  const int64_t bytes = allocated_bytes(), pieces = blocks(), pages = resident_pages();
  const size_t heap = mallinfo2().uordblks;
  for (int i = 200; i < 1000; ++i) {
    step();
    REQUIRE(allocated_bytes() == bytes);
    REQUIRE(blocks() == pieces);
  }
  // A tensor's object left behind in each step would be 150 KiB of the heap.
  CHECK(mallinfo2().uordblks < heap + (64 << 10));
  CHECK(resident_pages() < pages + 512);
  CHECK(weight.isfinite().all().item().toBool());
}

}  // namespace titan
