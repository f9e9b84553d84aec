#include "titan/nki/tensor.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/nki/kernel_error.h"
#include "titan/nki/memory.h"

using namespace titan::nki;
using Sizes = std::vector<int64_t>;

namespace {

Tensor hbm_of(Sizes shape, Dtype dtype = Dtype::float32) {
  return hbm_tensor("x", std::move(shape), dtype, Buffer::private_hbm, false);
}

struct ViewChip {
  ChipMemory memory{Buffer::sbuf, 8192};
  Tensor tile(Sizes shape, Dtype dtype = Dtype::float32) {
    return chip_tensor(memory, "t", std::move(shape), dtype, {}, false);
  }
};

/// Positions in the allocation, in elements, of all elements of a view in its order; a partition is worth a
/// million.
Sizes positions(const Tensor& view) {
  Sizes result = {view.offset() + view.partition_offset() * 1000000};
  for (size_t i = 0; i < view.dims().size(); ++i) {
    const bool partitions = i == 0 && is_on_chip(view.buffer());
    Sizes inner;
    for (int64_t begin : result) {
      for (int64_t k = 0; k < view.dims()[i].count; ++k) {
        inner.push_back(begin + k * view.dims()[i].stride * (partitions ? 1000000 : 1));
      }
    }
    result = std::move(inner);
  }
  return result;
}

/// A naive view: a shape and each element's position.
struct NaiveView {
  Sizes shape, at;

  NaiveView slice(size_t dim, int64_t start, int64_t stop, int64_t step, bool drop) const {
    NaiveView result{shape, {}};
    int64_t inner = 1;
    for (size_t i = dim + 1; i < shape.size(); ++i) inner *= shape[i];
    const int64_t outer = static_cast<int64_t>(at.size()) / inner / shape[dim];
    result.shape[dim] = 0;
    for (int64_t k = start; k < stop; k += step) ++result.shape[dim];
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t k = start; k < stop; k += step) {
        for (int64_t i = 0; i < inner; ++i)
          result.at.push_back(at[static_cast<size_t>((o * shape[dim] + k) * inner + i)]);
      }
    }
    if (drop && shape.size() > 1) result.shape.erase(result.shape.begin() + static_cast<int64_t>(dim));
    return result;
  }
  NaiveView permuted(const Sizes& order) const {
    NaiveView result;
    for (int64_t dim : order) result.shape.push_back(shape[static_cast<size_t>(dim)]);
    for (size_t flat = 0; flat < at.size(); ++flat) {
      auto rest = static_cast<int64_t>(flat);
      Sizes index(shape.size());
      for (size_t i = order.size(); i-- > 0;) {
        index[static_cast<size_t>(order[i])] = rest % result.shape[i];
        rest /= result.shape[i];
      }
      int64_t source = 0;
      for (size_t i = 0; i < shape.size(); ++i) source = source * shape[i] + index[i];
      result.at.push_back(at[static_cast<size_t>(source)]);
    }
    return result;
  }
};

}  // namespace

