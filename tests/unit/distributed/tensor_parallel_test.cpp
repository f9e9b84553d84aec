#include "titan/distributed/tensor_parallel.h"

#include <ATen/ops/full.h>
#include <doctest/doctest.h>

#include "tests/unit/distributed/thread_ranks.h"
#include "tests/unit/test_device.h"
#include "titan/base/error.h"
#include "titan/nn/linear.h"

namespace titan {

namespace {

/// Linears "a" [7, 3] and "b" [3, 7], both with a bias.
class TwoLinears final : public Module {
 public:
  TwoLinears()
      : a(add_child<Linear>(
            "a", Poly<LinearConfig>(LinearConfig{.in_features = 3, .out_features = 7, .bias = true}))),
        b(add_child<Linear>(
            "b", Poly<LinearConfig>(LinearConfig{.in_features = 7, .out_features = 3, .bias = true}))) {}
  std::shared_ptr<Linear> a, b;
};

void cut_on_ranks(Module& model, const ShardingSpec& spec) {
  tests::run_ranks(4, [&](Group& group) {
    if (group.index() == 0) tensor_parallel(model, spec, group);
  });
}

}  // namespace

TEST_CASE("weights are cut along their dimension into chunks of which the last is shorter") {
  tests::run_ranks(4, [](Group& group) {
    TwoLinears model;
    tensor_parallel(
        model,
        {{.module = "a", .parameters = {{"weight", {.dim = 0}}, {"bias", {.dim = 0}}}},
         {.module = "b", .parameters = {{"weight", {.dim = 1}}, {"bias", {.partial_gradient = true}}}}},
        group);
    const Range mine = chunk_of(7, 4, group.index());
    CHECK(model.a->weight.value_block == Block{{mine.begin, 0}, {mine.count, 3}});
    CHECK(model.a->bias.shard_block == Block{{mine.begin}, {mine.count}});
    CHECK(model.b->weight.shard_block == Block{{0, mine.begin}, {3, mine.count}});
    CHECK(model.b->bias.value_block == Block::whole({3}));
    CHECK(model.b->bias.tp.partial_gradient);
    CHECK(model.b->weight.tp.dim == 1);
  });
}

TEST_CASE("a spec that does not fit the model names what is missing") {
  TwoLinears model;
  CHECK_THROWS_WITH_AS(cut_on_ranks(model, {{.module = "c"}}), "tensor parallel: the model has no module c",
                       ValueError);
  CHECK_THROWS_WITH_AS(cut_on_ranks(model, {{.module = "a", .parameters = {{"scale", {}}}}}),
                       "tensor parallel: the module a has no parameter scale", ValueError);
  CHECK_THROWS_WITH_AS(cut_on_ranks(model, {{.module = "a", .parameters = {{"weight", {.dim = 2}}}}}),
                       "tensor parallel: a.weight has 2 dimensions; there is no dimension 2 to cut",
                       ValueError);
  CHECK_THROWS_WITH_AS(
      cut_on_ranks(model, {{.module = "a", .parameters = {{"weight", {.dim = 1}}}}}),
      "tensor parallel: the 3 entries of a.weight along dimension 1 do not reach for 4 ranks", ValueError);
}

TEST_CASE("partial gradients are summed once, missing ones count as zero, and unused weights stay without") {
  tests::run_ranks(3, [](Group& group) {
    const auto rank = static_cast<double>(group.index());
    TwoLinears model;
    const TensorPlacement partial{.partial_gradient = true};
    tensor_parallel(model,
                    {{.module = "a", .parameters = {{"weight", partial}, {"bias", partial}}},
                     {.module = "b", .parameters = {{"bias", partial}}}},
                    group);
    allocate(model, at::kFloat, tests::test_device());
    model.a->weight.shard.mutable_grad() = at::full({7, 3}, 1 + rank);
    if (group.index() == 0) model.b->bias.shard.mutable_grad() = at::full({3}, 5.0);
    model.b->weight.shard.mutable_grad() = at::full({3, 7}, rank);
    const auto parameters = model.named_parameters();
    sum_partial_gradients(parameters, group);
    CHECK(model.a->weight.shard.grad().equal(at::full({7, 3}, 6.0)));
    CHECK_FALSE(model.a->bias.shard.grad().defined());
    REQUIRE(model.b->bias.shard.grad().defined());
    CHECK(model.b->bias.shard.grad().equal(at::full({3}, 5.0)));
    CHECK(model.b->weight.shard.grad().equal(at::full({3, 7}, rank)));
    CHECK(group.counters().all_reduces == 1);
  });
}

}  // namespace titan
