#include "titan/nn/module.h"

#include <ATen/core/Tensor.h>
#include <doctest/doctest.h>

#include "tests/unit/test_device.h"
#include "titan/nn/linear.h"
#include "titan/nn/rms_norm.h"

using namespace titan;

namespace {

struct PairConfig {
  Poly<LinearConfig> first;
  Poly<LinearConfig> second;
  void describe(auto& f) {
    f("first", first);
    f("second", second);
  }
};

class PairModule : public Module {
 public:
  explicit PairModule(const PairConfig& config)
      : first(add_child<Linear>("first", config.first)),
        second(add_child<Linear>("parts.1", config.second)) {}
  std::shared_ptr<Linear> first, second;
};

}  // namespace

// Outside the unnamed namespace: its build<> is a symbol that the config library looks up.
struct NotALinearConfig : LinearConfig {
  void describe(auto& f) { f.template base<LinearConfig>(*this); }
};

template <>
titan::ModulePtr titan::build(const NotALinearConfig&) {
  return std::make_shared<RMSNorm>(RMSNormConfig{.normalized_shape = 3});
}

TEST_CASE("parameters carry fully qualified names in the order of registration") {
  const PairModule pair({LinearConfig{.in_features = 2, .out_features = 3, .bias = true},
                         LinearConfig{.in_features = 3, .out_features = 5}});
  std::vector<std::string> names;
  for (const auto& [name, parameter] : pair.named_parameters()) names.push_back(name);
  CHECK(names == std::vector<std::string>{"first.weight", "first.bias", "parts.1.weight"});
  CHECK(pair.find("parts.1") == pair.second.get());
  CHECK(pair.find("parts") == nullptr);
  CHECK(pair.second->weight.numel() == 15);
}

TEST_CASE("an empty slot builds no child, and a slot that builds another kind is refused by name") {
  CHECK(PairModule({LinearConfig{.in_features = 1, .out_features = 1}, {}}).second == nullptr);
  CHECK_THROWS_WITH_AS(PairModule({NotALinearConfig{}, {}}), doctest::Contains("first: NotALinearConfig"),
                       ConfigError);
}

TEST_CASE("materialize allocates, fills and respects trainable; meta allocates nothing") {
  PairModule pair({LinearConfig{.in_features = 4, .out_features = 4, .bias = true},
                   LinearConfig{.in_features = 4, .out_features = 4}});
  pair.first->weight.trainable = false;
  materialize(pair, at::kBFloat16, tests::test_device(), 1);
  CHECK((pair.first->weight.value.scalar_type() == at::kBFloat16));
  CHECK_FALSE(pair.first->weight.value.requires_grad());
  CHECK(pair.second->weight.value.requires_grad());
  CHECK(pair.first->bias.value.abs().sum().item<float>() == 0.0f);
  CHECK(pair.second->weight.value.abs().sum().item<float>() > 0.0f);
  materialize(pair, at::kFloat, at::kMeta, 1);
  CHECK(pair.first->weight.value.is_meta());
}