TEST_CASE("random subscripts, permutations and reshapes reach the elements that index arithmetic says") {
  std::mt19937 random(11);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  int reshaped = 0;
  for (int round = 0; round < 300; ++round) {
    ViewChip chip;
    const bool on_chip = round % 2 == 1;
    Sizes shape;
    for (int64_t i = 0, n = 2 + below(3); i < n; ++i) shape.push_back(1 + below(6));
    Tensor view = on_chip ? chip.tile(shape) : hbm_of(shape);
    NaiveView naive{shape, positions(view)};
    for (int step = 0; step < 4; ++step) {
      CAPTURE(round);
      CAPTURE(view.describe());
      const auto dim = static_cast<size_t>(below(view.ndim()));
      const int64_t count = naive.shape[dim];
      switch (below(3)) {
        case 0: {
          const int64_t start = below(count), stop = start + 1 + below(count - start);
          const int64_t by = on_chip && dim == 0 ? 1 : 1 + below(3);
          const bool number = !(on_chip && dim == 0) && view.ndim() > (on_chip ? 2 : 1) && below(2) == 0;
          std::vector<Index> indices(dim, Index(all));
          if (number) {
            indices.emplace_back(start);
          } else {
            indices.emplace_back(Slice{start, stop, by});
          }
          view = view.subscript(indices);
          naive =
              number ? naive.slice(dim, start, start + 1, 1, true) : naive.slice(dim, start, stop, by, false);
          break;
        }
        case 1: {
          Sizes order(naive.shape.size());
          std::iota(order.begin(), order.end(), 0);
          std::shuffle(order.begin() + (on_chip ? 1 : 0), order.end(), random);
          view = view.permute(order);
          naive = naive.permuted(order);
          break;
        }
        default: {
          // Splits a dimension, or joins it with the next one where that is a view.
          Sizes other = naive.shape;
          if (on_chip && dim == 0) break;
          if (count % 2 == 0 && below(2) == 0) {
            other[dim] = 2;
            other.insert(other.begin() + static_cast<int64_t>(dim) + 1, count / 2);
          } else if (dim + 1 < other.size() && other.size() > 2) {
            other[dim] *= other[dim + 1];
            other.erase(other.begin() + static_cast<int64_t>(dim) + 1);
          }
          Tensor result;
          if (broken_rule([&] { result = view.reshape(other); }).empty()) {
            view = result;
            naive.shape = other;
            ++reshaped;
          }
        }
      }
      REQUIRE(view.shape() == naive.shape);
      REQUIRE(positions(view) == naive.at);
    }
  }
  CHECK(reshaped > 100);
}

TEST_CASE("a number drops a dimension in HBM, and on chip keeps the partitions and a free dimension") {
  ViewChip chip;
  const Tensor hbm = hbm_of({2, 3, 4});
  CHECK(hbm(1).shape() == Sizes{3, 4});
  CHECK(hbm(1, 2, 3).shape() == Sizes{1});
  CHECK(hbm(1, 2, 3).offset() == 23);
  const Tensor tile = chip.tile({4, 3, 5});
  CHECK(tile(2).shape() == Sizes{1, 3, 5});
  CHECK(tile(2).partition_offset() == 2);
  CHECK(tile(2, 1).shape() == Sizes{1, 5});
  CHECK(tile(2, 1, 4).shape() == Sizes{1, 1});
  CHECK(tile(2, 1, 4).offset() == 9);
  CHECK(tile(ds(1, 3), all, Slice{1, Slice::kEnd, 2}).shape() == Sizes{3, 3, 2});
}

TEST_CASE("wrong subscripts name their rule and the kernel's line") {
  ViewChip chip;
  const Tensor hbm = hbm_of({2, 3}), tile = chip.tile({4, 6});
  CHECK(broken_rule([&] { hbm(2); }) == "tensor.index-bounds");
  CHECK(broken_rule([&] { hbm(-1); }) == "tensor.index-bounds");
  CHECK(broken_rule([&] { hbm(0, ds(1, 3)); }) == "tensor.index-bounds");
  CHECK(broken_rule([&] { hbm(0, ds(-1, 2)); }) == "tensor.index-bounds");
  CHECK(broken_rule([&] { hbm(0, ds(1, 0)); }) == "tensor.empty-slice");
  CHECK(broken_rule([&] { hbm(0, Slice{0, 3, 0}); }) == "tensor.slice-step");
  CHECK(broken_rule([&] { hbm(0, 0, 0); }) == "tensor.too-many-indices");
  CHECK(broken_rule([&] { tile(Slice{0, 4, 2}); }) == "tensor.partition-step");
  CHECK(broken_rule([&] { tile(4); }) == "tensor.index-bounds");
  try {
    hbm(0, 7);
  } catch (const KernelError& error) {
    const std::string text = error.what();
    CAPTURE(text);
    CHECK(text.find("tensor_test.cpp:" + std::to_string(__LINE__ - 4) + ":") != std::string::npos);
    CHECK(text.find("x private_hbm[2, 3] float32") != std::string::npos);
    CHECK(text.find("[tensor.index-bounds]") != std::string::npos);
  }
}

