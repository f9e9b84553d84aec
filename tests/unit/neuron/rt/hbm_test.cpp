#include "titan/neuron/rt/hbm.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <exception>
#include <memory>
#include <random>
#include <thread>
#include <vector>

using namespace titan;
using namespace titan::neuron;

namespace {

constexpr int64_t kGiB = int64_t{1} << 30, kMiB = int64_t{1} << 20;

HbmBlock block_of(int64_t bytes, HbmOrigin origin = {"forward", "aten::mm", "float32"}) {
  HbmBlock block;
  block.bytes = bytes;
  block.origin = origin;
  return block;
}

/// The books kept by hand: what is alive, and the counts that a caching allocator without a cache has.
struct HandList {
  std::vector<std::unique_ptr<HbmBlock>> alive;
  HbmCount bytes, allocations;
  int64_t refused = 0;

  void charged(int64_t amount) {
    bytes.current += amount;
    bytes.allocated += amount;
    bytes.peak = std::max(bytes.peak, bytes.current);
    ++allocations.current;
    ++allocations.allocated;
    allocations.peak = std::max(allocations.peak, allocations.current);
  }
  void uncharged(int64_t amount) {
    bytes.current -= amount;
    bytes.freed += amount;
    --allocations.current;
    ++allocations.freed;
  }
};

/// `steps` random charges and uncharges; what does not fit is counted.
void play(HbmLedger& ledger, HandList& list, int64_t steps, unsigned seed) {
  std::mt19937 random(seed);
  for (int64_t step = 0; step < steps; ++step) {
    if (list.alive.empty() || random() % 100 < 52) {
      auto block = std::make_unique<HbmBlock>(block_of(random() % 10 == 0 ? 0 : random() % 5000));
      try {
        ledger.charge(*block);
      } catch (const HbmFull&) {
        ++list.refused;
        continue;
      }
      list.charged(block->bytes);
      list.alive.push_back(std::move(block));
    } else {
      std::swap(list.alive[random() % list.alive.size()], list.alive.back());
      ledger.uncharge(*list.alive.back());
      list.uncharged(list.alive.back()->bytes);
      list.alive.pop_back();
    }
  }
}

void check_equal(const HbmCount& count, const HbmCount& by_hand) {
  CHECK(count.current == by_hand.current);
  CHECK(count.peak == by_hand.peak);
  CHECK(count.allocated == by_hand.allocated);
  CHECK(count.freed == by_hand.freed);
}

std::string message_of(HbmLedger& ledger, int64_t bytes) {
  HbmBlock block = block_of(bytes);
  try {
    ledger.charge(block);
  } catch (const HbmFull& error) {
    return error.what();
  }
  return "it fits";
}

}  // namespace

