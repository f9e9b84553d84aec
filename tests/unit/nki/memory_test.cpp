#include "titan/nki/memory.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/nki/kernel_error.h"
#include "titan/base/available_memory.h"
#include "titan/nki/rows.h"

using namespace titan::nki;
using titan::available_memory;

namespace {

Tensor place(ChipMemory& memory, std::vector<int64_t> shape, std::optional<ChipAddress> address = {},
             std::string name = "t") {
  return chip_tensor(memory, std::move(name), std::move(shape), Dtype::float32, address, false);
}

int64_t byte_of(const Tensor& tensor) { return tensor.allocation()->byte_offset; }

/// What is said when a tensor of so many float32 in each partition does not fit.
std::string full_text(ChipMemory& memory, int64_t partitions, int64_t elements) {
  try {
    place(memory, {partitions, elements});
  } catch (const KernelError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("written bits agree with a list of flags, whatever runs are marked and cleared") {
  std::mt19937 random(3);
  constexpr int64_t kBytes = 1000;
  WrittenBits bits(kBytes);
  std::vector<bool> flags(kBytes, false);
  for (int i = 0; i < 3000; ++i) {
    const auto begin = static_cast<int64_t>(random() % kBytes);
    const int64_t count =
        static_cast<int64_t>(random() % std::min<uint64_t>(200, kBytes - static_cast<uint64_t>(begin))) + 1;
    bool covered = true, touched = false;
    for (int64_t k = begin; k < begin + count; ++k) {
      covered = covered && flags[static_cast<size_t>(k)];
      touched = touched || flags[static_cast<size_t>(k)];
    }
    REQUIRE(bits.covers(begin, count) == covered);
    REQUIRE(bits.touches(begin, count) == touched);
    const bool mark = random() % 2 == 0;
    if (mark) {
      bits.mark(begin, count);
    } else {
      bits.clear(begin, count);
    }
    for (int64_t k = begin; k < begin + count; ++k) flags[static_cast<size_t>(k)] = mark;
  }
  CHECK(WrittenBits(130, true).covers(0, 130));
}

TEST_CASE("two cores mark neighbouring bytes at once and lose none") {
  WrittenBits bits(64 * 100);
  const auto every_other = [&](int64_t first) {
    for (int64_t i = first; i < 64 * 100; i += 2) bits.mark(i, 1);
  };
  std::thread other(every_other, 1);
  every_other(0);
  other.join();
  CHECK(bits.covers(0, 64 * 100));
}

TEST_CASE("sizes of the chips") {
  CHECK(CoreSizes::of(Generation::trn1).sbuf_partition_bytes == 192 * 1024);
  CHECK(CoreSizes::of(Generation::trn2).sbuf_partition_bytes == 192 * 1024);
  CHECK(CoreSizes::of(Generation::trn3).sbuf_partition_bytes == 224 * 1024);
  CHECK(CoreSizes::of(Generation::trn2).psum_partition_bytes == 16 * 1024);
}

TEST_CASE("tensors take the lowest free bytes, and give them back with their last view") {
  ChipMemory memory(Buffer::sbuf, 4096);
  Tensor a = place(memory, {128, 64}), b = place(memory, {128, 64});
  const Tensor c = place(memory, {128, 64});
  CHECK(byte_of(a) == 0);
  CHECK(byte_of(b) == 256);
  CHECK(byte_of(c) == 512);
  Tensor view = b(0);
  b = {};
  CHECK(byte_of(place(memory, {128, 64})) == 768);
  view = {};
  CHECK(byte_of(place(memory, {128, 128})) == 768);
  const Tensor d = place(memory, {128, 64});
  CHECK(byte_of(d) == 256);
  CHECK(byte_of(place(memory, {2, 1})) == 768);
}

TEST_CASE("partitions that do not meet share bytes of the partition") {
  ChipMemory memory(Buffer::sbuf, 4096);
  CHECK(memory.reserve(0, 32, 100, 4, "a") == 0);
  CHECK(memory.reserve(32, 32, 100, 4, "b") == 0);
  CHECK(memory.reserve(16, 32, 100, 4, "c") == 100);
  memory.release(0, 32, 0, 100);
  CHECK(memory.reserve(0, 16, 200, 4, "d") == 0);
  CHECK(memory.peak_bytes() == 200);
}

TEST_CASE("tensors that share bytes are given back one by one, and kept clear of to their last byte") {
  ChipMemory memory(Buffer::sbuf, 4096);
  memory.claim(0, 32, 0, 512, "outer");
  memory.claim(0, 32, 64, 64, "inner");
  memory.claim(0, 32, 256, 64, "other");
  CHECK(memory.peak_bytes() == 512);
  CHECK(memory.reserve(0, 32, 128, 64, "beside") == 512);
  CHECK(memory.peak_bytes() == 640);
  memory.claim(0, 32, 640, 384, "filled");
  memory.claim(0, 32, 1024, 100, "short");
  memory.claim(0, 16, 1024, 200, "left");
  memory.claim(16, 16, 1024, 200, "right");
  memory.claim(0, 32, 1024, 200, "long");
  memory.release(0, 32, 1024, 200);
  memory.release(16, 16, 1024, 200);
  CHECK(memory.reserve(0, 1, 4, 4, "after the left one") == 1224);
  CHECK(memory.reserve(16, 1, 4, 4, "after the short one") == 1124);
}

TEST_CASE("the smallest tensors begin 4 bytes apart, and a tensor may end with its memory") {
  ChipMemory memory(Buffer::sbuf, 4096);
  const Tensor a = chip_tensor(memory, "a", {2, 1}, Dtype::uint8, {}, false),
               b = chip_tensor(memory, "b", {2, 1}, Dtype::uint8, {}, false);
  CHECK(byte_of(b) == 4);
  CHECK(byte_of(place(memory, {4, 8}, ChipAddress{124, 4064})) == 4064);
  CHECK(byte_of(place(memory, {128, 1008})) == 64);
  CHECK(broken_rule([&] { place(memory, {128, 1009}); }) == "memory.sbuf-full");
}

TEST_CASE("the peak counts what was in use at once, and shared bytes once") {
  ChipMemory memory(Buffer::sbuf, 4096);
  {
    const Tensor a = place(memory, {128, 64}), b = place(memory, {128, 64});
    CHECK(memory.peak_bytes() == 512);
  }
  const Tensor c = place(memory, {128, 32});
  CHECK(memory.peak_bytes() == 512);
  const Tensor d = place(memory, {32, 64}, ChipAddress{64, 1024}),
               e = place(memory, {32, 64}, ChipAddress{64, 1152});
  CHECK(memory.peak_bytes() == 512);
  const Tensor f = place(memory, {32, 4}, ChipAddress{96, 0}),
               g = place(memory, {32, 64}, ChipAddress{64, 2048});
  CHECK(memory.peak_bytes() == 128 + 384 + 256);
}

TEST_CASE("a full memory names what is in use") {
  ChipMemory memory(Buffer::sbuf, 4096);
  const Tensor a = place(memory, {128, 512}, {}, "weights"), b = place(memory, {64, 256}, {}, "tile");
  CHECK(broken_rule([&] { place(memory, {128, 512}); }) == "memory.sbuf-full");
  try {
    place(memory, {128, 512}, {}, "late");
  } catch (const KernelError& error) {
    CHECK(std::string(error.what()) ==
          "late of 2,048 bytes in each of 128 partitions does not fit into sbuf of 4,096 bytes a partition: "
          "in use "
          "are weights (2,048 bytes at 0), tile (1,024 bytes at 2,048) [memory.sbuf-full]");
  }
  ChipMemory psum(Buffer::psum, 16384);
  CHECK(broken_rule([&] { place(psum, {128, 4097}); }) == "memory.psum-full");
  CHECK(full_text(psum, 8, 4097).find(": nothing is in use") != std::string::npos);
}

TEST_CASE("a full memory names the eight largest in the partitions that are asked for") {
  ChipMemory memory(Buffer::sbuf, 4096);
  memory.claim(64, 64, 0, 4000, "elsewhere");
  for (int64_t i = 0; i < 10; ++i) memory.claim(0, 64, i * 100, 10 + i, "t" + std::to_string(i));
  const std::string text = full_text(memory, 64, 1024);
  CAPTURE(text);
  CHECK(text.find("in use are t9 (19 bytes at 900), t8 (18 bytes at 800), t7") != std::string::npos);
  CHECK(text.find("t2 (12 bytes at 200) and 2 more") != std::string::npos);
  CHECK(text.find("elsewhere") == std::string::npos);
}

TEST_CASE("the lowest free bytes are found as by trying all, whatever is taken and given back") {
  struct Range {
    int64_t first, count, begin, bytes;
  };
  std::mt19937 random(5);
  const auto any_of = [&](std::vector<int64_t> of) { return of[random() % of.size()]; };
  for (const Buffer buffer : {Buffer::sbuf, Buffer::psum}) {
    ChipMemory memory(buffer, 8192);
    std::vector<Range> ranges;
    const auto lowest = [&](const Range& of, int64_t alignment) {
      for (int64_t begin = 0;; begin += alignment) {
        if (buffer == Buffer::psum && begin % 2048 != 0 && begin % 2048 + of.bytes > 2048) continue;
        const bool free = std::ranges::none_of(ranges, [&](const Range& other) {
          return of.first < other.first + other.count && other.first < of.first + of.count &&
                 begin < other.begin + other.bytes && other.begin < begin + of.bytes;
        });
        if (free) return begin;
      }
    };
    for (int turn = 0; turn < 4000; ++turn) {
      if (ranges.size() > 30 || (!ranges.empty() && random() % 3 == 0)) {
        const size_t i = random() % ranges.size();
        memory.release(ranges[i].first, ranges[i].count, ranges[i].begin, ranges[i].bytes);
        ranges.erase(ranges.begin() + static_cast<std::ptrdiff_t>(i));
        continue;
      }
      Range range{any_of({0, 0, 0, 32, 64}), any_of({1, 32, 64}), 0, any_of({2, 4, 12, 64, 100, 300})};
      if (random() % 8 == 0) {
        range.begin = any_of({0, 6, 40, 512});
        memory.claim(range.first, range.count, range.begin, range.bytes, "claimed");
      } else {
        const int64_t alignment = any_of({4, 16, 64});
        range.begin = lowest(range, alignment);
        REQUIRE(memory.reserve(range.first, range.count, range.bytes, alignment, "t") == range.begin);
      }
      ranges.push_back(range);
    }
  }
}

TEST_CASE("tensors are given back on another thread while their core makes new ones") {
  ChipMemory memory(Buffer::sbuf, 65536);
  for (int turn = 0; turn < 30; ++turn) {
    std::vector<Tensor> given, kept;
    for (int i = 0; i < 1500; ++i) given.push_back(place(memory, {1, 1 + i % 3}));
    std::atomic<bool> begun = false;
    std::thread other([&] {
      begun = true;
      given.clear();
    });
    while (!begun) std::this_thread::yield();
    for (int i = 0; i < 1500; ++i) kept.push_back(place(memory, {1, 1 + i % 4}));
    other.join();
  }
  CHECK(byte_of(place(memory, {128, 16384})) == 0);
}

TEST_CASE("PSUM tensors stay in a bank, or begin at one") {
  ChipMemory memory(Buffer::psum, 16384);
  const Tensor a = place(memory, {128, 300}), b = place(memory, {128, 300}), c = place(memory, {128, 100});
  CHECK(byte_of(a) == 0);
  CHECK(byte_of(b) == 2048);
  CHECK(byte_of(c) == 1216);
  const Tensor wide = place(memory, {128, 1024});
  CHECK(byte_of(wide) == 4096);
  CHECK(byte_of(place(memory, {128, 512})) == 8192);
  // Two halves fill a bank.
  const Tensor half = place(memory, {128, 256}), other_half = place(memory, {128, 256});
  CHECK(byte_of(half) == 8192);
  CHECK(byte_of(other_half) == 9216);
}

TEST_CASE("explicit addresses alias, are checked, and are kept clear of by other tensors") {
  ChipMemory memory(Buffer::sbuf, 4096);
  const Tensor a = place(memory, {4, 8}, ChipAddress{32, 64}), b = place(memory, {2, 4}, ChipAddress{33, 80});
  std::vector<float> row = {1, 2, 3, 4, 5, 6, 7, 8};
  Rows(a).write(1, row.data());
  float read[4];
  Rows(b).read(0, read);
  CHECK(read[0] == 5);
  // A tensor placed over written bytes leaves them as they are.
  const Tensor again = place(memory, {4, 8}, ChipAddress{32, 64});
  Rows(again).read(1, row.data());
  CHECK(row[7] == 8);
  CHECK(byte_of(place(memory, {128, 16})) == 0);
  CHECK(byte_of(place(memory, {128, 32})) == 128);
  CHECK(broken_rule([&] { place(memory, {4, 8}, ChipAddress{125, 0}); }) == "memory.address");
  CHECK(broken_rule([&] { place(memory, {4, 8}, ChipAddress{-1, 0}); }) == "memory.address");
  CHECK(broken_rule([&] { place(memory, {4, 8}, ChipAddress{128, 0}); }) == "memory.address");
  CHECK(broken_rule([&] { place(memory, {4, 8}, ChipAddress{INT64_MAX, 0}); }) == "memory.address");
  CHECK(broken_rule([&] { place(memory, {4, 8}, ChipAddress{0, 4068}); }) == "memory.address");
  CHECK(broken_rule([&] { place(memory, {4, 8}, ChipAddress{0, -4}); }) == "memory.address");
  CHECK(broken_rule([&] { place(memory, {4, 8}, ChipAddress{0, INT64_MAX - 3}); }) == "memory.address");
  CHECK(broken_rule([&] { place(memory, {4, 8}, ChipAddress{0, 6}); }) == "memory.address-alignment");
}

TEST_CASE("shapes that no memory has are refused") {
  ChipMemory memory(Buffer::sbuf, 4096);
  CHECK(broken_rule([&] { place(memory, {128}); }) == "ndarray.rank");
  CHECK(broken_rule([&] { place(memory, {129, 1}); }) == "ndarray.partitions");
  CHECK(broken_rule([&] { place(memory, {4, 0}); }) == "ndarray.shape");
  CHECK(broken_rule([&] { place(memory, {4, -1}); }) == "ndarray.shape");
  const auto hbm = [](std::vector<int64_t> shape) {
    hbm_tensor("x", std::move(shape), Dtype::float32, Buffer::private_hbm, true);
  };
  CHECK(broken_rule([&] { hbm({INT64_MAX, INT64_MAX}); }) == "ndarray.too-large");
  CHECK(broken_rule([&] { hbm({int64_t{1} << 33}); }) == "ndarray.too-large");
  // 24 GiB, and one element more.
  CHECK(broken_rule([&] { hbm({int64_t{6} << 30}); }).empty());
  CHECK(broken_rule([&] { hbm({(int64_t{6} << 30) + 1}); }) == "ndarray.too-large");
}

TEST_CASE("HBM that the host cannot hold is refused before it is taken") {
  const auto take = [](std::vector<int64_t> shape, std::optional<int64_t> available) {
    return broken_rule(
        [&] { hbm_tensor("big", std::move(shape), Dtype::uint8, Buffer::private_hbm, false, available); });
  };
  CHECK(take({8000}, 9000).empty());  // with a bit a byte for what is written
  CHECK(take({8000}, 8999) == "memory.host");
  CHECK(take({8000}, 0) == "memory.host");
  // What the machine itself says, where that is less than the largest tensor.
  constexpr int64_t kLargest = int64_t{24} << 30;
  if (available_memory() < kLargest) CHECK(take({kLargest}, {}) == "memory.host");
}

TEST_CASE("memory that was freed and taken again is unwritten, and holds NaN") {
  ChipMemory memory(Buffer::sbuf, 4096);
  {
    const Tensor a = place(memory, {2, 4});
    const float row[4] = {1, 2, 3, 4};
    Rows(a).write(0, row);
  }
  const Tensor b = place(memory, {2, 4});
  REQUIRE(byte_of(b) == 0);
  float read[4];
  CHECK(broken_rule([&] { Rows(b).read(0, read); }) == "memory.unwritten");
  std::memcpy(read, memory.at(0, 0), sizeof(read));
  for (float value : read) CHECK(std::isnan(value));
  // At an explicit address too, where nobody wrote.
  const Tensor c = chip_tensor(memory, "c", {2, 4}, Dtype::int32, ChipAddress{64, 512}, false);
  int32_t four = 0;
  std::memcpy(&four, memory.at(65, 524), sizeof(four));
  CHECK(four == 4);
}

TEST_CASE("HBM of a kernel is unwritten, the host's counts as written") {
  const Tensor mine = hbm_tensor("x", {3, 5}, Dtype::bfloat16, Buffer::private_hbm, false);
  REQUIRE(mine.allocation()->written != nullptr);
  CHECK_FALSE(mine.allocation()->written->touches(0, 30));
  float first = 0;
  to_float(mine.allocation()->data, Dtype::bfloat16, &first, 1);
  CHECK(std::isnan(first));
  to_float(mine.allocation()->data + 28, Dtype::bfloat16, &first, 1);
  CHECK(std::isnan(first));
  auto owner = std::make_shared<std::vector<float>>(15, 2.0F);
  const std::weak_ptr<std::vector<float>> watch = owner;
  Tensor input = host_tensor("in", {3, 5}, Dtype::float32, owner->data(), owner);
  owner.reset();
  CHECK(input.allocation()->written == nullptr);
  Tensor view = input(1);
  input = {};
  CHECK_FALSE(watch.expired());
  view = {};
  CHECK(watch.expired());
  CHECK(host_tensor("in", {3, 5}, Dtype::float32, nullptr, nullptr).allocation()->without_data);
  // A number without dimensions has one.
  CHECK(host_tensor("in", {}, Dtype::float32, nullptr, nullptr).shape() == std::vector<int64_t>{1});
  CHECK(hbm_tensor("x", {}, Dtype::int16, Buffer::private_hbm, false).shape() == std::vector<int64_t>{1});
  CHECK(hbm_tensor("x", {3}, Dtype::float32, Buffer::shared_hbm, true).allocation()->data == nullptr);
}

TEST_CASE("a tensor that outlives its core frees nothing and reads nothing") {
  auto memory = std::make_unique<ChipMemory>(Buffer::sbuf, 4096);
  Tensor late = place(*memory, {2, 4});
  memory.reset();
  CHECK(broken_rule([&] { Rows{late}; }) == "memory.core-gone");
  late = {};
}
