#include <doctest/doctest.h>

#include <vector>

#include "tests/unit/nki/kernel_error.h"
#include "titan/nki/memory.h"
#include "titan/nki/register.h"
#include "titan/nki/rows.h"
#include "titan/nki/tensor.h"

using namespace titan::nki;
using Kind = Tensor::Indirection::Kind;

namespace {

struct PatternChip {
  ChipMemory memory{Buffer::sbuf, 8192};
  Tensor tile(std::vector<int64_t> shape, Dtype dtype = Dtype::float32) {
    return chip_tensor(memory, "t", std::move(shape), dtype, {}, false);
  }
  /// [count, 1] int32 holding `value`.
  Tensor offsets(int64_t count, float value = 0) {
    Tensor result = tile({count, 1}, Dtype::int32);
    for (int64_t p = 0; p < count; ++p) Rows(result).write(p, &value);
    return result;
  }
};

Tensor hbm_tokens(std::vector<int64_t> shape, Dtype dtype = Dtype::float32) {
  return hbm_tensor("x", std::move(shape), dtype, Buffer::private_hbm, false);
}

}  // namespace

TEST_CASE("a pattern steps over the whole allocation, whatever view it is asked of") {
  const Tensor x = hbm_tokens({4, 6});
  const Tensor columns = x.ap({.pattern = {{1, 6}, {6, 4}}});
  CHECK(columns.dims() == std::vector<Dim>{{6, 1}, {4, 6}});
  CHECK(x(1).ap({.pattern = {{1, 18}}}).offset() == 6);
  CHECK(x(1).ap({.pattern = {{1, 6}}, .offset = 12}).offset() == 18);
  CHECK(x.ap({.pattern = {{-1, 6}}, .offset = 5}).dims()[0] == Dim{6, -1});
  CHECK(x.ap({.pattern = {{0, 128}, {1, 24}}}).numel() == 128 * 24);
  // Up to the last element; a pair of count 1 steps nowhere, whatever its stride.
  CHECK(hbm_tokens({25}).ap({.pattern = {{12, 3}}}).dims()[0] == Dim{3, 12});
  CHECK(x.ap({.pattern = {{24, 1}, {1000, 1}, {1, 24}}}).numel() == 24);
}

TEST_CASE("patterns in HBM stay within the tensor") {
  const Tensor x = hbm_tokens({4, 6});
  CHECK(broken_rule([&] { x.ap({.pattern = {{6, 5}, {1, 6}}}); }) == "ap.bounds");
  CHECK(broken_rule([&] { x.ap({.pattern = {{1, 24}}, .offset = 1}); }) == "ap.bounds");
  CHECK(broken_rule([&] { x.ap({.pattern = {{-1, 2}}}); }) == "ap.bounds");
  CHECK(broken_rule([&] { x.ap({.pattern = {{1, 1}}, .offset = -1}); }) == "ap.bounds");
  CHECK(broken_rule([&] { x(1).ap({.pattern = {{1, 19}}}); }) == "ap.bounds");
  CHECK(broken_rule([&] { x.ap({.pattern = {{INT64_MAX, 3}}}); }) == "ap.bounds");
  CHECK(broken_rule([&] { x.ap({.pattern = {{INT64_MIN, 3}}}); }) == "ap.bounds");
  CHECK(broken_rule([&] { x.ap({.pattern = {{1, 1}}, .offset = INT64_MAX}); }) == "ap.bounds");
  CHECK(broken_rule([&] { x.ap({.pattern = {{1, 0}}}); }) == "ap.count");
  CHECK(broken_rule([&] { x.ap({.pattern = {{1, INT64_MAX}}}); }) == "ap.count");
  CHECK(broken_rule([&] { x.ap({}); }) == "ap.rank");
}

TEST_CASE("the counts of a pattern make a number of elements, which views of it can multiply") {
  const Tensor x = hbm_tokens({4, 6});
  constexpr int64_t kMost = int64_t{1} << 48;
  CHECK(x.ap({.pattern = {{0, kMost >> 20}, {0, 1 << 20}}}).numel() == kMost);
  CHECK(broken_rule([&] { x.ap({.pattern = {{0, kMost >> 20}, {0, (1 << 20) + 1}}}); }) == "ap.count");
  CHECK(broken_rule([&] {
          x.ap({.pattern = {{0, int64_t{1} << 40}, {0, 1 << 24}, {1, 1}}}).broadcast(2, 2);
        }) == "ap.count");
  PatternChip chip;
  const Tensor t = chip.tile({4, 6});
  const std::pair<int64_t, int64_t> half = {0, 1 << 14};
  CHECK(broken_rule([&] { t.ap({.pattern = {{6, 4}, half, half, half, half, {0, 1 << 8}}}); }) == "ap.count");
  // A stride that takes no step is not multiplied by anything.
  const Tensor one = x.ap({.pattern = {{INT64_MAX, 1}, {INT64_MIN, 1}, {1, 6}}});
  CHECK(one.dims() == std::vector<Dim>{{1, 1}, {1, 1}, {6, 1}});
}

