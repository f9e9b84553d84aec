#include <doctest/doctest.h>

#include "titan/config/arity.h"
#include "titan/config/walk.h"
#include "titan/recipes.h"

using namespace titan;

namespace {

template <class T>
void check_described() {
  INFO(type_name(node_type<T>));
  CHECK(described_arity<T>() == arity<T>());
}

template <class... T>
void check_each() {
  (check_described<T>(), ...);
}

}  // namespace

TEST_CASE("every config struct describes all of its members") {
  check_each<TrainerConfig, AttentionSettingsConfig, ModelSpec, ProfilerConfig, MetricsConfig,
             TokenizerConfig, DataLoaderConfig, OptimizerConfig, ParamGroupConfig, OptimizerKwargs,
             LrSchedulerConfig, TrainingConfig, ParallelismConfig, CheckpointConfig, CompileConfig,
             CommConfig, ValidatorConfig, DebugConfig, OverrideConfig, LossConfig, FaultToleranceConfig>();
  check_each<ActivationCheckpointConfig, NoACConfig, SelectiveACConfig, FullACConfig, MemoryBudgetACConfig>();
  check_each<ModelConfig, qwen3::Qwen3ModelConfig, TransformerBlockConfig, AttentionConfig, QKVLinearConfig,
             RoPEConfig, CosSinRoPEConfig, ComplexRoPEConfig, FeedForwardConfig, MoEConfig, RouterConfig,
             RoutedExpertsConfig, GroupedExpertsConfig, LinearConfig, EmbeddingConfig, RMSNormConfig>();
}

TEST_CASE("no field has the name that JSON gives to types, and every one has a help") {
  const TrainerConfig config = qwen3::qwen3_30b_a3b();
  walk(node_of(config), [](const Place& place) {
    const Fields fields = fields_of(place.node);
    CHECK(fields.find("type") == nullptr);
    for (const Field& field : fields.list()) {
      INFO(place.fqn << " " << field.name);
      CHECK(std::string_view(field.help) != "");
    }
  });
}
