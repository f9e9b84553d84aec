#include "titan/nki/rows.h"

#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/unit/nki/kernel_error.h"
#include "titan/nki/memory.h"

using namespace titan::nki;

namespace {

struct RowChip {
  ChipMemory memory{Buffer::psum, 16384};
  Tensor tile(std::vector<int64_t> shape, Dtype dtype = Dtype::float32,
              std::optional<ChipAddress> address = {}) {
    return chip_tensor(memory, "t", std::move(shape), dtype, address, false);
  }
};

std::vector<float> counting(int64_t count, float first = 0) {
  std::vector<float> row;
  for (int64_t i = 0; i < count; ++i) row.push_back(first + static_cast<float>(i));
  return row;
}

std::vector<float> read_row(const Tensor& view, int64_t partition) {
  const Rows rows(view);
  std::vector<float> row(static_cast<size_t>(rows.count()));
  rows.read(partition, row.data());
  return row;
}

}  // namespace

TEST_CASE("rows read the elements of a view in its order, for every dtype") {
  for (Dtype dtype : {Dtype::float32, Dtype::bfloat16, Dtype::float16, Dtype::int16, Dtype::uint8}) {
    CAPTURE(dtype_name(dtype));
    RowChip chip;
    const Tensor t = chip.tile({3, 4, 5}, dtype);
    for (int64_t p = 0; p < 3; ++p) Rows(t).write(p, counting(20, static_cast<float>(100 * p)).data());
    CHECK(read_row(t, 2) == counting(20, 200));
    CHECK(read_row(t(ds(1, 2), 2), 1) == counting(5, 210));
    CHECK(read_row(t(1, all, 3), 0) == std::vector<float>{103, 108, 113, 118});
    CHECK(read_row(t(all, ds(0, 2), Slice{0, 5, 2}), 0) == std::vector<float>{0, 2, 4, 5, 7, 9});
    CHECK(read_row(t(all, ds(0, 2), ds(1, 2)).permute({0, 2, 1}), 0) == std::vector<float>{1, 6, 2, 7});
    CHECK(read_row(t(all, ds(1, 1), ds(0, 2)).broadcast(1, 2), 0) == std::vector<float>{5, 6, 5, 6});
    CHECK(read_row(t.ap({.pattern = {{20, 3}, {-1, 4}}, .offset = 3}), 1) ==
          std::vector<float>{103, 102, 101, 100});
  }
}

TEST_CASE("long runs within a row are read as short ones are") {
  RowChip chip;
  const Tensor t = chip.tile({2, 6, 40});
  Rows(t).write(0, counting(240).data());
  const std::vector<float> row = read_row(t(all, Slice{0, 6, 2}, ds(4, 32)), 0);
  REQUIRE(row.size() == 96);
  for (size_t i = 0; i < 96; ++i) CHECK(row[i] == static_cast<float>(i / 32 * 80 + 4 + i % 32));
}

TEST_CASE("writes reach the view's elements only, and mark them only") {
  RowChip chip;
  const Tensor t = chip.tile({2, 6}, Dtype::bfloat16);
  const Tensor odd = t(all, Slice{1, 6, 2});
  Rows(odd).write(0, counting(3, 7).data());
  for (int64_t i = 0; i < 6; ++i) {
    CAPTURE(i);
    CHECK((broken_rule([&] { read_row(t(all, ds(i, 1)), 0); }) == "memory.unwritten") == (i % 2 == 0));
    CHECK(broken_rule([&] { read_row(t(all, ds(i, 1)), 1); }) == "memory.unwritten");
  }
  CHECK(read_row(odd, 0) == counting(3, 7));
  CHECK(broken_rule([&] { read_row(t, 0); }) == "memory.unwritten");
  CHECK(read_row(t(all, ds(3, 1)), 0) == counting(1, 8));
}

TEST_CASE("a read of unwritten memory names the tensor, the partition and the element") {
  RowChip chip;
  const Tensor t = chip.tile({3, 4, 5});
  Rows(t(all, ds(0, 2))).write(1, counting(10).data());
  for (const auto& read : {+[](const Rows& rows) {
                             std::vector<float> row(20);
                             rows.read(1, row.data());
                           },
                           +[](const Rows& rows) {
                             std::vector<std::byte> row(80);
                             rows.read_bits(1, row.data());
                           },
                           +[](const Rows& rows) { rows.contiguous_read(1); }}) {
    std::string text;
    try {
      read(Rows(t));
    } catch (const KernelError& error) {
      text = error.what();
    }
    CHECK(text ==
          "t psum[3, 4, 5] float32 is read before it was written: partition 1, element 10 of 20 "
          "[memory.unwritten]");
  }
}