TEST_CASE("on chip the first pair is the partitions, and an offset holds a partition and a place in it") {
  PatternChip chip;
  const Tensor t = chip.tile({8, 4, 6});
  const Tensor part = t.ap({.pattern = {{24, 4}, {6, 2}, {1, 3}}, .offset = 2 * 24 + 5});
  CHECK(part.partition_offset() == 2);
  CHECK(part.offset() == 5);
  CHECK(part.dims() == std::vector<Dim>{{4, 1}, {2, 6}, {3, 1}});
  CHECK(t(3, 1).ap({.pattern = {{24, 1}, {1, 6}}}).partition_offset() == 3);
  CHECK(t(3, 1).ap({.pattern = {{24, 1}, {1, 6}}}).offset() == 6);
  CHECK(broken_rule([&] { t.ap({.pattern = {{6, 4}, {1, 6}}}); }) == "ap.partition-stride");
  CHECK(broken_rule([&] { t.ap({.pattern = {{0, 4}, {1, 6}}}); }) == "ap.partition-stride");
  CHECK(broken_rule([&] { t.ap({.pattern = {{24, 9}, {1, 6}}}); }) == "ap.bounds");
  CHECK(broken_rule([&] { t.ap({.pattern = {{24, 8}, {1, 6}}, .offset = 24}); }) == "ap.bounds");
  CHECK(broken_rule([&] { t.ap({.pattern = {{24, 8}, {1, 25}}}); }) == "ap.bounds");
  CHECK(broken_rule([&] { t.ap({.pattern = {{24, 7}, {1, 6}}, .offset = 20}); }) == "ap.bounds");
  CHECK(broken_rule([&] { t.ap({.pattern = {{24, 7}, {1, 6}}, .offset = -1}); }) == "ap.bounds");
  CHECK(broken_rule([&] { t(3, 1).ap({.pattern = {{24, 1}, {1, 6}}, .offset = -1}); }) == "ap.bounds");
  const Tensor column = chip.tile({8, 1});
  CHECK(broken_rule([&] { column(3).ap({.pattern = {{1, 1}, {1, 1}}, .offset = INT64_MAX}); }) ==
        "ap.bounds");
  CHECK(broken_rule([&] { t.ap({.pattern = {{24, 8}}}); }) == "ap.rank");
}

TEST_CASE("a pattern in another dtype counts in its elements") {
  PatternChip chip;
  const Tensor t = chip.tile({8, 4, 6});
  const Tensor bytes = t(all, 1).ap({.pattern = {{96, 8}, {1, 8}}, .dtype = Dtype::uint8});
  CHECK(bytes.offset() == 24);
  CHECK(bytes.dtype() == Dtype::uint8);
  CHECK(broken_rule([&] { t.ap({.pattern = {{24, 8}, {1, 8}}, .dtype = Dtype::uint8}); }) ==
        "ap.partition-stride");
  const Tensor halves = hbm_tokens({4, 6}, Dtype::bfloat16);
  CHECK(halves.ap({.pattern = {{1, 12}}, .dtype = Dtype::float32}).offset() == 0);
  CHECK(broken_rule([&] { halves.ap({.pattern = {{1, 13}}, .dtype = Dtype::float32}); }) == "ap.bounds");
  CHECK(broken_rule([&] { halves(0, 1).ap({.pattern = {{1, 1}}, .dtype = Dtype::float32}); }) ==
        "tensor.view-dtype");
}

