// The device's memory statistics beside lists that are kept by hand, one for each thread.
#include <ATen/Functions.h>
#include <ATen/core/Tensor.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "neuron_device.h"
#include "titan/ops/device.h"

namespace titan {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

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

}  // namespace

TEST_CASE("the statistics are those of a list kept by hand, after every one of many steps") {
  neuron();
  const int64_t before = allocated_bytes(), pieces_before = allocated_pieces();
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
  CHECK(allocated_pieces() == pieces_before);
}

TEST_CASE("the statistics are those of lists that two threads keep at once") {
  neuron();
  const int64_t before = allocated_bytes(), pieces_before = allocated_pieces();
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
  CHECK(allocated_pieces() == pieces_before);
}

}  // namespace titan
