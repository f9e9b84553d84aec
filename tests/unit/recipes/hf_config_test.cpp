#include "titan/models/qwen3/hf_config.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "titan/base/error.h"
#include "titan/base/file.h"
#include "titan/models/families.h"
#include "titan/recipes/qwen3.h"
#include "titan/train/check_assets.h"

using namespace titan;

namespace {

/// Qwen3-4B-Instruct-2507's config.json, with `changes` made to it; a null removes the key.
Json instruct_2507(Json::Object changes = {}) {
  Json hf = Json::parse(
      R"({"architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
    "bos_token_id": 151643, "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu", "hidden_size": 2560,
    "initializer_range": 0.02, "intermediate_size": 9728, "max_position_embeddings": 262144,
    "max_window_layers": 36, "model_type": "qwen3", "num_attention_heads": 32, "num_hidden_layers": 36,
    "num_key_value_heads": 8, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 5000000,
    "sliding_window": null, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
    "transformers_version": "4.51.0", "use_cache": true, "use_sliding_window": false, "vocab_size": 151936})",
      "the test");
  for (auto& [key, value] : changes) hf.set(key, value);
  return hf;
}

std::string error_of(auto&& action) {
  try {
    action();
  } catch (const ValueError& error) {
    return error.what();
  }
  return "";
}

