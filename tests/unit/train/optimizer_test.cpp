#include "titan/train/optimizer.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <doctest/doctest.h>

#include <cmath>
#include <deque>
#include <string>
#include <vector>

#include "titan/base/error.h"

namespace titan {
namespace {

/// Parameters of two elements, all of the given value, with gradients.
class Parameters {
 public:
  void add(const std::string& name, double value, double grad, bool trainable = true) {
    Parameter& parameter = storage_.emplace_back();
    parameter.shape = {2};
    parameter.trainable = trainable;
    parameter.shard = at::full({2}, value, at::kFloat);
    if (trainable) {
      parameter.shard.set_requires_grad(true);
      parameter.shard.mutable_grad() = at::full({2}, grad, at::kFloat);
    }
    list_.push_back({name, &parameter});
  }
  const std::vector<Module::NamedParameter>& list() const { return list_; }
  double value(size_t i) const { return storage_[i].shard.data_ptr<float>()[1]; }

 private:
  std::deque<Parameter> storage_;
  std::vector<Module::NamedParameter> list_;
};

ParamGroupConfig group(const std::string& pattern, double lr, OptimizerName name = OptimizerName::AdamW) {
  ParamGroupConfig config;
  config.pattern = pattern;
  config.optimizer_name = name;
  config.optimizer_kwargs.lr = lr;
  return config;
}

OptimizerConfig groups(std::vector<ParamGroupConfig> list) {
  OptimizerConfig config;
  config.param_groups = std::move(list);
  return config;
}

Parameters model() {
  Parameters parameters;
  parameters.add("tok_embeddings.weight", 1.0, 0.5);
  parameters.add("layers.0.attention.wo.weight", 1.0, 0.5);
  parameters.add("norm.weight", 1.0, 0.5);
  return parameters;
}

}  // namespace

TEST_CASE("The first group whose pattern is found takes the parameter") {
  const Parameters parameters = model();
  const Optimizer optimizer(groups({group("norm", 1.0), group("layers\\.\\d+\\.", 2.0), group(".*", 3.0)}),
                            parameters.list());
  REQUIRE(optimizer.groups().size() == 3);
  CHECK(optimizer.groups()[0].params.size() == 1);
  CHECK(optimizer.groups()[0].params[0].is_same(parameters.list()[2].parameter->shard));
  CHECK(optimizer.groups()[1].params[0].is_same(parameters.list()[1].parameter->shard));
  CHECK(optimizer.groups()[2].params[0].is_same(parameters.list()[0].parameter->shard));
}

TEST_CASE("A pattern that finds nothing is an error that names it") {
  const Parameters parameters = model();
  CHECK_THROWS_WITH_AS(Optimizer(groups({group("router", 1.0), group(".*", 1.0)}), parameters.list()),
                       doctest::Contains("pattern 'router' (group 0) finds no trainable parameter"),
                       ConfigError);
}

TEST_CASE("A pattern whose parameters are all taken says so") {
  const Parameters parameters = model();
  CHECK_THROWS_WITH_AS(Optimizer(groups({group(".*", 1.0), group("norm", 1.0)}), parameters.list()),
                       doctest::Contains("an earlier group has taken"), ConfigError);
}

TEST_CASE("A parameter that no pattern finds is an error that names it") {
  const Parameters parameters = model();
  CHECK_THROWS_WITH_AS(Optimizer(groups({group("^layers", 1.0), group("^norm", 1.0)}), parameters.list()),
                       doctest::Contains("'tok_embeddings.weight'"), ConfigError);
}

TEST_CASE("A bad regular expression and an empty list of groups are errors") {
  const Parameters parameters = model();
  CHECK_THROWS_WITH_AS(Optimizer(groups({group("norm(", 1.0)}), parameters.list()),
                       doctest::Contains("'norm('"), ConfigError);
  CHECK_THROWS_WITH_AS(Optimizer(groups({}), parameters.list()), doctest::Contains("default_adamw"),
                       ConfigError);
}

TEST_CASE("Frozen parameters get no moments, no update, and need no group") {
  Parameters parameters;
  parameters.add("adapter.weight", 1.0, 0.5);
  parameters.add("base.weight", 1.0, 0.0, false);
  Optimizer optimizer(groups({group("adapter", 0.1)}), parameters.list());
  optimizer.step(1.0, 1.0);
  CHECK(parameters.value(0) < 1.0);
  CHECK(parameters.value(1) == 1.0);
  CHECK_THROWS_AS(Optimizer(groups({group("adapter", 0.1), group("base", 0.1)}), parameters.list()),
                  ConfigError);
}

TEST_CASE("A step uses the group's rate times the factor, and AdamW decays beside the step") {
  Parameters parameters = model();
  Optimizer optimizer(groups({group("norm", 0.1), group(".*", 0.2)}), parameters.list());
  optimizer.step(0.5, 1.0);
  // The first Adam step moves by lr (the bias-corrected ratio is 1), after a decay by lr * weight_decay.
  CHECK(parameters.value(2) == doctest::Approx(1.0 - 0.05 * 0.1 - 0.05).epsilon(1e-6));
  CHECK(parameters.value(0) == doctest::Approx(1.0 - 0.1 * 0.1 - 0.1).epsilon(1e-6));
}

TEST_CASE("The gradient's scale reaches the moments") {
  Parameters parameters = model();
  Optimizer optimizer(groups({group(".*", 0.1)}), parameters.list());
  optimizer.step(1.0, 0.5);
  CHECK(optimizer.groups()[0].exp_avgs[0].data_ptr<float>()[0] == doctest::Approx(0.1 * 0.25));
}

TEST_CASE("Adam adds the decay to the gradient, so that the moments see it") {
  Parameters parameters;
  parameters.add("weight", 2.0, 0.5);
  Optimizer optimizer(groups({group(".*", 0.1, OptimizerName::Adam)}), parameters.list());
  optimizer.step(1.0, 0.5);
  CHECK(optimizer.groups()[0].exp_avgs[0].data_ptr<float>()[0] == doctest::Approx(0.1 * (0.25 + 0.1 * 2.0)));
  CHECK(parameters.value(0) == doctest::Approx(2.0 - 0.1).epsilon(1e-6));
}

TEST_CASE("Two steps are torch.optim.AdamW's") {
  Parameters parameters;
  parameters.add("weight", 1.0, 0.5);
  Optimizer optimizer(groups({group(".*", 0.1)}), parameters.list());
  optimizer.step(1.0, 1.0);
  parameters.list()[0].parameter->shard.mutable_grad() = at::full({2}, -0.2, at::kFloat);
  optimizer.step(1.0, 1.0);
  double p = 1.0, m = 0.0, v = 0.0;
  for (const auto& [step, grad] : {std::pair{1, 0.5}, std::pair{2, -0.2}}) {
    p -= 0.1 * 0.1 * p;
    m = 0.9 * m + 0.1 * grad;
    v = 0.95 * v + 0.05 * grad * grad;
    p -= 0.1 * (m / (1 - std::pow(0.9, step))) / (std::sqrt(v / (1 - std::pow(0.95, step))) + 1e-8);
  }
  CHECK(parameters.value(0) == doctest::Approx(p).epsilon(1e-6));
}

TEST_CASE("fused_opt_states_bf16 keeps the moments in bfloat16, the others in the parameter's type") {
  Parameters parameters = model();
  auto config = groups({group(".*", 0.1)});
  CHECK((Optimizer(config, parameters.list()).groups()[0].exp_avgs[0].scalar_type() == at::kFloat));
  config.implementation = OptimizerImplementation::fused_opt_states_bf16;
  Optimizer optimizer(config, parameters.list());
  CHECK((optimizer.groups()[0].exp_avgs[0].scalar_type() == at::kBFloat16));
  CHECK((optimizer.groups()[0].exp_avg_sqs[0].scalar_type() == at::kBFloat16));
  optimizer.step(1.0, 1.0);
  CHECK(parameters.value(0) < 1.0);
}

TEST_CASE("zero_grad drops gradients and a parameter without one is left alone") {
  Parameters parameters = model();
  Optimizer optimizer(groups({group(".*", 0.1)}), parameters.list());
  CHECK(optimizer.gradients().size() == 3);
  optimizer.zero_grad();
  for (const at::Tensor& grad : optimizer.gradients()) CHECK_FALSE(grad.defined());
  optimizer.step(1.0, 1.0);
  CHECK(parameters.value(0) == 1.0);
}

TEST_CASE("Rates and banner lines name the optimizer, and number groups that share a name") {
  const Parameters parameters = model();
  const Optimizer one(groups({group(".*", 8e-4)}), parameters.list());
  REQUIRE(one.learning_rates(0.5).size() == 1);
  CHECK(one.learning_rates(0.5)[0] == Scalar{"lr/AdamW", 4e-4});
  CHECK(one.banner()[0] ==
        "Optimizer AdamW (model_part=0): 3 params [.*] {'lr': 0.0008, 'betas': (0.9, 0.95), 'eps': 1e-08, "
        "'weight_decay': 0.1}");
  const Optimizer three(
      groups({group("norm", 0.1), group("tok", 0.2, OptimizerName::Adam), group(".*", 0.3)}),
      parameters.list());
  CHECK(three.learning_rates(1.0) ==
        std::vector<Scalar>{{"lr/AdamW/0", 0.1}, {"lr/Adam", 0.2}, {"lr/AdamW/1", 0.3}});
}

}  // namespace titan
