#include "titan/checkpoint/hf_import.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/zeros_like.h>
#include <doctest/doctest.h>

#include "tests/unit/checkpoint/checkpoint_files.h"
#include "tests/unit/checkpoint/hf_models.h"

using namespace titan;
using namespace titan::checkpoint_tests;

namespace {

std::filesystem::path save_model(const ScratchFolder& folder, const std::vector<NamedTensor>& tensors) {
  save_safetensors(folder / "model.safetensors", tensors);
  return folder.path();
}

std::string import_error_of(const HfModel& model, const ScratchFolder& folder, ImportOptions options = {}) {
  return error_of([&] { hf_import(model, folder.path(), options); });
}

bool untouched(const HfModel& model) {
  for (const ShardedTensor& part : model.tensors) {
    if (!at::equal(part.tensor, at::zeros_like(part.tensor))) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("weights in any float dtype fill a model in any float dtype") {
  for (const auto from : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const auto to : {at::kFloat, at::kBFloat16}) {
      const ScratchFolder folder;
      const HfModel model = small_model(false, to);
      const ImportReport report = hf_import(model, save_model(folder, small_weights(from)));
      CHECK(report.tensors == 3);
      CHECK(report.bytes == static_cast<int64_t>(c10::elementSize(from)) * (20 + 16 + 20));
      CHECK(at::equal(model.tensors[0].tensor, numbers({kVocab, kDim}, 1, to)));
      CHECK(at::equal(model.tensors[1].tensor, numbers({kDim, kDim}, 50, to)));
      CHECK(at::equal(model.tensors[2].tensor, numbers({kVocab, kDim}, 100, to)));
    }
  }
}

TEST_CASE("names with and without a leading model. are accepted") {
  for (const bool shorter : {true, false}) {
    const ScratchFolder folder;
    auto weights = small_weights();
    for (auto& [name, tensor] : weights) {
      if (shorter && name.starts_with("model.")) name = name.substr(6);
      if (!shorter) name = "model." + name;
    }
    const HfModel model = small_model(false);
    CHECK(hf_import(model, save_model(folder, weights)).tensors == 3);
    CHECK(at::equal(model.tensors[1].tensor, numbers({kDim, kDim}, 50)));
  }
}

TEST_CASE("a tied model takes the table that is there and says which") {
  {
    const ScratchFolder folder;
    auto weights = small_weights();
    weights.pop_back();
    const HfModel model = small_model(true);
    const auto report = hf_import(model, save_model(folder, weights));
    CHECK(at::equal(model.tensors[0].tensor, numbers({kVocab, kDim}, 1)));
    CHECK(report.notes == std::vector<std::string>{"lm_head.weight is tied to model.embed_tokens.weight"});
  }
  {
    const ScratchFolder folder;
    auto weights = small_weights();
    weights.erase(weights.begin());
    const HfModel model = small_model(true);
    const auto report = hf_import(model, save_model(folder, weights));
    CHECK(at::equal(model.tensors[0].tensor, numbers({kVocab, kDim}, 100)));
    CHECK(report.notes ==
          std::vector<std::string>{"model.embed_tokens.weight is absent: lm_head.weight fills both"});
  }
  {
    const ScratchFolder folder;
    auto weights = small_weights();
    weights.erase(weights.begin());
    weights.pop_back();
    const HfModel model = small_model(true);
    save_model(folder, weights);
    CHECK(contains(import_error_of(model, folder),
                   "lacks 1 of the 2 tensors of small 1M: model.embed_tokens.weight"));
  }
}

TEST_CASE("a tied model takes two equal tables and refuses two different ones") {
  const ScratchFolder folder;
  auto weights = small_weights();
  weights[2].tensor = weights[0].tensor.clone();
  const HfModel model = small_model(true);
  const auto report = hf_import(model, save_model(folder, weights));
  CHECK(report.ignored == std::vector<std::string>{"lm_head.weight"});

  const HfModel fresh = small_model(true);
  save_model(folder, small_weights());
  CHECK(contains(import_error_of(fresh, folder), "model.embed_tokens.weight and lm_head.weight differ"));
  CHECK(untouched(fresh));
}

TEST_CASE("an untied model without a head in the files is refused, never left at random") {
  const ScratchFolder folder;
  auto weights = small_weights();
  weights.pop_back();
  const HfModel model = small_model(false);
  save_model(folder, weights);
  const auto error = import_error_of(model, folder);
  CHECK(contains(error, "has no lm_head.weight"));
  CHECK(contains(error, "tie_word_embeddings"));
  CHECK(untouched(model));
}

TEST_CASE("missing and unexpected tensors are listed and nothing is written") {
  const ScratchFolder folder;
  auto weights = small_weights();
  weights.erase(weights.begin() + 1);
  const HfModel model = small_model(false);
  save_model(folder, weights);
  CHECK(contains(import_error_of(model, folder),
                 "lacks 1 of the 3 tensors of small 1M: model.layers.0.self_attn.o_proj"));

  weights = small_weights();
  for (int expert = 0; expert < 7; ++expert) {
    weights.push_back({format("model.layers.0.mlp.experts.{}.up_proj.weight", expert), numbers({2}, 0)});
  }
  save_model(folder, weights);
  const auto error = import_error_of(model, folder);
  CHECK(contains(error, "holds 7 tensors that small 1M has no place for"));
  CHECK(contains(error, "mlp.experts.0.up_proj.weight"));
  CHECK(contains(error, "and 2 more"));
  CHECK(untouched(model));
}

TEST_CASE("rotary_emb.inv_freq is not needed") {
  const ScratchFolder folder;
  auto weights = small_weights();
  weights.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", numbers({2}, 0)});
  const auto report = hf_import(small_model(false), save_model(folder, weights));
  CHECK(report.ignored == std::vector<std::string>{"model.layers.0.self_attn.rotary_emb.inv_freq"});
}

TEST_CASE("another shape names the tensor, its file, both shapes and what to compare") {
  const ScratchFolder folder;
  auto weights = small_weights();
  weights[1].tensor = numbers({kDim, 8}, 0);
  const HfModel model = small_model(false);
  save_model(folder, weights);
  const auto error = import_error_of(model, folder);
  CHECK(contains(error, (folder / "model.safetensors").string()));
  CHECK(contains(error, "tensor model.layers.0.self_attn.o_proj.weight has shape [4, 8]"));
  CHECK(contains(error, "layers.0.attention.wo.weight of small 1M has [4, 4]"));
  CHECK(contains(error, "config.json"));
  CHECK(untouched(model));
}

TEST_CASE("integers are no weights") {
  const ScratchFolder folder;
  auto weights = small_weights();
  weights[1].tensor = weights[1].tensor.to(at::kChar);
  save_model(folder, weights);
  CHECK(contains(import_error_of(small_model(false), folder), "o_proj.weight is I8"));
}

TEST_CASE("block FP8 is dequantised when that is asked for, with fp32 and bf16 scales") {
  for (const auto scale_type : {at::kFloat, at::kBFloat16}) {
    const ScratchFolder folder;
    auto weights = small_weights();
    weights[1].tensor = numbers({kDim, kDim}, 0).to(at::TensorOptions(at::kFloat8_e4m3fn).device(at::kCPU));
    weights.push_back({weights[1].name + "_scale_inv", at::zeros({1, 1}, scale_type).fill_(0.25)});
    const HfModel model = small_model(false);
    save_model(folder, weights);
    CHECK(contains(import_error_of(model, folder), "set checkpoint.initial_load_in_hf_quantized"));
    CHECK(untouched(model));
    const auto report = hf_import(model, folder.path(), {.quantized = true});
    CHECK(report.dequantized == 1);
    CHECK(at::equal(model.tensors[1].tensor, numbers({kDim, kDim}, 0) * 0.25));
  }
}

TEST_CASE("FP8 without its scales is an error, asked for or not") {
  const ScratchFolder folder;
  auto weights = small_weights();
  weights[1].tensor = weights[1].tensor.to(at::TensorOptions(at::kFloat8_e4m3fn).device(at::kCPU));
  save_model(folder, weights);
  for (const bool quantized : {true, false}) {
    const auto error = import_error_of(small_model(false), folder, {.quantized = quantized});
    CHECK(contains(error, "o_proj.weight_scale_inv are missing"));
  }
}

TEST_CASE("plain weights are read as they are where quantised ones are allowed") {
  const ScratchFolder folder;
  const HfModel model = small_model(false);
  CHECK(hf_import(model, save_model(folder, small_weights()), {.quantized = true}).dequantized == 0);
  CHECK(at::equal(model.tensors[1].tensor, numbers({kDim, kDim}, 50)));
}

TEST_CASE("scales without an FP8 weight are unexpected") {
  const ScratchFolder folder;
  auto weights = small_weights();
  weights.push_back({weights[1].name + "_scale_inv", numbers({1, 1}, 0)});
  save_model(folder, weights);
  CHECK(contains(import_error_of(small_model(false), folder), "o_proj.weight_scale_inv"));
}

TEST_CASE("a file cut by 100 bytes is named with expected and actual size and the tensor") {
  const ScratchFolder folder;
  save_model(folder, small_weights());
  const std::string whole = read_file(folder / "model.safetensors");
  write_file_atomic(folder / "model.safetensors", whole.substr(0, whole.size() - 100));
  const HfModel model = small_model(false);
  const auto error = import_error_of(model, folder);
  CHECK(contains(error, format("expected {} bytes, the file has {}", whole.size(), whole.size() - 100)));
  CHECK(contains(error, "the first tensor affected is model.layers.0.self_attn.o_proj.weight"));
  CHECK(untouched(model));
}
