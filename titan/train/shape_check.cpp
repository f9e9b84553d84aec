#include "titan/train/shape_check.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "titan/base/error.h"
#include "titan/base/log.h"
#include "titan/base/strings.h"
#include "titan/config/dump.h"
#include "titan/distributed/shapes_group.h"
#include "titan/models/common/language_model.h"
#include "titan/ops/autograd.h"
#include "titan/train/parallelize.h"

namespace titan {
namespace {

/// The model with one layer of each kind.
Poly<ModelConfig> with_different_layers(Poly<ModelConfig> model) {
  std::set<std::string> seen;
  std::erase_if(model->layers, [&](const Poly<TransformerBlockConfig>& layer) {
    return !seen.insert(to_json(layer.node()).dump()).second;
  });
  return model;
}

void run_on_shapes(LanguageModel& model, const TrainingConfig& training) {
  const bool narrow = training.mixed_precision_param == TrainingDtype::bfloat16;
  materialize(model, at::kFloat, at::kMeta, 0);
  model.set_compute_dtype(narrow ? at::kBFloat16 : at::kFloat);
  const auto tokens_BT = [&] {
    return at::empty({training.local_batch_size, training.seq_len},
                     at::TensorOptions().dtype(at::kLong).device(at::kMeta));
  };
  backward(
      model.loss({.input_ids_BT = tokens_BT(), .positions_BT = tokens_BT(), .labels_BT = tokens_BT()}, 1.0));
}

/// What one of the tensor-parallel ranks will run of the model.
void check_rank(const Poly<ModelConfig>& config, const TrainerConfig& trainer, int64_t index) {
  const auto model = build_model(config);
  std::vector<int64_t> ranks(static_cast<size_t>(trainer.parallelism.tensor_parallel_degree));
  std::iota(ranks.begin(), ranks.end(), 0);
  ShapesGroup group("tp", std::move(ranks), index);
  if (group.size() > 1) cut_over_tensor_ranks(*model, group, trainer.parallelism);
  run_on_shapes(*model, trainer.training);
}

}  // namespace

void check_shapes(const TrainerConfig& config) {
  TrainerConfig prepared = config;
  prepare_model(prepared);
  try {
    const int64_t last = std::max<int64_t>(prepared.parallelism.tensor_parallel_degree, 1) - 1;
    const auto model = with_different_layers(prepared.model_spec.model);
    check_rank(model, prepared, 0);
    if (last > 0) check_rank(model, prepared, last);  // which may have fewer heads, or columns
  } catch (const ConfigError&) {
    throw;
  } catch (const ValueError& error) {
    throw CommonError("{}", error.what());
  } catch (const c10::NotImplementedError& error) {
    log_warning(
        "The model's shapes are not checked before the run: it holds an operator that needs data ({})",
        error.what_without_backtrace());
  }
}

}  // namespace titan
