#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/distributed/thread_ranks.h"
#include "tests/unit/test_device.h"
#include "titan/distributed/fsdp.h"
#include "titan/models/qwen3/qwen3.h"
#include "titan/nn/linear.h"
#include "titan/ops/autograd.h"

namespace titan::tests {

/// A model with a batch of kRows rows of which any subset gives its share of the loss.
class Subject {
 public:
  static constexpr int64_t kRows = 15;

  virtual ~Subject() = default;
  virtual Module& module() = 0;
  virtual std::vector<ShardingUnit> units() = 0;
  /// The rows' share of the batch's loss.
  virtual at::Tensor loss(const std::vector<int64_t>& rows) = 0;
};

using MakeSubject = std::function<std::unique_ptr<Subject>()>;

/// Three linear layers, one unit each; the second has 3 rows only, and a side branch that rows from kSideRows
/// on do not use.
class Chain final : public Subject, public Module {
 public:
  static constexpr int64_t kSideRows = 4;

  Chain() {
    const auto add = [&](const char* name, int64_t in, int64_t out, bool bias) {
      return add_child<Linear>(
          name, Poly<LinearConfig>(
                    LinearConfig{.in_features = in, .out_features = out, .bias = bias, .init_std = 0.6}));
    };
    first = add("first", 5, 7, true);
    second = add("second", 7, 3, false);
    side = add("side", 7, 3, false);
    third = add("third", 3, 4, true);
  }

  Module& module() override { return *this; }

  std::vector<ShardingUnit> units() override {
    return {{"first", {first.get()}, {&first->stage}},
            {"second", {second.get(), side.get()}, {&second->stage}},
            {"third", {third.get()}, {&third->stage}}};
  }

  at::Tensor forward(const std::vector<int64_t>& rows) {
    const at::Tensor row = at::tensor(rows, at::kLong).unsqueeze(1);
    const at::Tensor x = (row * 5 + at::arange(5)).to(at::kFloat).mul(0.37).sin();
    const at::Tensor h = first->stage.run([&] { return first->forward(x).tanh(); });
    const at::Tensor mask = (row < kSideRows).to(at::kFloat);
    const at::Tensor k = second->stage.run([&] {
      const at::Tensor main = second->forward(h).tanh();
      return mask.any().item<bool>() ? main + mask * side->forward(h) : main;
    });
    if (on_third) on_third();
    return third->stage.run([&] { return third->forward(k); });
  }

  at::Tensor loss(const std::vector<int64_t>& rows) override { return forward(rows).square().sum() / kRows; }

  std::shared_ptr<Linear> first, second, side, third;
  std::function<void()> on_third;  ///< called between the second and the third unit
};

/// A small Qwen3 whose sizes divide by none of 4 and 5.
class SmallQwen3 final : public Subject {
 public:
  struct Options {
    bool tied = false;
    int64_t vocab_size = 2047;
    Recompute recompute = Recompute::none;
    at::ScalarType compute = at::kFloat;
    std::vector<std::string> frozen = {};  ///< parts of parameters' names
  };

  explicit SmallQwen3(Options options) : vocab_size_(options.vocab_size) {
    const qwen3::Qwen3Sizes sizes{.vocab_size = vocab_size_,
                                  .dim = 18,
                                  .n_layers = 3,
                                  .n_heads = 6,
                                  .n_kv_heads = 2,
                                  .head_dim = 4,
                                  .hidden_dim = 22,
                                  .max_seq_len = 64,
                                  .init_std = 0.1,
                                  .tied = options.tied};
    model_ = build_model(qwen3::make_model(sizes));
    model_->set_recompute(options.recompute);
    model_->set_compute_dtype(options.compute);
    for (const auto& [name, parameter] : model_->named_parameters()) {
      for (const std::string& part : options.frozen) {
        if (name.find(part) != std::string::npos) parameter->trainable = false;
      }
    }
  }

  Module& module() override { return *model_; }
  std::vector<ShardingUnit> units() override { return model_->sharding_units(); }

  at::Tensor loss(const std::vector<int64_t>& rows) override {
    constexpr int64_t kLength = 9;
    const auto ints = at::TensorOptions().dtype(at::kLong);
    const auto count = static_cast<int64_t>(rows.size());
    const at::Tensor at_token =
        at::tensor(rows, ints).unsqueeze(1) * (kLength + 1) + at::arange(kLength + 1, ints);
    const at::Tensor ids = (at_token * 7919 + at_token.div(13, "floor") * 31) % vocab_size_;
    TokenBatch batch;
    batch.input_ids_BT = ids.narrow(1, 0, kLength).contiguous();
    batch.labels_BT = ids.narrow(1, 1, kLength).contiguous();
    batch.positions_BT = at::arange(kLength, ints).expand({count, kLength}).contiguous();
    return model_->loss(batch, static_cast<double>(kRows * kLength));
  }

