#include <ATen/Context.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <doctest/doctest.h>

#include <functional>
#include <stdexcept>

#include "tests/unit/distributed/fsdp_subjects.h"
#include "tests/unit/test_device.h"
#include "titan/distributed/fsdp_pool.h"

// Weights that come and go: what is there when, and what a pass that fails leaves behind.

using namespace titan;
using tests::Chain;

namespace {

const std::vector<int64_t> kAllRows = tests::rows_of(0, 1, 0, 1);

/// A sharded Chain on one rank of a group of threads.
struct ShardedChain {
  explicit ShardedChain(Group& shards, FsdpOptions options = {})
      : alone(std::make_shared<tests::Meeting>(1), {shards.ranks()[static_cast<size_t>(shards.index())]}, 0) {
    shard_parameters(model, shards.size(), shards.index());
    materialize(model, at::kFloat, tests::test_device(), 11);
    sharded.emplace(model.units(), shards, alone, options);
  }

  /// The shards' gradients of one step on all rows; cleared afterwards.
  std::vector<at::Tensor> gradients() {
    backward(model.loss(kAllRows));
    sharded->finish_backward();
    return take_gradients();
  }

  std::vector<at::Tensor> take_gradients() {
    std::vector<at::Tensor> taken;
    for (const auto& [name, parameter] : model.named_parameters()) {
      taken.push_back(std::exchange(parameter->shard.mutable_grad(), at::Tensor()));
    }
    return taken;
  }

  tests::ThreadGroup alone;
  Chain model;
  std::optional<FullyShardedModel> sharded;
};

void check_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  for (size_t i = 0; i < a.size(); ++i) CHECK(a[i].equal(b[i]));
}

/// The identity, but for a backward that throws.
at::Tensor fails_in_backward(const at::Tensor& x) {
  Backward failing{.name = "failing", .inputs = {x}};
  failing.fn = [](const GradientCall&) -> std::vector<at::Tensor> {
    throw std::runtime_error("in backward");
  };
  return differentiable(std::move(failing), [&] { return x; });
}

/// The identity, but for a backward that calls `probe`.
at::Tensor probed_in_backward(const at::Tensor& x, const std::function<void()>& probe) {
  Backward probing{.name = "probing", .inputs = {x}};
  probing.fn = [probe](const GradientCall& call) -> std::vector<at::Tensor> {
    probe();
    return {call.grad_outputs[0]};
  };
  return differentiable(std::move(probing), [&] { return x; });
}

/// One weight [1] of which rank r's loss is r's factor times.
class Scale final : public Module {
 public:
  Scale() { add_parameter("weight", weight, {2}, {Init::Kind::constant, 1.0}); }
  Parameter weight;
};

/// Fills new tensors with NaN, so that nothing relies on memory that happens to be zero.
struct FreshMemoryIsNaN {
  FreshMemoryIsNaN() { at::globalContext().setDeterministicAlgorithms(true, true); }
  ~FreshMemoryIsNaN() { at::globalContext().setDeterministicAlgorithms(false, false); }
};

}  // namespace

TEST_CASE("rows are cut over the ranks, the last ranks getting fewer or none") {
  const auto rows = [](int64_t shards, int64_t index) {
    Chain chain;
    // Half of the rows are another tensor-parallel rank's.
    Parameter& weight = chain.first->weight;
    weight.value_block = weight.value_block.chunk(0, 2, 1);
    shard_parameters(chain, shards, index);
    const Block &first = weight.shard_block, &second = chain.second->weight.shard_block;
    return std::vector<int64_t>{first.offset[0], first.shape[0], second.offset[0], second.shape[0]};
  };
  CHECK(rows(2, 0) == std::vector<int64_t>{4, 2, 0, 2});
  CHECK(rows(2, 1) == std::vector<int64_t>{6, 1, 2, 1});
  CHECK(rows(5, 2) == std::vector<int64_t>{6, 1, 2, 1});
  CHECK(rows(5, 4) == std::vector<int64_t>{7, 0, 3, 0});
}