TEST_CASE("a pattern in another dtype begins where one of its elements can") {
  PatternChip chip;
  const Tensor odd = chip_tensor(chip.memory, "odd", {4, 8}, Dtype::bfloat16, ChipAddress{0, 2}, false);
  const AccessPattern floats{.pattern = {{4, 4}, {1, 1}}, .dtype = Dtype::float32};
  CHECK(broken_rule([&] { odd.ap(floats); }) == "tensor.view-dtype");
  // At a multiple of 4 bytes, but not as many float32 from the tensor's begin.
  CHECK(broken_rule([&] { odd(all, ds(1, 4)).ap(floats); }) == "tensor.view-dtype");
  alignas(4) std::byte bytes[10] = {};
  const Tensor host = host_tensor("h", {4}, Dtype::bfloat16, bytes + 2, nullptr);
  CHECK(broken_rule([&] { host.ap({.pattern = {{1, 1}}, .dtype = Dtype::float32}); }) == "tensor.view-dtype");
  CHECK(host.ap({.pattern = {{1, 8}}, .dtype = Dtype::uint8}).numel() == 8);
}

TEST_CASE("a vector offset multiplies by the rows of the tensor as reshaped, up to its last row") {
  PatternChip chip;
  const Tensor x = hbm_tokens({10, 2, 3});
  const Tensor rows = chip.offsets(4);
  const Tensor gathered = x.ap({.pattern = {{6, 4}, {1, 6}}, .vector_offset = rows});
  CHECK(gathered.indirection().kind == Kind::vector);
  CHECK(gathered.indirection().stride == 6);
  CHECK(gathered.indirection().limit == 10);
  CHECK(gathered.dims()[0] == Dim{4, 0});
  const Tensor finer = x.reshape({20, 3}).ap({.pattern = {{3, 4}, {1, 3}}, .vector_offset = rows});
  CHECK(finer.indirection().stride == 3);
  CHECK(finer.indirection().limit == 20);
  // Two rows at once: the last index that stays inside is one earlier.
  CHECK(x.ap({.pattern = {{6, 4}, {1, 12}}, .vector_offset = rows}).indirection().limit == 9);
  CHECK(x.ap({.pattern = {{6, 4}, {1, 6}}, .offset = 12, .vector_offset = rows}).indirection().limit == 8);
  // From the second row's first element on, the last index would name the element after the last.
  CHECK(x.ap({.pattern = {{6, 4}, {1, 1}}, .offset = 6, .vector_offset = rows}).indirection().limit == 9);
  // Rows of a view as another dtype have as many elements as it sees in them.
  const Tensor halves = hbm_tokens({10, 2, 4}, Dtype::bfloat16).view(Dtype::float32);
  CHECK(halves.ap({.pattern = {{4, 4}, {1, 4}}, .vector_offset = rows}).indirection().stride == 4);
  CHECK(broken_rule([&] {
          hbm_tokens({10, 3}, Dtype::bfloat16)
              .ap({.pattern = {{1, 4}, {1, 1}}, .vector_offset = rows, .dtype = Dtype::float32});
        }) == "ap.indirect-dim");
}

TEST_CASE("a scalar offset is added when rows are read, and is bounded") {
  PatternChip chip;
  const Tensor t = chip.tile({2, 5, 3});
  std::vector<float> row(15);
  for (int i = 0; i < 15; ++i) row[static_cast<size_t>(i)] = static_cast<float>(i);
  for (int64_t p = 0; p < 2; ++p) Rows(t).write(p, row.data());
  const Tensor two = chip.offsets(1, 2);
  const Tensor from_tensor = t.ap({.pattern = {{15, 2}, {1, 3}}, .scalar_offset = two, .indirect_dim = 1});
  CHECK(from_tensor.indirection().stride == 3);
  CHECK(from_tensor.indirection().limit == 5);
  float read[3];
  Rows(from_tensor).read(1, read);
  CHECK(read[0] == 6);
  Register index(4);
  const Tensor from_register =
      t.ap({.pattern = {{15, 2}, {1, 3}}, .scalar_offset = index, .indirect_dim = 1});
  Rows(from_register).read(1, read);
  CHECK(read[2] == 14);
  index.set(1);
  CHECK(resolved(from_register).offset() == 3);
  index.set(5);
  CHECK(broken_rule([&] { Rows{from_register}; }) == "ap.scalar-offset-bounds");
  index.set(-1);
  CHECK(broken_rule([&] { resolved(from_register); }) == "ap.scalar-offset-bounds");
  // In another dtype an index is worth the same bytes.
  const Tensor bytes =
      t.ap({.pattern = {{60, 2}, {1, 12}}, .scalar_offset = two, .indirect_dim = 1, .dtype = Dtype::uint8});
  CHECK(bytes.indirection().stride == 12);
  // A view with such an offset is seen in dtypes of its size only, and is not contiguous.
  CHECK(from_register.view(Dtype::int32).dtype() == Dtype::int32);
  CHECK(broken_rule([&] { from_register.view(Dtype::uint8); }) == "tensor.view-dtype");
  CHECK_FALSE(from_register.is_contiguous());
  index.set(1);
  CHECK(resolved(from_register).is_contiguous());
}