 private:
  int64_t vocab_size_;
  std::shared_ptr<LanguageModel> model_;
};

inline MakeSubject chain() {
  return [] { return std::make_unique<Chain>(); };
}

inline MakeSubject small_qwen3(SmallQwen3::Options options = {}) {
  return [options] { return std::make_unique<SmallQwen3>(options); };
}

/// A group whose collectives happen as late as they may, when they are waited for.
class LateGroup final : public Group {
 public:
  explicit LateGroup(Group& group) : Group("late", group.ranks(), group.index()), group_(group) {}

  /// All-gathers that have not been waited for: they still write.
  int64_t gathers_under_way() const { return gathers_under_way_; }

 private:
  Pending start_all_gather(std::vector<at::Tensor> outs, std::vector<at::Tensor> ins) override {
    const NoGrad no_grad;
    for (size_t i = 0; i < outs.size(); ++i) {
      if (!ins[i].is_alias_of(outs[i])) outs[i].fill_(std::nan(""));
    }
    ++gathers_under_way_;
    return Pending([this, outs, ins] {
      group_.all_gather(outs, ins).wait();
      --gathers_under_way_;
    });
  }
  Pending start_reduce_scatter(std::vector<at::Tensor> outs, std::vector<at::Tensor> ins,
                               bool accumulate) override {
    return Pending([this, outs, ins, accumulate] { group_.reduce_scatter(outs, ins, accumulate).wait(); });
  }
  Pending start_all_reduce(at::Tensor tensor, ReduceOp op) override {
    return Pending([this, tensor, op] { group_.all_reduce(tensor, op).wait(); });
  }
  void run_broadcast(at::Tensor tensor, int64_t root) override { group_.broadcast(tensor, root); }
  void run_gather(const at::Tensor& out, const at::Tensor& in, int64_t rows, int64_t root) override {
    group_.gather(out, in, rows, root);
  }
  void run_barrier() override { group_.barrier(); }