TEST_CASE("a group of one rank computes with the shards themselves") {
  tests::run_ranks(1, [](Group& shards) {
    ShardedChain chain(shards);
    const Parameter& weight = chain.model.second->weight;
    CHECK(weight.value.data_ptr() == weight.shard.data_ptr());
    const auto gradients = chain.gradients();
    CHECK(gradients.front().abs().sum().item<double>() > 0.0);
    CHECK(shards.counters().all_gathers == 0);
    CHECK(shards.counters().reduce_scatters == 0);
    CHECK(chain.sharded->memory().peak_unsharded == 0);
    CHECK(chain.sharded->memory().peak_unsharded_gradients == 0);
    CHECK(chain.sharded->deferred_gradient_bytes() == 0);
  });
}

TEST_CASE("a group of one rank casts to another dtype") {
  tests::run_ranks(1, [](Group& shards) {
    tests::ThreadGroup alone(std::make_shared<tests::Meeting>(1), {0}, 0);
    tests::SmallQwen3 qwen({.vocab_size = 97, .compute = at::kBFloat16});
    materialize(qwen.module(), at::kFloat, tests::test_device(), 11);
    FullyShardedModel sharded(qwen.units(), shards, alone, {.param_dtype = at::kBFloat16});
    backward(qwen.loss(kAllRows));
    sharded.finish_backward();
    CHECK(sharded.memory().peak_unsharded > 0);
    CHECK(shards.counters().all_gather_bytes == 0);
    for (const auto& [name, parameter] : qwen.module().named_parameters()) {
      CHECK((parameter->value.scalar_type() == at::kBFloat16));
      CHECK((parameter->shard.scalar_type() == at::kFloat));
      CHECK((parameter->shard.grad().scalar_type() == at::kFloat));
    }
  });
}

TEST_CASE("bfloat16 gradients are summed over ranks and micro-batches in float32") {
  for (const bool defer : {false, true}) {
    tests::run_ranks(2, [&](Group& shards) {
      tests::ThreadGroup alone(std::make_shared<tests::Meeting>(1), {shards.index()}, 0);
      Scale scale;
      shard_parameters(scale, 2, shards.index());
      materialize(scale, at::kFloat, tests::test_device(), 11);
      FullyShardedModel sharded({{"scale", {&scale}, {&scale.stage}}}, shards, alone,
                                {.param_dtype = at::kBFloat16, .defer_reduce = defer});
      // 256 + 1 + 1 + 1 is no bfloat16, nor is any sum on the way to it.
      for (const int64_t micro_batch : {0, 1}) {
        const double factor = shards.index() == 0 && micro_batch == 0 ? 256.0 : 1.0;
        sharded.set_last_micro_batch(micro_batch == 1);
        backward(scale.stage.run([&] { return scale.weight.value.mul(factor).sum(); }));
        sharded.finish_backward();
      }
      CHECK(scale.weight.shard.grad().equal(at::full({1}, 259.0)));
    });
  }
}

TEST_CASE("replicas of whole weights sum them, also where one of them does not use a weight or a unit") {
  const FreshMemoryIsNaN fresh;
  tests::run_ranks(2, [](Group& replicas) {
    tests::ThreadGroup alone(std::make_shared<tests::Meeting>(1), {replicas.index()}, 0);
    Scale a, b, c;
    for (Scale* scale : {&a, &b, &c}) {
      shard_parameters(*scale, 1, 0);
      materialize(*scale, at::kFloat, tests::test_device(), 11);
    }
    FullyShardedModel sharded({{"a and b", {&a, &b}, {&a.stage}}, {"c", {&c}, {&c.stage}}}, alone, replicas,
                              {});
    const bool all = replicas.index() == 0;
    at::Tensor sum = a.stage.run([&] {
      const at::Tensor first = a.weight.value.sum();
      return all ? first + b.weight.value.sum() : first;
    });
    if (all) sum = c.stage.run([&] { return sum + c.weight.value.sum(); });
    backward(sum);
    sharded.finish_backward();
    CHECK(a.weight.shard.grad().equal(at::full({2}, 2.0)));
    CHECK(b.weight.shard.grad().equal(at::full({2}, 1.0)));
    CHECK(c.weight.shard.grad().equal(at::full({2}, 1.0)));
  });
}

TEST_CASE("weights keep their version while their memory comes and goes") {
  tests::run_ranks(2, [](Group& shards) {
    ShardedChain chain(shards);
    const at::Tensor value = chain.model.second->weight.value;
    const auto version = value._version();
    chain.gradients();
    CHECK(chain.model.second->weight.value.is_same(value));
    CHECK(value._version() == version);
    CHECK(value.storage().nbytes() == 0);
    CHECK_FALSE(value.grad().defined());
  });
}