TEST_CASE("a read of unwritten memory is found behind what was written, and where a view goes backwards") {
  RowChip chip;
  const auto text_of = [](const Tensor& view) {
    std::string text;
    try {
      read_row(view, 0);
    } catch (const KernelError& error) {
      text = error.what();
    }
    return text;
  };
  const Tensor t = chip.tile({1, 4, 5}), backwards = chip.tile({1, 12});
  Rows(t(all, ds(0, 2))).write(0, counting(10).data());
  CHECK(text_of(t(all, all, ds(0, 3))).find("partition 0, element 6 of 12") != std::string::npos);
  Rows(backwards(all, ds(4, 8))).write(0, counting(8).data());
  CHECK(text_of(backwards.ap({.pattern = {{12, 1}, {-1, 4}}, .offset = 5})).find("element 2 of 4") !=
        std::string::npos);
  CHECK(text_of(backwards.ap({.pattern = {{12, 1}, {-1, 4}}, .offset = 7})).empty());
}

TEST_CASE("bits pass without conversion") {
  RowChip chip;
  const Tensor t = chip.tile({1, 4, 2}, Dtype::uint16);
  const uint16_t bits[8] = {0x7fc1, 0x8000, 3, 4, 5, 6, 7, 0xffff};
  Rows(t).write_bits(0, reinterpret_cast<const std::byte*>(bits));
  uint16_t back[4];
  Rows(t.view(Dtype::bfloat16)(all, all, 1)).read_bits(0, reinterpret_cast<std::byte*>(back));
  CHECK(std::vector<int>(back, back + 4) == std::vector<int>{0x8000, 4, 6, 0xffff});
}

TEST_CASE("contiguous rows are seen where they lie, others are not") {
  RowChip chip;
  const Tensor t = chip.tile({2, 4, 5});
  const Tensor part = t(1, ds(1, 2));
  const Rows rows(part);
  std::byte* begin = rows.contiguous_write(0);
  CHECK(begin == chip.memory.at(1, t.allocation()->byte_offset + 20));
  CHECK(rows.contiguous_read(0) == begin);
  CHECK(Rows(t(all, all, ds(0, 2))).contiguous_write(0) == nullptr);
  CHECK(Rows(t(all, all, 0)).contiguous_read(0) == nullptr);
}

TEST_CASE("tensors at one explicit address read what the other wrote") {
  RowChip chip;
  const Tensor first = chip.tile({2, 4}, Dtype::float32, ChipAddress{0, 2048});
  Rows(first).write(1, counting(4).data());
  const Tensor second = chip.tile({2, 4}, Dtype::float32, ChipAddress{0, 2048});
  CHECK(read_row(second, 1) == counting(4));
  Rows(second(1, ds(1, 2))).write(0, counting(2, 9).data());
  CHECK(read_row(first, 1) == std::vector<float>{0, 9, 10, 3});
}

TEST_CASE("for_each_run visits every element once, in order, in runs as long as they can be") {
  const Tensor x = hbm_tensor("x", {4, 3, 5}, Dtype::int16, Buffer::private_hbm, false);
  const std::byte* base = x.allocation()->data;
  struct Visit {
    int64_t element, first, count;
    bool operator==(const Visit&) const = default;
  };
  const auto visits = [&](const Tensor& view) {
    std::vector<Visit> result;
    for_each_run(view, [&](std::byte* bytes, int64_t first, int64_t count) {
      result.push_back({(bytes - base) / 2, first, count});
    });
    return result;
  };
  CHECK(visits(x) == std::vector<Visit>{{0, 0, 60}});
  CHECK(visits(x(2)) == std::vector<Visit>{{30, 0, 15}});
  CHECK(visits(x(ds(1, 2), ds(0, 2))) == std::vector<Visit>{{15, 0, 10}, {30, 10, 10}});
  CHECK(visits(x(0, all, 4)) == std::vector<Visit>{{4, 0, 1}, {9, 1, 1}, {14, 2, 1}});
  CHECK(visits(x(3, 2, 4)) == std::vector<Visit>{{59, 0, 1}});
  CHECK(visits(x.ap({.pattern = {{-1, 3}}, .offset = 7})) ==
        std::vector<Visit>{{7, 0, 1}, {6, 1, 1}, {5, 2, 1}});
  CHECK(visits(x.ap({.pattern = {{0, 2}}, .offset = 7})) == std::vector<Visit>{{7, 0, 1}, {7, 1, 1}});
}

TEST_CASE("for_each_run goes through a tile's partitions") {
  RowChip chip;
  const Tensor t = chip.tile({4, 6});
  std::vector<int64_t> partitions, firsts;
  for_each_run(t(ds(1, 2), ds(2, 3)), [&](std::byte* bytes, int64_t first, int64_t count) {
    const int64_t byte = bytes - chip.memory.at(0, 0);
    CHECK(byte % chip.memory.partition_bytes() == t.allocation()->byte_offset + 8);
    CHECK(count == 3);
    partitions.push_back(byte / chip.memory.partition_bytes());
    firsts.push_back(first);
  });
  CHECK(partitions == std::vector<int64_t>{1, 2});
  CHECK(firsts == std::vector<int64_t>{0, 3});
  const Tensor placed = chip.tile({2, 4}, Dtype::float32, ChipAddress{32, 2048});
  for_each_run(placed(1),
               [&](std::byte* bytes, int64_t, int64_t) { CHECK(bytes == chip.memory.at(33, 2048)); });
}