std::string sizes_error(Json::Object changes) {
  return error_of([&] { qwen3::hf_sizes(instruct_2507(std::move(changes)), "config.json"); });
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

/// A folder with that config.json, removed at the end.
class Assets {
 public:
  explicit Assets(const Json& hf) : path_(std::filesystem::temp_directory_path() / "titan_hf_config_test") {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
    write_file_atomic(path_ / "config.json", hf.dump(2));
  }
  ~Assets() { std::filesystem::remove_all(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace

TEST_CASE("The native 4B on Qwen3-4B-Instruct-2507 is told the line that mends it") {
  const auto spec = qwen3::model_registry("4B", {.attn_backend = AttnBackend::sdpa});
  const HfComparison found = qwen3::compare(spec, instruct_2507(), "config.json");
  CHECK(found.breaks_weights());
  CHECK(found.message() ==
        "rope_theta is 5e6 there and 1e6 in the model; max_position_embeddings is 262144 there and 40960 in "
        "the "
        "model. To agree: config.model_spec = qwen3::model_registry(\"4B\", {.attn_backend = "
        "AttnBackend::sdpa, "
        ".rope_theta = 5e6, .max_position_embeddings = 262144}), or with the option .from_assets = ASSETS");

  const auto mended = qwen3::model_registry(
      "4B", {.attn_backend = AttnBackend::sdpa, .rope_theta = 5e6, .max_position_embeddings = 262144});
  CHECK(qwen3::compare(mended, instruct_2507(), "config.json").contradictions.empty());
}

TEST_CASE("The option from_assets takes theta and positions, and written options win over it") {
  const Assets assets(instruct_2507());
  const auto spec = qwen3::model_registry("4B", {.from_assets = assets.path()});
  CHECK(qwen3::compare(spec, instruct_2507(), "config.json").contradictions.empty());
  const auto short_one =
      qwen3::model_registry("4B", {.max_position_embeddings = 4096, .from_assets = assets.path()});
  CHECK(short_one.model->max_seq_len() == 4096);
  CHECK(short_one.model->layers[0]->attention->rope->theta == 5e6);
}

TEST_CASE("A contradiction stops loading and exporting and otherwise warns") {
  const Assets assets(instruct_2507());
  TrainerConfig config = qwen3::qwen3_32b();
  config.model_spec = qwen3::model_registry("4B", {.attn_backend = AttnBackend::sdpa});
  config.hf_assets_path = assets.path();
  const auto warnings = check_assets(config);
  REQUIRE(warnings.size() == 1);
  CHECK(contains(warnings[0], "1e6"));
  CHECK(contains(warnings[0], "5e6"));

  config.checkpoint.enable = true;
  config.checkpoint.initial_load_in_hf = true;
  const std::string loading = error_of([&] { check_assets(config); });
  CHECK(contains(loading, "initial_load_in_hf loads its weights"));
  CHECK(contains(loading, ".rope_theta = 5e6, .max_position_embeddings = 262144})"));

  config.checkpoint.initial_load_in_hf = false;
  config.checkpoint.last_save_in_hf = true;
  CHECK(contains(error_of([&] { check_assets(config); }), "last_save_in_hf exports"));

  config.checkpoint.initial_load_in_hf = true;
  config.model_spec = qwen3::model_registry("4B", {.rope_theta = 5e6, .max_position_embeddings = 262144});
  CHECK(check_assets(config).empty());
}

TEST_CASE("The folder that weights come from is compared, not only the tokenizer's") {
  const Assets assets(instruct_2507());
  TrainerConfig config = qwen3::qwen3_demo();
  config.checkpoint.initial_load_in_hf = true;
  config.checkpoint.initial_load_path = assets.path();
  const std::string error = error_of([&] { check_assets(config); });
  CHECK(contains(error, "checkpoint.initial_load_path"));
  CHECK(contains(error, "vocab_size is 151936 there and 2048 in the model"));
  CHECK(contains(error, "qwen3::model_registry(\"4B\", {.rope_theta = 5e6"));
}

TEST_CASE("Only a longer limit of positions never stops a run") {
  const Assets assets(instruct_2507({{"rope_theta", 1e6}}));
  TrainerConfig config = qwen3::qwen3_32b();
  config.model_spec = qwen3::model_registry("4B");
  config.hf_assets_path = assets.path();
  config.checkpoint.enable = config.checkpoint.initial_load_in_hf = true;
  CHECK(check_assets(config).size() == 1);
}

TEST_CASE("Another size is answered with the flavor that fits, an unknown one with from_assets") {
  const auto spec = qwen3::model_registry("4B");
  const Json eight = qwen3::hf_config(qwen3::model_registry("8B"));
  const HfComparison other = qwen3::compare(spec, eight, "config.json");
  CHECK(other.mend == "config.model_spec = qwen3::model_registry(\"8B\")");
  CHECK(contains(other.message(), "tie_word_embeddings is false there and true in the model"));
  const HfComparison unknown = qwen3::compare(spec, instruct_2507({{"rms_norm_eps", 1e-5}}), "config.json");
  CHECK(contains(unknown.message(), "rms_norm_eps is 1e-05 there and 1e-06 in the model"));
  CHECK(unknown.mend == "config.model_spec = qwen3::from_assets(ASSETS)");
}

TEST_CASE("theta is read under rope_parameters, at the top, or in both; none is an error") {
  const auto theta = [](Json::Object changes) {
    return qwen3::hf_sizes(instruct_2507(std::move(changes)), "config.json").rope_theta;
  };
  const Json rope = Json::parse(R"({"rope_theta": 1e6, "rope_type": "default"})", "the test");
  CHECK(theta({{"rope_theta", nullptr}, {"rope_parameters", rope}}) == 1e6);
  CHECK(theta({{"rope_theta", 1e6}, {"rope_parameters", rope}}) == 1e6);
  CHECK(theta({}) == 5e6);
  CHECK(contains(sizes_error({{"rope_parameters", rope}}), "contradicts \"rope_parameters.rope_theta\""));
  CHECK(contains(sizes_error({{"rope_theta", nullptr}}), "neither \"rope_theta\" nor"));
  CHECK(contains(sizes_error({{"rope_theta", "big"}}), "\"rope_theta\" must be a positive number"));
}

TEST_CASE("rope_type default is no scaling; any other is refused by name") {
  const auto scaling = [](const char* text) { return Json::parse(text, "the test"); };
  CHECK(sizes_error({{"rope_scaling", scaling(R"({"rope_type": "default"})")}}) == "");
  CHECK(contains(sizes_error({{"rope_scaling", scaling(R"({"type": "yarn", "factor": 4.0})")}}),
                 "rope_scaling.type \"yarn\" is not built yet"));
  CHECK(contains(sizes_error({{"rope_parameters", scaling(R"({"rope_type": "linear", "rope_theta": 5e6})")}}),
                 "rope_parameters.rope_type \"linear\" is not built yet"));
}

TEST_CASE("An explicit head_dim wins over hidden_size / heads") {
  const auto sizes = qwen3::hf_sizes(
      instruct_2507({{"hidden_size", 5120}, {"num_attention_heads", 64}, {"head_dim", 128}}), "config.json");
  CHECK(sizes.head_dim == 128);
  CHECK(qwen3::make_model(sizes).layers[0]->attention->qkv_linear->wq->out_features == 8192);
}

TEST_CASE("What a config.json asks for and nothing computes is refused by key") {
  CHECK(contains(sizes_error({{"hidden_act", "gelu"}}), "hidden_act gelu is not built yet"));
  CHECK(contains(sizes_error({{"use_sliding_window", true}}), "use_sliding_window true is not built yet"));
  CHECK(contains(sizes_error({{"attention_dropout", 0.1}}), "attention_dropout other than 0"));
  CHECK(contains(sizes_error({{"layer_types", Json::Array{"full_attention", "sliding_attention"}}}),
                 "layer_types \"sliding_attention\""));
  CHECK(
      contains(sizes_error({{"num_experts", 8}}), "\"num_experts\" is set but \"model_type\" is \"qwen3\""));
  CHECK(contains(sizes_error({{"model_type", "llama"}}), "\"model_type\" is \"llama\""));
  CHECK(contains(sizes_error({{"hidden_size", nullptr}}), "\"hidden_size\" is missing"));
  CHECK(contains(sizes_error({{"num_hidden_layers", "36"}}), "must be a positive integer (given: \"36\")"));
  CHECK(contains(sizes_error({{"tie_word_embeddings", 1}}), "must be true or false"));
}

TEST_CASE("A model's own config.json reads back as the same model") {
  for (const auto& flavor : qwen3::flavors()) {
    CAPTURE(flavor);
    const auto spec = qwen3::model_registry(flavor);
    CHECK(qwen3::compare(spec, qwen3::hf_config(spec), "config.json").contradictions.empty());
  }
}

TEST_CASE(
    "The golden config.json of each flavor is what is written; transformers reads them in an oracle test") {
  const Json golden = Json::parse_file("tests/golden/qwen3_hf_config.json");
  CHECK(golden.size() == qwen3::flavors().size());
  for (const auto& flavor : qwen3::flavors()) {
    CAPTURE(flavor);
    CHECK(golden[flavor].dump() == qwen3::hf_config(qwen3::model_registry(flavor)).dump());
  }
}

TEST_CASE("Layers that differ cannot be written to a config.json") {
  auto spec = qwen3::model_registry("demo");
  spec.model->layers[2]->attention->rope->theta = 5e5;
  CHECK(
      error_of([&] { qwen3::hf_config(spec); }) ==
      "model_spec.model.layers.2: rope_theta is 5e5, but 1e6 in layer 0; Hugging Face files cannot say that");
}

TEST_CASE("A folder's config.json alone makes the model; other architectures are refused by name") {
  const Assets assets(instruct_2507(
      {{"num_attention_heads", 15}, {"num_key_value_heads", 5}, {"head_dim", 20}, {"attention_bias", true}}));
  const ModelSpec spec = spec_from_assets(assets.path());
  spec.model->validate();
  CHECK(spec.name == "qwen3");
  CHECK(spec.model->layers[0]->attention->n_heads == 15);
  CHECK(spec.model->layers[0]->attention->qkv_linear->wk->out_features == 100);
  CHECK(spec.model->layers[0]->attention->wo->bias);
  CHECK(qwen3::compare(spec, qwen3::hf_config(spec), "config.json").contradictions.empty());

  const Assets other(instruct_2507({{"model_type", "llama"}}));
  CHECK(contains(error_of([&] { spec_from_assets(other.path()); }),
                 "model_type \"llama\" is not built yet; there is: qwen3, qwen3_moe"));
}

TEST_CASE("Experts are read from a qwen3_moe config.json") {
  const Json hf = qwen3::hf_config(qwen3::model_registry("30B-A3B"));
  const auto sizes = qwen3::hf_sizes(hf, "config.json");
  CHECK(sizes.num_experts == 128);
  CHECK(sizes.top_k == 8);
  CHECK(sizes.hidden_dim == 768);
  CHECK(sizes.route_norm);
  Json plain = hf;
  plain.set("norm_topk_prob", false);
  CHECK(contains(qwen3::compare(qwen3::model_registry("30B-A3B"), plain, "config.json").message(),
                 "norm_topk_prob is false there and true in the model"));
}