TEST_CASE("reading a weight outside of its stage is an error that names the unit") {
  tests::run_ranks(2, [](Group& shards) {
    ShardedChain chain(shards);
    const auto read = [&] { return chain.model.second->weight.value.sum().item<double>(); };
    CHECK_THROWS_WITH(read(), doctest::Contains("the unit 'second' is read while it is sharded"));
    const auto first = chain.gradients();
    CHECK_THROWS_WITH(read(), doctest::Contains("the unit 'second' is read while it is sharded"));
    check_equal(chain.gradients(), first);
  });
}

TEST_CASE("a forward without gradients leaves nothing gathered, even if it ends early") {
  for (const bool reshard : {true, false}) {
    tests::run_ranks(2, [&](Group& shards) {
      ShardedChain chain(shards, {.reshard_after_forward = reshard});
      const auto expected = chain.gradients();
      {
        const NoGrad no_grad;
        chain.model.loss(kAllRows);
        CHECK(chain.sharded->memory().unsharded == 0);
        chain.model.on_third = [] { throw std::runtime_error("in forward"); };
        CHECK_THROWS_WITH(chain.model.loss(kAllRows), "in forward");
        CHECK(chain.sharded->memory().unsharded > 0);  // the third unit, gathered ahead
        chain.sharded->finish_backward();
        CHECK(chain.sharded->memory().unsharded == 0);
        chain.model.on_third = nullptr;
      }
      check_equal(chain.gradients(), expected);
    });
  }
}

TEST_CASE("a gather under way is waited for before its memory is given away") {
  tests::run_ranks(2, [](Group& shards) {
    tests::LateGroup late(shards);
    ShardedChain chain(late);
    chain.model.on_third = [] { throw std::runtime_error("in forward"); };
    CHECK_THROWS_WITH(chain.model.loss(kAllRows), "in forward");
    CHECK(late.gathers_under_way() == 1);
    chain.sharded->finish_backward();
    CHECK(late.gathers_under_way() == 0);
  });
}

TEST_CASE("a forward that no backward follows is forgotten by the next one") {
  for (const bool reshard : {true, false}) {
    tests::run_ranks(3, [&](Group& shards) {
      ShardedChain chain(shards, {.reshard_after_forward = reshard});
      const auto expected = chain.gradients();
      chain.model.loss(kAllRows);
      CHECK(chain.sharded->memory().unsharded > 0);
      check_equal(chain.gradients(), expected);
      // Nor does it count as one that gives gradients of zero.
      chain.model.loss(kAllRows);
      chain.sharded->finish_backward();
      CHECK(chain.sharded->memory().unsharded == 0);
      for (const at::Tensor& gradient : chain.take_gradients()) CHECK_FALSE(gradient.defined());
    });
  }
}

TEST_CASE("an exception in the middle of forward leaves a usable model") {
  for (const bool reshard : {true, false}) {
    tests::run_ranks(2, [&](Group& shards) {
      ShardedChain chain(shards, {.reshard_after_forward = reshard});
      const auto expected = chain.gradients();
      chain.model.on_third = [] { throw std::runtime_error("in forward"); };
      CHECK_THROWS_WITH(chain.model.loss(kAllRows), "in forward");
      chain.model.on_third = nullptr;
      {
        const NoGrad no_grad;  // what was gathered before must not be used after an update
        for (const auto& [name, parameter] : chain.model.named_parameters()) parameter->shard.mul_(2);
        const double doubled = chain.model.loss(kAllRows).item<double>();
        for (const auto& [name, parameter] : chain.model.named_parameters()) parameter->shard.mul_(0.5);
        CHECK(chain.model.loss(kAllRows).item<double>() < doubled);
      }
      check_equal(chain.gradients(), expected);
    });
  }
}

TEST_CASE("an exception in the middle of backward leaves a usable model and no whole gradients") {
  for (const bool defer : {false, true}) {
    for (const bool left : {false, true}) {  // whether the sum of the third unit is under way
      tests::run_ranks(2, [&](Group& shards) {
        ShardedChain chain(shards, {.defer_reduce = defer});
        const auto expected = chain.gradients();
        const auto after = chain.model.second->stage.after;
        chain.model.second->stage.after = [&](const at::Tensor& y) {
          return left ? after(fails_in_backward(y)) : fails_in_backward(after(y));
        };
        CHECK_THROWS_WITH(backward(chain.model.loss(kAllRows)), doctest::Contains("in backward"));
        chain.model.second->stage.after = after;
        chain.take_gradients();
        check_equal(chain.gradients(), expected);
        CHECK(chain.sharded->memory().unsharded == 0);
        CHECK(chain.sharded->memory().unsharded_gradients == 0);
      });
    }
  }
}