TEST_CASE("run-time offsets are int32 in SBUF of the right size, one a view") {
  PatternChip chip;
  const Tensor x = hbm_tokens({10, 6}), t = chip.tile({4, 6});
  const Tensor four = chip.offsets(4), one = chip.offsets(1), floats = chip.tile({4, 1});
  const Tensor in_hbm = hbm_tokens({4, 1}, Dtype::int32);
  const std::vector<std::pair<int64_t, int64_t>> rows = {{6, 4}, {1, 6}};
  CHECK(broken_rule([&] { x.ap({.pattern = rows, .vector_offset = one}); }) == "ap.offset-tensor");
  CHECK(broken_rule([&] { x.ap({.pattern = rows, .vector_offset = floats}); }) == "ap.offset-tensor");
  CHECK(broken_rule([&] { x.ap({.pattern = rows, .vector_offset = in_hbm}); }) == "ap.offset-tensor");
  CHECK(broken_rule([&] { x.ap({.pattern = rows, .scalar_offset = four}); }) == "ap.offset-tensor");
  CHECK(broken_rule([&] { x.ap({.pattern = rows, .vector_offset = four, .indirect_dim = 1}); }) ==
        "ap.indirect-dim");
  CHECK(broken_rule([&] { x.ap({.pattern = rows, .scalar_offset = one, .indirect_dim = 2}); }) ==
        "ap.indirect-dim");
  CHECK(broken_rule([&] { x.ap({.pattern = rows, .scalar_offset = one, .vector_offset = four}); }) ==
        "ap.one-indirection");
  CHECK(broken_rule([&] { t.ap({.pattern = rows, .scalar_offset = one}); }) == "ap.indirect-dim");
  CHECK(broken_rule([&] { t.ap({.pattern = rows, .vector_offset = four}); }) == "ap.vector-offset-hbm");
  const Tensor gathered = x.ap({.pattern = rows, .vector_offset = four});
  CHECK(broken_rule([&] { gathered.ap({.pattern = rows}); }) == "ap.one-indirection");
  const Tensor single = x.ap({.pattern = {{6, 1}, {1, 6}}, .vector_offset = one});
  for (const auto& view :
       {+[](const Tensor& v) { return v(0); }, +[](const Tensor& v) { return v.reshape({6}); },
        +[](const Tensor& v) { return v.permute({1, 0}); },
        +[](const Tensor& v) { return v.broadcast(0, 2); }, +[](const Tensor& v) { return v.expand_dim(0); },
        +[](const Tensor& v) { return v.squeeze_dim(0); },
        +[](const Tensor& v) { return v.view(Dtype::int32); }}) {
    CHECK(broken_rule([&] { view(single); }) == "ap.view-of-vector-offset");
  }
}

TEST_CASE("what holds run-time offsets has one number a partition, lies in SBUF and has its own place") {
  PatternChip chip;
  ChipMemory banks(Buffer::psum, 16384);
  const Tensor x = hbm_tokens({10, 6});
  const Register index(0);
  const Tensor wide = chip.tile({4, 2}, Dtype::int32), flat = chip.tile({1, 4}, Dtype::int32),
               bank = chip_tensor(banks, "b", {4, 1}, Dtype::int32, {}, false), nothing,
               moved = chip.tile({4, 2}, Dtype::int32)
                           .ap({.pattern = {{2, 4}, {1, 1}}, .scalar_offset = index, .indirect_dim = 1});
  for (const Tensor& offsets : {wide, flat, bank, nothing, moved}) {
    CAPTURE(offsets.describe());
    CHECK(broken_rule([&] { x.ap({.pattern = {{6, 4}, {1, 6}}, .vector_offset = offsets}); }) ==
          "ap.offset-tensor");
  }
  const Tensor four = chip.offsets(4);
  const std::vector<std::pair<int64_t, int64_t>> rows = {{6, 4}, {1, 6}};
  CHECK(broken_rule([&] { x.ap({.pattern = rows, .scalar_offset = index, .vector_offset = four}); }) ==
        "ap.one-indirection");
  CHECK(broken_rule([&] { x.ap({.pattern = rows, .scalar_offset = index, .indirect_dim = -1}); }) ==
        "ap.indirect-dim");
}