TEST_CASE("runs that no int64 ends are out of bounds, and are not taken to the end") {
  ViewChip chip;
  const Tensor tile = chip.tile({4, 6});
  for (const int64_t size : {INT64_MAX, INT64_MAX - 1, INT64_MAX - 2}) {
    CHECK(broken_rule([&] { tile(0, ds(1, size)); }) == "tensor.index-bounds");
    CHECK(broken_rule([&] { tile(0, ds(0, size)); }) == "tensor.index-bounds");
  }
  CHECK(broken_rule([&] { tile(0, ds(INT64_MAX, INT64_MAX)); }) == "tensor.index-bounds");
  CHECK(broken_rule([&] { tile(0, ds(INT64_MIN, INT64_MIN)); }) == "tensor.index-bounds");
  CHECK(broken_rule([&] { tile(0, ds(0, -1)); }) == "tensor.empty-slice");
  CHECK(broken_rule([&] { tile(0, INT64_MAX); }) == "tensor.index-bounds");
  CHECK(broken_rule([&] { tile(INT64_MIN); }) == "tensor.index-bounds");
  static_assert(ds(1, INT64_MAX).stop != Slice::kEnd);  // an overflow does not compile
  CHECK(tile(3, ds(5, 1)).offset() == 5);
  CHECK(tile(3, 5).partition_offset() == 3);
}

TEST_CASE("a dimension that is not there, and what is asked of an undefined tensor, name the kernel's line") {
  ViewChip chip;
  const Tensor tile = chip.tile({4, 6}), none;
  struct Ask {
    const char* rule;
    const char* named;
    std::function<void()> act;
    int line;
  };
  const std::vector<Ask> asks = {
      {"tensor.dimension", "size of t sbuf[4, 6] float32", [&] { tile.size(2); }, __LINE__},
      {"tensor.dimension", "dimension -1 is not in 0 .. 1", [&] { tile.size(-1); }, __LINE__},
      {"tensor.undefined", "size of an undefined tensor", [&] { none.size(0); }, __LINE__},
      {"tensor.undefined", "size of", [&] { static_cast<void>(none.partitions()); }, __LINE__},
      {"tensor.undefined", "size of", [&] { static_cast<void>(none.free_size()); }, __LINE__},
      {"tensor.undefined", "buffer of", [&] { static_cast<void>(none.buffer()); }, __LINE__},
      {"tensor.undefined", "name of", [&] { static_cast<void>(none.name()); }, __LINE__},
      {"tensor.undefined", "a subscript of", [&] { none(0); }, __LINE__},
      {"tensor.undefined", "reshape of", [&] { none.reshape({1}); }, __LINE__},
      {"tensor.undefined", "permute of", [&] { none.permute({0}); }, __LINE__},
      {"tensor.undefined", "broadcast of", [&] { none.broadcast(0, 1); }, __LINE__},
      {"tensor.undefined", "expand_dim of", [&] { none.expand_dim(0); }, __LINE__},
      {"tensor.undefined", "squeeze_dim of", [&] { none.squeeze_dim(0); }, __LINE__},
      {"tensor.undefined", "flatten_dims of", [&] { none.flatten_dims(0, 1); }, __LINE__},
      {"tensor.undefined", "view of", [&] { none.view(Dtype::int8); }, __LINE__},
      {"tensor.undefined", "ap of", [&] { none.ap({.pattern = {{1, 1}}}); }, __LINE__},
  };
  for (const Ask& ask : asks) {
    CAPTURE(ask.line);
    try {
      ask.act();
      FAIL("it is refused");
    } catch (const KernelError& error) {
      const std::string text = error.what();
      CAPTURE(text);
      CHECK(error.rule == ask.rule);
      CHECK(text.find("tensor_test.cpp:" + std::to_string(ask.line) + ":") != std::string::npos);
      CHECK(text.find(ask.named) != std::string::npos);
    }
  }
}