  Group& group_;
  int64_t gathers_under_way_ = 0;
};

struct RunOptions {
  int64_t shards = 1, replicas = 1, accumulation = 1;
  FsdpOptions options = {};
  /// A forward without gradients before each step.
  bool validate = false;
  /// Collectives happen when they are waited for.
  bool late = false;
};

/// What a run has given.
struct Outcome {
  std::vector<double> losses;                      ///< of each step
  std::vector<std::vector<at::Tensor>> gradients;  ///< of each step, whole
  std::vector<FsdpMemory> memory;                  ///< of each rank
  std::vector<GroupCounters> shard_group, replicate_group;
  int64_t deferred_bytes = 0;
};

constexpr int64_t kSteps = 3;
constexpr double kLearningRate = 0.05;

/// Rows of a rank's micro-batch: row g belongs to rank g mod world.
inline std::vector<int64_t> rows_of(int64_t rank, int64_t world, int64_t micro_batch, int64_t accumulation) {
  std::vector<int64_t> rows;
  for (int64_t row = rank; row < Subject::kRows; row += world) {
    if (row / world % accumulation == micro_batch) rows.push_back(row);
  }
  return rows;
}

/// Puts the gradients of shards at their rows of whole tensors, takes a step, and clears them.
inline void take_step(Module& model, std::vector<at::Tensor>& whole_gradients) {
  const NoGrad no_grad;
  size_t index = 0;
  for (const auto& [name, parameter] : model.named_parameters()) {
    const at::Tensor gradient = parameter->shard.grad();
    const at::Tensor& whole = whole_gradients[index++];
    if (!gradient.defined()) continue;
    const Block& block = parameter->shard_block;
    whole.narrow(0, block.offset[0], block.shape[0]).copy_(gradient);
    parameter->shard.sub_(gradient.mul(kLearningRate));
    parameter->shard.mutable_grad() = at::Tensor();
  }
}

inline std::vector<std::vector<at::Tensor>> room_for_gradients(const MakeSubject& make) {
  const auto subject = make();
  std::vector<std::vector<at::Tensor>> room(kSteps);
  for (auto& of_step : room) {
    for (const auto& [name, parameter] : subject->module().named_parameters()) {
      of_step.push_back(at::zeros(parameter->shape));
    }
  }
  return room;
}

/// Three steps of one process, without any sharding.
inline Outcome train_alone(const MakeSubject& make) {
  Outcome outcome{.gradients = room_for_gradients(make)};
  const auto subject = make();
  materialize(subject->module(), at::kFloat, tests::test_device(), 11);
  for (size_t step = 0; step < kSteps; ++step) {
    const at::Tensor loss = subject->loss(rows_of(0, 1, 0, 1));
    backward(loss);
    outcome.losses.push_back(loss.item<double>());
    take_step(subject->module(), outcome.gradients[step]);
  }
  return outcome;
}

/// Runs a thread for each rank with its two groups; ranks of one replica are neighbours.
inline void run_mesh(int64_t replicas, int64_t shards, const std::function<void(Group&, Group&)>& rank_main) {
  std::vector<std::shared_ptr<Meeting>> of_replica, of_shard;
  for (int64_t i = 0; i < replicas; ++i) of_replica.push_back(std::make_shared<Meeting>(shards));
  for (int64_t i = 0; i < shards; ++i) of_shard.push_back(std::make_shared<Meeting>(replicas));
  run_ranks(replicas * shards, [&](int64_t rank) {
    const int64_t replica = rank / shards, shard = rank % shards;
    std::vector<int64_t> shard_ranks, replica_ranks;
    for (int64_t i = 0; i < shards; ++i) shard_ranks.push_back(replica * shards + i);
    for (int64_t i = 0; i < replicas; ++i) replica_ranks.push_back(i * shards + shard);
    ThreadGroup shard_group(of_replica[static_cast<size_t>(replica)], shard_ranks, shard);
    ThreadGroup replicate_group(of_shard[static_cast<size_t>(shard)], replica_ranks, replica);
    rank_main(shard_group, replicate_group);
  });
}

/// Three steps on a mesh of threads.
inline Outcome train(const MakeSubject& make, const RunOptions& layout) {
  const int64_t world = layout.shards * layout.replicas;
  const auto ranks = static_cast<size_t>(world);
  // Each replica writes gradients of its own, so that they can be compared.
  std::vector<std::vector<std::vector<at::Tensor>>> gradients;
  for (int64_t i = 0; i < layout.replicas; ++i) gradients.push_back(room_for_gradients(make));
  std::vector<std::vector<double>> losses(ranks, std::vector<double>(kSteps));
  Outcome outcome{.memory = std::vector<FsdpMemory>(ranks),
                  .shard_group = std::vector<GroupCounters>(ranks),
                  .replicate_group = std::vector<GroupCounters>(ranks)};
  run_mesh(layout.replicas, layout.shards, [&](Group& prompt_shards, Group& prompt_replicas) {
    LateGroup late_shards(prompt_shards), late_replicas(prompt_replicas);
    Group& shards = layout.late ? late_shards : prompt_shards;
    Group& replicas = layout.late ? late_replicas : prompt_replicas;
    const int64_t rank = replicas.index() * layout.shards + shards.index();
    const auto mine = static_cast<size_t>(rank);
    const auto subject = make();
    Module& model = subject->module();
    shard_parameters(model, shards.size(), shards.index());
    materialize(model, at::kFloat, tests::test_device(), 11);
    FullyShardedModel sharded(subject->units(), shards, replicas, layout.options);
    for (size_t step = 0; step < kSteps; ++step) {
      if (layout.validate) {
        const NoGrad no_grad;
        subject->loss(rows_of(rank, world, 0, 1));
      }
      for (int64_t micro = 0; micro < layout.accumulation; ++micro) {
        sharded.set_last_micro_batch(micro + 1 == layout.accumulation);
        const at::Tensor loss = subject->loss(rows_of(rank, world, micro, layout.accumulation));
        backward(loss);
        losses[mine][step] += loss.item<double>();
        sharded.finish_backward();
      }
      take_step(model, gradients[static_cast<size_t>(replicas.index())][step]);
    }
    outcome.memory[mine] = sharded.memory();
    outcome.shard_group[mine] = shards.counters();
    outcome.replicate_group[mine] = replicas.counters();
    if (rank == 0) outcome.deferred_bytes = sharded.deferred_gradient_bytes();
  });
  for (size_t step = 0; step < kSteps; ++step) {
    double sum = 0;
    for (const auto& of_rank : losses) sum += of_rank[step];
    outcome.losses.push_back(sum);
    for (size_t i = 0; i < gradients[0][step].size(); ++i) {
      for (const auto& of_replica : gradients) {
        if (!of_replica[step][i].equal(gradients[0][step][i]))
          throw std::logic_error("replicas have other gradients");
      }
    }
  }
  outcome.gradients = std::move(gradients.front());
  return outcome;
}

}  // namespace titan::tests
