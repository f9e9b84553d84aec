#include "titan/checkpoint/hf_export.h"

#include <ATen/ops/equal.h>
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <csignal>

#include "tests/unit/checkpoint/checkpoint_files.h"
#include "tests/unit/checkpoint/hf_models.h"
#include "titan/checkpoint/hf_import.h"
#include "titan/checkpoint/safetensors_folder.h"

using namespace titan;
using namespace titan::checkpoint_tests;

namespace {

HfModel filled_model(bool tied, at::ScalarType dtype = at::kFloat) {
  HfModel model = small_model(tied, dtype);
  model.tensors[0].tensor.copy_(numbers({kVocab, kDim}, 1));
  model.tensors[1].tensor.copy_(numbers({kDim, kDim}, 50));
  if (!tied) model.tensors[2].tensor.copy_(numbers({kVocab, kDim}, 100));
  return model;
}

}  // namespace

TEST_CASE("an export reads back equal, in every export dtype, whatever the dtype in training") {
  for (const auto training : {at::kFloat, at::kBFloat16}) {
    for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const ScratchFolder folder;
      const HfModel model = filled_model(false, training);
      CHECK(hf_export(model, folder / "out", {.dtype = dtype}) ==
            static_cast<int64_t>(c10::elementSize(dtype)) * (20 + 16 + 20));
      const auto written = load_safetensors(folder / "out" / "model.safetensors");
      REQUIRE(written.size() == 3);
      for (const auto& [name, tensor] : written) CHECK((tensor.scalar_type() == dtype));
      const HfModel back = small_model(false, training);
      hf_import(back, folder / "out");
      for (size_t i = 0; i < 3; ++i) CHECK(at::equal(back.tensors[i].tensor, model.tensors[i].tensor));
      const char* name = dtype == at::kFloat ? "float32" : dtype == at::kHalf ? "float16" : "bfloat16";
      CHECK(Json::parse_file(folder / "out" / "config.json")["torch_dtype"].as_string() == name);
    }
  }
}

TEST_CASE("every file of an export says format pt, and the index lists what was written") {
  const ScratchFolder folder;
  hf_export(filled_model(false), folder / "out", {.max_shard_bytes = 100});
  const Json index = Json::parse_file(folder / "out" / kIndexFile);
  CHECK(index["metadata"]["total_size"].as_int() == 4 * (20 + 16 + 20));
  CHECK(index["weight_map"].size() == 3);
  const SafetensorsFolder opened(folder / "out");
  for (const auto& entry : opened.entries()) {
    CHECK(entry.file->metadata().at("format") == "pt");
    CHECK(index["weight_map"][entry.view->name].as_string() == entry.file->path().filename());
  }
  CHECK(std::filesystem::exists(folder / "out" / "model-00003-of-00003.safetensors"));
}

TEST_CASE("a tied model writes one table, or both copies when asked") {
  const ScratchFolder folder;
  const HfModel model = filled_model(true);
  // The source's index may list a head in a shard of its own; the export's index does not look at it.
  write_file_atomic(folder / std::string(kIndexFile),
                    R"({"weight_map":{"lm_head.weight":"model-2.safetensors"}})");
  hf_export(model, folder / "one", {.assets = folder.path()});
  CHECK(SafetensorsFolder(folder / "one").find("lm_head.weight") == nullptr);
  CHECK(Json::parse_file(folder / "one" / kIndexFile)["weight_map"].find("lm_head.weight") == nullptr);
  hf_export(model, folder / "both", {.tied_head = true});
  const auto written = load_safetensors(folder / "both" / "model.safetensors");
  CHECK(at::equal(written.at("lm_head.weight"), written.at("model.embed_tokens.weight")));
  hf_import(small_model(true), folder / "both");
  hf_import(small_model(false), folder / "both");
}

TEST_CASE("config.json comes from the assets with its dtype mended and no quantisation") {
  const ScratchFolder folder;
  std::filesystem::create_directory(folder / "assets");
  write_file_atomic(folder / "assets" / "config.json",
                    R"({"rope_theta":5e6,"torch_dtype":"bfloat16","dtype":"bfloat16",)"
                    R"("quantization_config":{"quant_method":"fp8"},"head_dim":128})");
  write_file_atomic(folder / "assets" / "generation_config.json", R"({"top_k":20})");
  write_file_atomic(folder / "assets" / "tokenizer.json", R"({"version":"1.0"})");
  write_file_atomic(folder / "assets" / "README.md", "not copied");
  hf_export(filled_model(false), folder / "out", {.dtype = at::kHalf, .assets = folder / "assets"});
  CHECK(Json::parse_file(folder / "out" / "config.json") ==
        Json::parse(R"({"rope_theta":5e6,"torch_dtype":"float16","dtype":"float16","head_dim":128})",
                    "expected"));
  CHECK(read_file(folder / "out" / "generation_config.json") == R"({"top_k":20})");
  CHECK(read_file(folder / "out" / "tokenizer.json") == R"({"version":"1.0"})");
  CHECK_FALSE(std::filesystem::exists(folder / "out" / "README.md"));
}

TEST_CASE("without a config.json in the assets the model's own is written") {
  const ScratchFolder folder;
  hf_export(filled_model(true), folder / "out", {.assets = folder.path()});
  CHECK(Json::parse_file(folder / "out" / "config.json") ==
        Json::parse(R"({"model_type":"qwen3","tie_word_embeddings":true,"torch_dtype":"float32"})",
                    "expected"));
  HfModel nameless = filled_model(true);
  nameless.config = Json();
  CHECK(contains(error_of([&] { hf_export(nameless, folder / "other"); }), "no config.json can be written"));
}

TEST_CASE("an export replaces one of the same name and leaves nothing else") {
  const ScratchFolder folder;
  hf_export(filled_model(false), folder / "step-3", {.max_shard_bytes = 100});
  hf_export(filled_model(true), folder / "step-3");
  CHECK(count_entries(folder.path()) == 1);
  CHECK(count_entries(folder / "step-3") == 3);
  CHECK(SafetensorsFolder(folder / "step-3").entries().size() == 2);
}

TEST_CASE("an export that fails leaves the old folder whole and no rest") {
  const ScratchFolder folder;
  hf_export(filled_model(false), folder / "step-3");
  HfModel larger = filled_model(false);
  larger.tensors[1] = whole_tensor(larger.tensors[1].name, at::zeros({1000, 1000}, at::kFloat));
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{100'000, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &small);
  const auto error = error_of([&] { hf_export(larger, folder / "step-3"); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK(contains(error, "cannot write"));
  CHECK(contains(error, "File too large"));
  CHECK(count_entries(folder.path()) == 1);
  hf_import(small_model(false), folder / "step-3");
}

TEST_CASE("a tensor without a Hugging Face name is refused, not dropped") {
  const ScratchFolder folder;
  HfModel model = filled_model(false);
  model.tensors.push_back(whole_tensor("moe.expert_bias_E", numbers({3}, 0)));
  CHECK(contains(error_of([&] { hf_export(model, folder / "out"); }),
                 "moe.expert_bias_E has no Hugging Face name"));
  CHECK(count_entries(folder.path()) == 0);
}

TEST_CASE("an unwritable place is named") {
  const ScratchFolder folder;
  write_file_atomic(folder / "file", "x");
  const auto error = error_of([&] { hf_export(filled_model(false), folder / "file" / "step-1"); });
  CHECK(contains(error, "cannot make the folder"));
  CHECK(contains(error, (folder / "file").string()));
}