TEST_CASE("backward gathers the unit before the one that it is in, if it prefetches") {
  for (const bool prefetch : {true, false}) {
    tests::run_ranks(2, [&](Group& shards) {
      ShardedChain chain(shards, {.prefetch = prefetch});
      const auto after = chain.model.second->stage.after;
      int64_t gathered = 0;
      chain.model.second->stage.after = [&](const at::Tensor& y) {
        return probed_in_backward(after(y), [&] { gathered = chain.sharded->memory().unsharded; });
      };
      chain.gradients();
      constexpr int64_t kSecond = 2 * 7 * 3, kThird = 3 * 4 + 4;
      CHECK(gathered == 4 * (kThird + (prefetch ? kSecond : 0)));
    });
  }
}

TEST_CASE("a frozen unit that backward does not reach is gathered once and gets no gradient") {
  tests::run_ranks(2, [](Group& shards) {
    tests::ThreadGroup alone(std::make_shared<tests::Meeting>(1), {shards.index()}, 0);
    Chain chain;
    const auto frozen = chain.first->named_parameters();
    for (const auto& [name, parameter] : frozen) parameter->trainable = false;
    shard_parameters(chain, 2, shards.index());
    materialize(chain, at::kFloat, tests::test_device(), 11);
    FullyShardedModel sharded(chain.units(), shards, alone, {});
    backward(chain.loss(kAllRows));
    sharded.finish_backward();
    CHECK(shards.counters().all_gathers == 1 + 2 + 1);
    for (const auto& [name, parameter] : frozen) {
      CHECK_FALSE(parameter->value.requires_grad());
      CHECK_FALSE(parameter->shard.grad().defined());
    }
  });
}

TEST_CASE("the end of sharding gives the stages back") {
  tests::run_ranks(2, [](Group& shards) {
    ShardedChain chain(shards);
    chain.sharded.reset();
    CHECK_FALSE(static_cast<bool>(chain.model.first->stage.before));
    CHECK_FALSE(static_cast<bool>(chain.model.first->stage.after));
    CHECK_FALSE(chain.model.first->weight.value.defined());
  });
}

TEST_CASE("a weight or a stage in two units is refused") {
  tests::run_ranks(1, [](Group& shards) {
    Chain chain;
    materialize(chain, at::kFloat, tests::test_device(), 11);
    Linear &first = *chain.first, &third = *chain.third;
    const std::vector<ShardingUnit> weight = {{"a", {&first}, {&first.stage}},
                                              {"b", {&first}, {&third.stage}}},
                                    stage = {{"a", {&first}, {&first.stage}},
                                             {"b", {&third}, {&first.stage}}};
    CHECK_THROWS_AS(FullyShardedModel(weight, shards, shards, {}), std::logic_error);
    first.stage = {};
    CHECK_THROWS_AS(FullyShardedModel(stage, shards, shards, {}), std::logic_error);
  });
}

TEST_CASE("a block of memory waits for a request of its size") {
  StoragePool pool;
  at::Tensor block = pool.take(4096, tests::test_device());
  const void* memory = block.data_ptr();
  pool.give_back(std::move(block));
  block = pool.take(4096, tests::test_device());
  CHECK(block.data_ptr() == memory);
  const at::Tensor kept = block;
  pool.give_back(std::move(block));
  CHECK(kept.use_count() == 2);
  CHECK(pool.take(100, tests::test_device()).numel() == 100);  // another size: what waits is freed
  CHECK(kept.use_count() == 1);
}

TEST_CASE("no more than two blocks of memory wait") {
  StoragePool pool;
  std::vector<at::Tensor> blocks;
  for (int i = 0; i < 3; ++i) blocks.push_back(pool.take(64, tests::test_device()));
  for (const at::Tensor& block : blocks) pool.give_back(block);
  CHECK(blocks[0].use_count() == 2);
  CHECK(blocks[1].use_count() == 2);
  CHECK(blocks[2].use_count() == 1);
}