TEST_CASE("the HBM ledger agrees with a list kept by hand over 10,000 random charges and uncharges") {
  HbmLedger ledger(200'000, "core");
  HandList list;
  play(ledger, list, 10'000, 1);
  const HbmStatistics statistics = ledger.statistics();
  check_equal(statistics.bytes, list.bytes);
  check_equal(statistics.allocations, list.allocations);
  CHECK(list.refused > 0);
  CHECK(statistics.num_ooms == list.refused);
  CHECK(statistics.num_alloc_retries == list.refused);
  for (const auto& block : list.alive) ledger.uncharge(*block);
  CHECK(ledger.statistics().bytes.current == 0);
  CHECK(ledger.statistics().allocations.current == 0);
  CHECK(ledger.summary().empty());
}

TEST_CASE("the HBM ledger agrees with two threads' lists kept by hand") {
  HbmLedger ledger(100'000, "core");
  HandList lists[2];
  std::barrier begin(2);
  const auto play_one = [&](unsigned which) {
    begin.arrive_and_wait();
    HbmBlock block = block_of(8);
    for (int i = 0; i < 1'000'000; ++i) {  // as close together as they come
      ledger.charge(block);
      lists[which].charged(block.bytes);
      ledger.uncharge(block);
      lists[which].uncharged(block.bytes);
    }
    play(ledger, lists[which], 10'000, 2 + which);
  };
  {
    const std::jthread other(play_one, 1);
    play_one(0);
  }
  const HbmStatistics statistics = ledger.statistics();
  const auto agree = [](const HbmCount& count, const HbmCount& a, const HbmCount& b) {
    CHECK(count.current == a.current + b.current);
    CHECK(count.allocated == a.allocated + b.allocated);
    CHECK(count.freed == a.freed + b.freed);
    CHECK(count.peak >= std::max({a.peak, b.peak, count.current}));
    CHECK(count.peak <= a.peak + b.peak);
  };
  agree(statistics.bytes, lists[0].bytes, lists[1].bytes);
  agree(statistics.allocations, lists[0].allocations, lists[1].allocations);
  CHECK(statistics.bytes.peak <= ledger.capacity());
  const int64_t refused = lists[0].refused + lists[1].refused;
  CHECK(refused > 0);
  CHECK(statistics.num_ooms == refused);
  // A retry may succeed: the other thread freed something in between.
  CHECK(statistics.num_alloc_retries >= refused);
}

TEST_CASE("HBM can be filled to the last byte, and blocks without bytes count as allocations") {
  HbmLedger ledger(1000, "core");
  HbmBlock all = block_of(1000), none = block_of(0), one = block_of(1);
  ledger.charge(all);
  ledger.charge(none);
  CHECK_THROWS_AS(ledger.charge(one), HbmFull);
  CHECK(ledger.statistics().bytes.current == 1000);
  CHECK(ledger.statistics().allocations.current == 2);
  ledger.uncharge(all);
  ledger.charge(one);  // a refused block can be charged later
  ledger.uncharge(none);
  ledger.uncharge(one);
  ledger.uncharge(none);  // empty ones need not be charged
  CHECK(ledger.statistics().allocations.current == 0);
  CHECK(ledger.statistics().allocations.freed == 3);
  HbmBlock huge = block_of(INT64_MAX);
  ledger.charge(one);
  CHECK_THROWS_AS(ledger.charge(huge), HbmFull);
}

TEST_CASE("what does not fit asks once for memory that nobody needs, without holding the books") {
  HbmLedger ledger(1000, "core");
  HbmBlock unneeded = block_of(800), wanted = block_of(500), too_large = block_of(501);
  ledger.charge(unneeded);
  int calls = 0;
  ledger.set_release([&] {
    ++calls;
    CHECK(ledger.statistics().num_alloc_retries == calls);  // waits for ever if the lock is held
    if (unneeded.next) ledger.uncharge(unneeded);
  });
  ledger.charge(wanted);
  CHECK(calls == 1);
  CHECK(ledger.statistics().num_ooms == 0);
  CHECK(ledger.statistics().bytes.current == 500);
  CHECK_THROWS_AS(ledger.charge(too_large), HbmFull);
  CHECK(calls == 2);
  CHECK(ledger.statistics().num_alloc_retries == 2);
  CHECK(ledger.statistics().num_ooms == 1);
}

TEST_CASE("the HBM summary groups by phase and by operator and dtype, the largest first") {
  HbmLedger ledger(24 * kGiB, "core");
  // Equal texts at other addresses are equal.
  const std::string forward = "forward", mm = "aten::mm";
  std::vector<HbmBlock> blocks = {
      block_of(1 * kMiB, {"weights", "aten::empty", "float32"}),
      block_of(2 * kMiB, {"forward", "aten::add", "float32"}),
      block_of(3 * kMiB, {"forward", "aten::mm", "float32"}),
      block_of(4 * kMiB, {forward.c_str(), mm.c_str(), "float32"}),
      block_of(1536, {"forward", "aten::mm", "bfloat16"}),
      block_of(100, {"step", "aten::item", "int64"}),
  };
  for (HbmBlock& block : blocks) ledger.charge(block);
  CHECK(ledger.summary() ==
        "forward: 9.00 MiB in 4 tensors (aten::mm float32: 7.00 MiB in 2, aten::add float32: 2.00 MiB in 1, "
        "aten::mm bfloat16: 1.50 KiB in 1)\n"
        "weights: 1.00 MiB in 1 tensor (aten::empty float32: 1.00 MiB in 1)\n"
        "step: 100 bytes in 1 tensor (aten::item int64: 100 bytes in 1)");
  for (HbmBlock& block : blocks) ledger.uncharge(block);

  const char* names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
  blocks.clear();
  for (const char* name : names) {
    blocks.push_back(block_of(8192 - 1024 * static_cast<int64_t>(blocks.size()), {"p", name, "t"}));
  }
  for (HbmBlock& block : blocks) ledger.charge(block);
  CHECK(ledger.summary() ==
        "p: 36.00 KiB in 8 tensors (a t: 8.00 KiB in 1, b t: 7.00 KiB in 1, c t: 6.00 KiB in 1, d t: 5.00 "
        "KiB in "
        "1, e t: 4.00 KiB in 1, f t: 3.00 KiB in 1, others: 3.00 KiB in 2)");
}

TEST_CASE("the out-of-memory message says what was wanted, what there is, what holds it and what to do") {
  HbmLedger ledger(24 * kGiB, "NeuronCore 3 (chip 0)");
  CHECK(message_of(ledger, 25 * kGiB) ==
        "NEURON out of memory. Tried to allocate 25.00 GiB. NeuronCore 3 (chip 0) has 24.00 GiB of HBM, 0 "
        "bytes "
        "of it allocated in 0 tensors, 24.00 GiB free. Use a smaller training.local_batch_size or "
        "training.seq_len, turn on activation_checkpoint, or shard over more ranks.");
  std::vector<HbmBlock> blocks(1234, block_of(0));
  blocks[0].bytes = 22 * kGiB + 820 * kMiB;
  for (HbmBlock& block : blocks) ledger.charge(block);
  CHECK(
      message_of(ledger, 2 * kGiB) ==
      "NEURON out of memory. Tried to allocate 2.00 GiB. NeuronCore 3 (chip 0) has 24.00 GiB of HBM, 22.80 "
      "GiB "
      "of it allocated in 1,234 tensors, 1.20 GiB free. What holds it:\n"
      "forward: 22.80 GiB in 1,234 tensors (aten::mm float32: 22.80 GiB in 1,234)\n"
      "Use a smaller training.local_batch_size or training.seq_len, turn on activation_checkpoint, or shard "
      "over more ranks.");
}

TEST_CASE(
    "a reset peak starts from what is allocated now; others see what is allocated and the peak of all time") {
  HbmLedger ledger(1000, "core");
  std::atomic<int64_t> allocated = -1, peak = -1;
  HbmBlock first = block_of(300), second = block_of(200);
  ledger.charge(first);
  ledger.mirror(&allocated, &peak);
  CHECK(allocated == 300);
  CHECK(peak == 300);
  ledger.charge(second);
  CHECK(allocated == 500);
  CHECK(peak == 500);
  ledger.uncharge(first);
  CHECK(allocated == 200);
  CHECK(peak == 500);
  ledger.reset_peak();
  CHECK(peak == 500);
  CHECK(ledger.statistics().bytes.peak == 200);
  CHECK(ledger.statistics().allocations.peak == 1);
  ledger.mirror(nullptr, nullptr);
  ledger.uncharge(second);
  CHECK(allocated == 200);
}

TEST_CASE("a block is charged once, and giving back what is not charged ends the program") {
  HbmLedger ledger(1000, "core");
  HbmBlock block = block_of(10), negative = block_of(-1);
  ledger.charge(block);
  CHECK_THROWS_AS(ledger.charge(block), std::logic_error);
  CHECK_THROWS_AS(ledger.charge(negative), std::logic_error);
  ledger.uncharge(block);
  CHECK(ledger.statistics().bytes.current == 0);

  const pid_t child = fork();
  if (child == 0) {
    std::set_terminate([] { _exit(42); });
    ledger.uncharge(block);
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 42);
}