TEST_CASE("a reshape is a view or an error") {
  ViewChip chip;
  const Tensor tile = chip.tile({4, 6, 8});
  CHECK(tile.reshape({4, 48}).is_contiguous());
  CHECK(tile.reshape({4, 2, 3, 1, 8}).shape() == Sizes{4, 2, 3, 1, 8});
  CHECK(tile(all, all, ds(0, 4)).reshape({4, 2, 3, 4}).shape() == Sizes{4, 2, 3, 4});
  CHECK(broken_rule([&] { tile(all, all, ds(0, 4)).reshape({4, 24}); }) == "tensor.reshape");
  CHECK(broken_rule([&] { tile.permute({0, 2, 1}).reshape({4, 48}); }) == "tensor.reshape");
  CHECK(broken_rule([&] { tile.reshape({2, 96}); }) == "tensor.reshape");
  CHECK(broken_rule([&] { tile.reshape({4, 47}); }) == "tensor.reshape");
  CHECK(broken_rule([&] { tile.reshape({4, -1}); }) == "tensor.reshape");
  CHECK(broken_rule([&] { tile.reshape({4, -48, -1}); }) == "tensor.reshape");
  CHECK(broken_rule([&] { chip.tile({1, 6}).reshape({1}); }) == "tensor.reshape");
  CHECK(broken_rule([&] { chip.tile({4, 1}).reshape({4}); }) == "tensor.reshape");
  CHECK(hbm_of({1, 1}).reshape({}).shape() == Sizes{1});
  // Where a dimension of size 1 would lie next has no say.
  CHECK(chip.tile({4, 1, 8}).permute({0, 2, 1}).is_contiguous());
  CHECK(hbm_of({2, 6}).reshape({12}).shape() == Sizes{12});
  CHECK(hbm_of({2, 6})(all, ds(0, 1)).reshape({2}).dims()[0] == Dim{2, 6});
  CHECK(tile.flatten_dims(1, 2).shape() == Sizes{4, 48});
  CHECK(hbm_of({2, 3, 4}).flatten_dims(0, 1).shape() == Sizes{6, 4});
  CHECK(broken_rule([&] { tile.flatten_dims(0, 1); }) == "tensor.dimension");
  CHECK(broken_rule([&] { tile.flatten_dims(2, 1); }) == "tensor.dimension");
  CHECK(broken_rule([&] { tile.flatten_dims(1, 3); }) == "tensor.dimension");
}

TEST_CASE("permute, broadcast, expand and squeeze keep the partitions first") {
  ViewChip chip;
  const Tensor tile = chip.tile({4, 1, 8});
  CHECK(tile.permute({0, 2, 1}).shape() == Sizes{4, 8, 1});
  CHECK(broken_rule([&] { tile.permute({1, 0, 2}); }) == "tensor.permute");
  CHECK(broken_rule([&] { tile.permute({0, 1, 1}); }) == "tensor.permute");
  CHECK(broken_rule([&] { tile.permute({0, 1}); }) == "tensor.permute");
  CHECK(tile.broadcast(1, 5).dims()[1] == Dim{5, 0});
  CHECK(broken_rule([&] { tile.broadcast(2, 16); }) == "tensor.broadcast");
  CHECK(broken_rule([&] { tile.broadcast(1, 0); }) == "tensor.broadcast");
  CHECK(broken_rule([&] { tile.broadcast(1, INT64_MAX); }) == "tensor.broadcast");
  CHECK(broken_rule([&] { chip.tile({1, 8}).broadcast(0, 128); }) == "tensor.dimension");
  CHECK(hbm_of({1, 8}).broadcast(0, 128).shape() == Sizes{128, 8});
  CHECK(tile.expand_dim(3).shape() == Sizes{4, 1, 8, 1});
  CHECK(broken_rule([&] { tile.expand_dim(0); }) == "tensor.dimension");
  CHECK(broken_rule([&] { tile.expand_dim(4); }) == "tensor.dimension");
  CHECK(tile.squeeze_dim(1).shape() == Sizes{4, 8});
  CHECK(broken_rule([&] { tile.squeeze_dim(2); }) == "tensor.squeeze");
  CHECK(broken_rule([&] { tile(all, all, 0).squeeze_dim(1); }) == "tensor.squeeze");
  CHECK(broken_rule([&] { hbm_of({1}).squeeze_dim(0); }) == "tensor.squeeze");
}

