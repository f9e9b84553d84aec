#include <ATen/ops/equal.h>
#include <doctest/doctest.h>

#include "tests/unit/checkpoint/checkpoint_files.h"
#include "tests/unit/checkpoint/shard_layouts.h"
#include "titan/checkpoint/block_quantized.h"
#include "titan/checkpoint/hf_import.h"
#include "titan/checkpoint/tensor_bytes.h"

using namespace titan;
using namespace titan::checkpoint_tests;

namespace {

/// A model of one weight.
HfModel one_weight(std::vector<int64_t> shape, at::ScalarType dtype) {
  HfModel model;
  model.names = {{"w", "model.w"}};
  model.tensors = {whole_tensor("w", at::zeros(std::move(shape), dtype))};
  return model;
}

/// Whether every rank of the grid, importing its block only, gets the whole import's numbers.
void check_blocks(const HfModel& whole, const std::filesystem::path& folder, const Grid& grid,
                  std::optional<int64_t> tensor_dim, int64_t file_bytes_an_element) {
  for (int64_t s = 0; s < grid.shard; ++s) {
    for (int64_t t = 0; t < grid.tensor; ++t) {
      CAPTURE(s);
      CAPTURE(t);
      const ShardedTensor& all = whole.tensors[0];
      Block block = Block::whole(all.shape);
      if (tensor_dim) block = block.chunk(*tensor_dim, grid.tensor, t);
      block = block.chunk(0, grid.shard, s);
      HfModel part = whole;
      part.tensors[0] = {"w", all.shape, block, at::zeros(block.shape, all.tensor.scalar_type()), tensor_dim};
      const ImportReport report = hf_import(part, folder, {.quantized = true});
      CHECK(at::equal(part.tensors[0].tensor, cut(all.tensor, block)));
      CHECK(report.bytes == block.numel() * file_bytes_an_element);
    }
  }
}

}  // namespace

TEST_CASE("importing blocks gives the cut of the whole import: rows, columns, both, uneven, converted") {
  for (const auto from : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const auto to : {at::kFloat, at::kBFloat16}) {
      const ScratchFolder folder;
      save_safetensors(folder / "model.safetensors", {{"model.w", numbers({11, 7}, 1, from)}});
      const HfModel whole = one_weight({11, 7}, to);
      hf_import(whole, folder.path());
      const auto width = static_cast<int64_t>(c10::elementSize(from));
      check_blocks(whole, folder.path(), {4, 1}, {}, width);
      check_blocks(whole, folder.path(), {1, 3}, 0, width);
      check_blocks(whole, folder.path(), {1, 3}, 1, width);
      check_blocks(whole, folder.path(), {2, 2}, 0, width);
      check_blocks(whole, folder.path(), {3, 2}, 1, width);
      check_blocks(whole, folder.path(), {16, 1}, {}, width);
    }
  }
}

TEST_CASE("vectors are imported by blocks too") {
  const ScratchFolder folder;
  save_safetensors(folder / "model.safetensors", {{"model.w", numbers({10}, 1, at::kBFloat16)}});
  const HfModel whole = one_weight({10}, at::kFloat);
  hf_import(whole, folder.path());
  check_blocks(whole, folder.path(), {4, 1}, {}, 2);
  check_blocks(whole, folder.path(), {1, 3}, 0, 2);
}

TEST_CASE("block FP8 uses the scales of global rows and columns where borders are no multiples of 128") {
  for (const auto to : {at::kFloat, at::kBFloat16}) {
    const ScratchFolder folder;
    const at::Tensor plain =
        (numbers({300, 200}, 0).remainder(17) - 8).to(at::TensorOptions(at::kFloat8_e4m3fn).device(at::kCPU));
    save_safetensors(folder / "model.safetensors",
                     {{"model.w", plain}, {"model.w_scale_inv", numbers({3, 2}, 1) / 4}});
    const HfModel whole = one_weight({300, 200}, to);
    CHECK(hf_import(whole, folder.path(), {.quantized = true}).dequantized == 1);
    CHECK(whole.tensors[0].tensor[299][199].item<double>() ==
          doctest::Approx(plain.to(at::kFloat)[299][199].item<double>() * 6 / 4));
    check_blocks(whole, folder.path(), {4, 1}, {}, 1);
    check_blocks(whole, folder.path(), {1, 3}, 1, 1);
    check_blocks(whole, folder.path(), {3, 3}, 1, 1);
    check_blocks(whole, folder.path(), {2, 2}, 0, 1);
  }
}

TEST_CASE("blocks larger than a band and bytes that are not aligned are read") {
  constexpr int64_t kRows = 3000, kColumns = 1700;
  const ScratchFolder folder;
  // An odd header shifts every element off its alignment.
  const at::Tensor weights = numbers({kRows, kColumns}, 0).remainder(1009);
  std::string header = format(R"({"model.w":{"dtype":"F32","shape":[{},{}],"data_offsets":[0,{}]}})", kRows,
                              kColumns, kRows * kColumns * 4);
  if (header.size() % 2 == 0) header += ' ';
  write_file_atomic(
      folder / "model.safetensors",
      safetensors_bytes(header, {static_cast<const char*>(weights.const_data_ptr()), weights.nbytes()}));
  const HfModel whole = one_weight({kRows, kColumns}, at::kFloat);
  hf_import(whole, folder.path());
  CHECK(at::equal(whole.tensors[0].tensor, weights));
  check_blocks(whole, folder.path(), {2, 1}, {}, 4);
  check_blocks(whole, folder.path(), {1, 2}, 1, 4);
}

TEST_CASE("a block of the wrong whole is refused with the whole's shape before anything is written") {
  const ScratchFolder folder;
  auto weights = small_weights();
  weights[1].tensor = numbers({kDim, 8}, 0);
  save_safetensors(folder / "model.safetensors", weights);
  run_grid({2, 2}, [&](const ShardGroups& groups) {
    const HfModel part = part_of(small_model(false), groups);
    const auto error = error_of([&] { hf_import(part, folder.path()); });
    CHECK(contains(error, "layers.0.attention.wo.weight of small 1M has [4, 4]"));
    for (const ShardedTensor& tensor : part.tensors)
      CHECK(tensor.tensor.count_nonzero().item<int64_t>() == 0);
  });
}
