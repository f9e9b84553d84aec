#include "titan/checkpoint/sharded_state.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <doctest/doctest.h>

#include <map>

#include "tests/unit/checkpoint/shard_layouts.h"
#include "tests/unit/test_device.h"
#include "titan/train/optimizer_state.h"

using namespace titan;
using namespace titan::checkpoint_tests;

namespace {

/// Three weights whose sizes no layout divides: rows cut by tp, columns cut by tp, a vector that is not.
class ThreeWeights : public Module {
 public:
  ThreeWeights() {
    const Init normal{Init::Kind::normal, 1.0};
    add_parameter("table", table, {7, 3}, normal);
    add_parameter("projection", projection, {5, 9}, normal);
    add_parameter("scale", scale, {4}, normal);
    table.tp.dim = 0;
    projection.tp.dim = 1;
    scale.trainable = false;
  }
  Parameter table, projection, scale;
};

void cut_parameters(ThreeWeights& model, const Grid& grid, int64_t s, int64_t t) {
  for (const auto& [name, parameter] : model.named_parameters()) {
    if (parameter->tp.dim)
      parameter->value_block = parameter->value_block.chunk(*parameter->tp.dim, grid.tensor, t);
    parameter->shard_block = parameter->value_block.chunk(0, grid.shard, s);
  }
}

OptimizerConfig one_group() {
  OptimizerConfig config;
  config.param_groups = {ParamGroupConfig{.pattern = ".*"}};
  return config;
}

}  // namespace

TEST_CASE("the blocks of all ranks cover every weight and moment once, in global coordinates") {
  for (const Grid& grid : {Grid{1, 1}, Grid{3, 1}, Grid{1, 2}, Grid{2, 2}, Grid{4, 3}, Grid{8, 1}}) {
    CAPTURE(grid.shard);
    CAPTURE(grid.tensor);
    ThreeWeights whole;
    materialize(whole, at::kFloat, tests::test_device(), 7);
    std::map<std::string, at::Tensor> covered;
    for (int64_t s = 0; s < grid.shard; ++s) {
      for (int64_t t = 0; t < grid.tensor; ++t) {
        ThreeWeights model;
        cut_parameters(model, grid, s, t);
        materialize(model, at::kFloat, tests::test_device(), 7);
        const Optimizer optimizer(one_group(), model.named_parameters());
        auto state = sharded_state(model);
        CHECK(state.size() == 3);
        for (size_t i = 0; i < 3; ++i) {
          const at::Tensor all = sharded_state(whole)[i].tensor.detach();
          CHECK(at::equal(state[i].tensor.detach(), cut(all, state[i].block)));
        }
        for (ShardedTensor& moment : sharded_state(optimizer, model)) state.push_back(std::move(moment));
        CHECK(state.size() == 7);  // the frozen weight has no moments
        for (const ShardedTensor& part : state) {
          if (part.name == "scale" && t > 0) continue;  // a copy
          at::Tensor& count = covered[part.name];
          if (!count.defined()) count = at::zeros(part.shape, at::kFloat);
          REQUIRE(part.tensor.sizes() == at::IntArrayRef(part.block.shape));
          cut(count, part.block).add_(1);
        }
      }
    }
    CHECK(covered.size() == 7);
    CHECK(covered.contains("optimizer.state.projection.exp_avg_sq"));
    for (const auto& [name, count] : covered) {
      CAPTURE(name);
      CHECK(at::equal(count, at::ones(count.sizes(), at::kFloat)));
    }
  }
}

TEST_CASE("a sharded state holds the live tensors") {
  ThreeWeights model;
  materialize(model, at::kFloat, tests::test_device(), 7);
  const Optimizer optimizer(one_group(), model.named_parameters());
  CHECK(sharded_state(model)[1].tensor.is_same(model.projection.shard));
  CHECK(sharded_state(optimizer, model)[2].tensor.is_same(optimizer.groups()[0].exp_avgs[1]));
}
