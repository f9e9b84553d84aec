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

/// A model with one layer of each kind, and which layers of the whole one these are.
struct DifferentLayers {
  Poly<ModelConfig> model;
  std::vector<size_t> numbers;
};

DifferentLayers with_different_layers(const Poly<ModelConfig>& model) {
  DifferentLayers different{model, {}};
  different.model->layers.clear();
  std::set<std::string> seen;
  for (size_t i = 0; i < model->layers.size(); ++i) {
    if (!seen.insert(to_json(model->layers[i].node()).dump()).second) continue;
    different.model->layers.push_back(model->layers[i]);
    different.numbers.push_back(i);
  }
  return different;
}

/// A name in the model of different layers as it is in the whole one.
std::string whole_name(const std::string& name, const std::vector<size_t>& numbers) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    const std::string prefix = format("layers.{}.", i);
    if (name.starts_with(prefix)) return format("layers.{}.{}", numbers[i], name.substr(prefix.size()));
  }
  return name;
}

/// After a backward: a module on the way may detach what it computes, which trains in silence.
void warn_of_missing_gradients(const LanguageModel& model, const std::vector<size_t>& numbers) {
  constexpr size_t kMostNames = 4;
  std::vector<std::string> missing;
  for (const auto& [name, parameter] : model.named_parameters()) {
    if (parameter->trainable && !parameter->value.grad().defined())
      missing.push_back(whole_name(name, numbers));
  }
  if (missing.empty()) return;
  const std::string more =
      missing.size() > kMostNames ? format(" and {} more", missing.size() - kMostNames) : "";
  missing.resize(std::min(missing.size(), kMostNames));
  warn_once(format(
      "The loss gives no gradient to {}{}, nor in layers configured alike: does a module detach what it "
      "computes?",
      join(missing, ", "), more));
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

/// What one of the tensor-parallel ranks will run of the model; how many parameters that has.
size_t check_rank(const DifferentLayers& different, const TrainerConfig& trainer, int64_t index) {
  const auto model = build_model(different.model);
  std::vector<int64_t> ranks(static_cast<size_t>(trainer.parallelism.tensor_parallel_degree));
  std::iota(ranks.begin(), ranks.end(), 0);
  ShapesGroup group("tp", std::move(ranks), index);
  if (group.size() > 1) cut_over_tensor_ranks(*model, group, trainer.parallelism);
  run_on_shapes(*model, trainer.training);
  warn_of_missing_gradients(*model, different.numbers);
  return model->named_parameters().size();
}

std::string checked_text(const TrainerConfig& config, size_t num_layers, size_t num_parameters) {
  const int64_t ranks = config.parallelism.tensor_parallel_degree;
  const size_t all = config.model_spec.model->layers.size();
  return format(
      "Shapes fit, forward and backward: {} row(s) of {} tokens, {} parameters, {} of {} layers{}{}",
      config.training.local_batch_size, config.training.seq_len, num_parameters, num_layers, all,
      num_layers < all ? " (the others are configured alike)" : "",
      ranks > 1 ? format(", as the tensor-parallel ranks 0 and {} see them", ranks - 1) : "");
}

}  // namespace

std::string check_shapes(const TrainerConfig& config) {
  TrainerConfig prepared = config;
  prepare_model(prepared);
  try {
    const int64_t last = std::max<int64_t>(prepared.parallelism.tensor_parallel_degree, 1) - 1;
    const DifferentLayers layers = with_different_layers(prepared.model_spec.model);
    const size_t num_parameters = check_rank(layers, prepared, 0);
    if (last > 0) check_rank(layers, prepared, last);  // which may have fewer heads, or columns
    return checked_text(prepared, layers.numbers.size(), num_parameters);
  } catch (const ConfigError&) {
    throw;
  } catch (const ValueError& error) {
    throw CommonError("{}", error.what());
  } catch (const c10::NotImplementedError& error) {
    log_warning(
        "The model's shapes are not checked before the run: it holds an operator that needs data ({})",
        error.what_without_backtrace());
    return "";
  }
}

}  // namespace titan