TEST_CASE("a view as another dtype sees the same bytes") {
  ViewChip chip;
  const Tensor tile = chip.tile({4, 3, 8}, Dtype::bfloat16);
  const Tensor wide = tile(all, 1, ds(2, 4)).view(Dtype::float32);
  CHECK(wide.shape() == Sizes{4, 2});
  CHECK(wide.offset() == 5);
  const Tensor narrow = tile(all, 1, ds(2, 4)).view(Dtype::uint8);
  CHECK(narrow.shape() == Sizes{4, 8});
  CHECK(narrow.offset() == 20);
  CHECK(tile.view(Dtype::uint8).dims()[1].stride == 16);
  CHECK(tile.view(Dtype::float16).shape() == tile.shape());
  CHECK(broken_rule([&] { tile(all, 0, ds(1, 2)).view(Dtype::float32); }) == "tensor.view-dtype");
  CHECK(broken_rule([&] { tile(all, 0, ds(0, 3)).view(Dtype::float32); }) == "tensor.view-dtype");
  CHECK(broken_rule([&] { tile(all, all, Slice{0, 8, 2}).view(Dtype::uint8); }) == "tensor.view-dtype");
  CHECK(broken_rule([&] {
          chip.tile({4, 3, 3}, Dtype::bfloat16)(all, all, ds(0, 2)).view(Dtype::float32);
        }) == "tensor.view-dtype");
  const Tensor odd = chip_tensor(chip.memory, "odd", {4, 8}, Dtype::bfloat16, ChipAddress{0, 2}, false);
  CHECK(broken_rule([&] { odd.view(Dtype::float32); }) == "tensor.view-dtype");
  alignas(4) std::byte bytes[10] = {};
  const Tensor host = host_tensor("h", {4}, Dtype::bfloat16, bytes + 2, nullptr);
  CHECK(broken_rule([&] { host.view(Dtype::float32); }) == "tensor.view-dtype");
  CHECK(host.view(Dtype::uint8).shape() == Sizes{8});
  // Dimensions of size 1 step nowhere, whatever their stride.
  const Tensor rows = chip.tile({4, 3, 3}, Dtype::bfloat16);
  CHECK(rows(all, ds(0, 1), ds(0, 2)).view(Dtype::float32).shape() == Sizes{4, 1, 1});
  const Tensor column = chip.tile({4, 1, 8}, Dtype::bfloat16).permute({0, 2, 1}).view(Dtype::uint8);
  CHECK(column.dims() == std::vector<Dim>{{4, 1}, {8, 2}, {2, 1}});
}

TEST_CASE("a tensor describes itself") {
  ViewChip chip;
  CHECK(hbm_tensor("q", {1, 32}, Dtype::bfloat16, Buffer::shared_hbm, false).describe() ==
        "q shared_hbm[1, 32] bfloat16");
  CHECK(chip_tensor(chip.memory, "", {2, 3}, Dtype::uint8, {}, false).describe() == "sbuf[2, 3] uint8");
  CHECK(Tensor().describe() == "an undefined tensor");
  CHECK(chip.tile({4, 3, 5}).free_size() == 15);
  CHECK(chip.tile({4, 3, 5}).numel() == 60);
}
