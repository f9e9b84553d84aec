#include "titan/recipes/qwen3.h"

#include <doctest/doctest.h>

#include <string>

#include "titan/base/error.h"
#include "titan/models/common/model_size.h"
#include "titan/recipes/builtin.h"

using namespace titan;

namespace {

struct Row {
  const char* flavor;
  int64_t total, active, flops_2048, flops_4096;
};

// The reference's table of counts; active equals total where the model is dense.
constexpr Row kRows[] = {
    {"debugmodel", 31'987'968, 31'987'968, 594'580'992, 997'234'176},
    {"0.6B", 596'049'920, 596'049'920, 4'985'585'664, 6'394'871'808},
    {"1.7B", 1'720'574'976, 1'720'574'976, 11'732'736'000, 13'142'022'144},
    {"4B", 4'022'468'096, 4'022'468'096, 27'758'687'232, 31'382'565'888},
    {"8B", 8'190'735'360, 8'190'735'360, 49'034'311'680, 52'658'190'336},
    {"14B", 14'768'307'200, 14'768'307'200, 88'975'534'080, 94'008'698'880},
    {"32B", 32'762'123'264, 32'762'123'264, 204'790'167'552, 217'675'069'440},
    {"debugmodel_moe", 315'758'848, 51'517'696, 708'613'632, 1'111'266'816},
    {"30B-A3B", 30'532'122'624, 3'353'032'704, 23'083'044'864, 27'914'883'072},
    {"235B-A22B", 235'093'634'560, 22'190'763'520, 148'335'301'632, 167'260'001'280},
};

std::string error_of(auto&& action) {
  try {
    action();
  } catch (const ValueError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("Every flavor has the reference's parameters and FLOPs per token") {
  for (const Row& row : kRows) {
    CAPTURE(row.flavor);
    const ModelSpec spec = qwen3::model_registry(row.flavor);
    spec.model->validate();
    const ModelSize size = model_size(*spec.model);
    CHECK(size.total() == row.total);
    CHECK(size.active() == row.active);
    CHECK(flops_per_token(*spec.model, 2048) == row.flops_2048);
    CHECK(flops_per_token(*spec.model, 4096) == row.flops_4096);
    int64_t sum = 0;
    for (const auto& [name, count] : size.components) sum += count;
    CHECK(sum == row.total);
  }
}

TEST_CASE("The guide's cut 30B-A3B has the reference's counts") {
  auto sizes = qwen3::flavor_sizes("30B-A3B");
  sizes.n_layers = 4;
  sizes.num_experts = 64;
  sizes.top_k = 4;
  const auto model = qwen3::make_model(sizes);
  CHECK(model_size(model).total() == 1'906'330'624);
  CHECK(model_size(model).active() == 773'868'544);
  CHECK(flops_per_token(model, 2048) == 3'178'874'880);
  CHECK(flops_per_token(model, 4096) == 3'581'528'064);
}

TEST_CASE("Public numbers of Qwen3-30B-A3B at 8,192 tokens come out of the formula") {
  CHECK(flops_per_token(*qwen3::model_registry("30B-A3B").model, 8192) == 37'578'559'488);
}

TEST_CASE("An unknown flavor is answered with the nearest name and the list") {
  const std::string error = error_of([] { qwen3::model_registry("32b"); });
  CHECK(error.find("\"32b\"; did you mean 32B?") != error.npos);
  CHECK(error.find("demo, debugmodel, debugmodel_non_fused_qkv, 0.6B") != error.npos);
}

TEST_CASE("model_registry's options reach every layer") {
  const ModelSpec spec = qwen3::model_registry("4B", {.attn_backend = AttnBackend::sdpa,
                                                      .mask = AttnMask::causal,
                                                      .rope_theta = 5e6,
                                                      .max_position_embeddings = 262144});
  CHECK(spec.model->n_layers() == 36);
  CHECK(spec.model->max_seq_len() == 262144);
  for (const auto& layer : spec.model->layers) {
    CHECK(layer->attention->attn_backend == AttnBackend::sdpa);
    CHECK(layer->attention->mask == AttnMask::causal);
    CHECK(layer->attention->rope->theta == 5e6);
  }
}

TEST_CASE("What is not built is refused by name") {
  CHECK(error_of([] {
          qwen3::model_registry("30B-A3B", {.moe_comm_backend = "deepep"});
        }).find(".moe_comm_backend = \"deepep\"): not built yet") != std::string::npos);
  CHECK(error_of([] {
          qwen3::model_registry("8B", {.converters = {"lora"}});
        }).find(".converters = {\"lora\"}): not built yet") != std::string::npos);
  auto config = qwen3::qwen3_moe_debug();
  CHECK(error_of([&] {
          prepare_model(config);
        }).find("a mixture of experts (qwen3 debugmodel_moe) is not built") != std::string::npos);
}

TEST_CASE("qwen3_32b has the reference's values") {
  const TrainerConfig config = qwen3::qwen3_32b();
  CHECK(config.model_spec.flavor == "32B");
  CHECK(config.hf_assets_path == "./assets/hf/Qwen3-32B");
  CHECK(config.dataloader.dataset == "c4");
  CHECK(config.optimizer.param_groups.at(0).optimizer_kwargs.lr == 8e-4);
  CHECK(config.lr_scheduler.warmup_steps == 600);
  CHECK(config.training.local_batch_size == 2);
  CHECK(config.training.seq_len == 4096);
  CHECK(config.training.steps == 3000);
  CHECK(config.checkpoint.interval == 500);
  CHECK_FALSE(config.checkpoint.last_save_model_only);
  CHECK(config.checkpoint.export_dtype == ExportDtype::float16);
  CHECK(config.activation_checkpoint.get<FullACConfig>() != nullptr);
}

TEST_CASE("Every built-in config function gives a model whose sizes agree") {
  CHECK(find_builtin_module("torchtitan.models.qwen3") == find_builtin_module("qwen3"));
  for (const auto& module : builtin_modules()) {
    for (const auto& function : module.functions) {
      CAPTURE(function.name);
      const TrainerConfig config = function.make();
      config.model_spec.model->validate();
      config.validate();
    }
  }
}

TEST_CASE("Sizes that contradict one another are answered with the field") {
  const auto model_error = [](auto&& change) {
    auto spec = qwen3::model_registry("demo");
    change(*spec.model);
    return error_of([&] { spec.model->validate(); });
  };
  CHECK(model_error([](ModelConfig& m) { m.layers[2]->attention->n_kv_heads = 3; }) ==
        "model_spec.model.layers.2.attention.n_kv_heads: is 3; it must divide n_heads (8)");
  CHECK(model_error([](ModelConfig& m) { m.vocab_size = 4096; }) ==
        "model_spec.model.tok_embeddings: is a table of 2048 x 256, but vocab_size x dim is 4096 x 256");
  CHECK(
      model_error([](ModelConfig& m) { m.layers[1]->feed_forward->w2->in_features = 9; }) ==
      "model_spec.model.layers.1.feed_forward.w2: maps 9 -> 256, but the sizes around it ask for 768 -> 256");
  CHECK(model_error([](ModelConfig& m) { m.layers[0]->feed_forward.reset(); }) ==
        "model_spec.model.layers.0: must hold exactly one of feed_forward and moe");
  CHECK(model_error([](ModelConfig& m) {
          m.layers[0]->attention->head_dim = 31;
        }).find("positive and even") != std::string::npos);
}
