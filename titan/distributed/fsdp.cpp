#include "titan/distributed/fsdp.h"

#include <algorithm>
#include <set>
#include <utility>

#include "titan/base/error.h"
#include "titan/distributed/fsdp_pool.h"
#include "titan/distributed/fsdp_unit.h"
#include "titan/ops/autograd.h"

namespace titan {

// [Note: when backward leaves a unit]
// A stage's output passes through an identity function, whose backward runs just before that of the stage.
// Autograd takes the newest node that is ready, and accumulates gradients of leaves before anything else. So
// when the identity of a stage runs, every node of the later stages has run and every weight used there has
// its gradient, if it gets one at all: units whose first use lies later are done. Their reduction is started
// here, not by the last of their gradients, because here is the same place on every rank, also for a weight
// that was used on some ranks only; otherwise the ranks' collectives would come in different orders.

struct FullyShardedModel::Impl {
  struct Use {
    size_t unit;
    ForwardStage* stage;
    bool first, last;       ///< of the unit's uses in a pass
    bool entered = false;   ///< in this pass
    bool recorded = false;  ///< backward will come by
  };
  struct Unit {
    std::unique_ptr<FsdpUnit> weights;
    bool left = false;  ///< by this pass's backward
  };

  Impl(const std::vector<ShardingUnit>& sharding_units, Group& shards, Group& replicas,
       const FsdpOptions& chosen);
  ~Impl();

  void before(size_t use);
  at::Tensor after(size_t use, const at::Tensor& output);
  void before_backward(size_t use);
  void finish_backward();

  void gather_for(Unit& unit);
  void leave(Unit& unit);
  void finish_reduction();
  void end_pass();

  FsdpOptions options;
  Group& replicate_group;
  StoragePool pool;
  FsdpMemory memory;
  std::vector<Unit> units;
  std::vector<Use> uses;
  std::vector<size_t> order;  ///< uses of this pass as they came
  bool backward_began = false, last_micro_batch = true;
  FsdpUnit* reducing = nullptr;            ///< whose whole gradients are being summed
  std::vector<Pending> replica_sums = {};  ///< all-reduces under way
};

FullyShardedModel::Impl::Impl(const std::vector<ShardingUnit>& sharding_units, Group& shards, Group& replicas,
                              const FsdpOptions& chosen)
    : options(chosen), replicate_group(replicas) {
  std::set<const void*> seen;
  for (const ShardingUnit& unit : sharding_units) {
    for (const Module* module : unit.modules) {
      for (const auto& [name, parameter] : module->named_parameters()) {
        check(seen.insert(parameter).second, "a weight belongs to one unit");
      }
    }
    check(!unit.stages.empty(), "a unit is used by a stage at least");
    for (ForwardStage* stage : unit.stages) {
      check(seen.insert(stage).second && !stage->before && !stage->after,
            "a stage belongs to one unit of one sharded model");
      uses.push_back({.unit = units.size(),
                      .stage = stage,
                      .first = stage == unit.stages.front(),
                      .last = stage == unit.stages.back()});
    }
    units.push_back({std::make_unique<FsdpUnit>(
        unit, FsdpUnit::Context{shards, options, pool, memory, [this] { finish_reduction(); }})});
  }
  for (size_t use = 0; use < uses.size(); ++use) {
    uses[use].stage->before = [this, use] { before(use); };
    uses[use].stage->after = [this, use](const at::Tensor& output) { return after(use, output); };
  }
}

FullyShardedModel::Impl::~Impl() {
  for (const Use& use : uses) *use.stage = {};
}

void FullyShardedModel::Impl::before(size_t place) {
  Use& use = uses[place];
  if (use.entered) end_pass();  // of a forward without gradients, or one that was given up
  use.entered = true;
  order.push_back(place);
  gather_for(units[use.unit]);
  if (options.prefetch && use.first && use.unit + 1 < units.size()) {
    units[use.unit + 1].weights->start_gather();
  }
}

void FullyShardedModel::Impl::gather_for(Unit& unit) {
  unit.weights->start_gather();
  unit.weights->finish_gather();
}

at::Tensor FullyShardedModel::Impl::after(size_t place, const at::Tensor& output) {
  Use& use = uses[place];
  use.recorded = output.requires_grad();
  if (use.last) {
    const bool last_unit = std::ranges::all_of(uses, [](const Use& any) { return !any.last || any.entered; });
    const bool reshard = last_unit ? options.reshard_last_after_forward : options.reshard_after_forward;
    if (reshard || !use.recorded) units[use.unit].weights->reshard();
  }
  if (!use.recorded) return output;
  Backward identity{.name = "FullyShardedModel::before_backward", .inputs = {output}};
  identity.fn = [this, place](const GradientCall& call) {
    before_backward(place);
    return std::vector<at::Tensor>{call.grad_outputs[0]};
  };
  return differentiable(std::move(identity), [&] { return output; });
}

void FullyShardedModel::Impl::before_backward(size_t place) {
  const auto here = std::ranges::find(order, place);
  check(here != order.end(), "a backward pass follows its own forward pass");
  backward_began = true;
  for (auto later = order.rbegin(); later.base() - 1 != here; ++later) {
    if (uses[*later].first) leave(units[uses[*later].unit]);
  }
  gather_for(units[uses[place].unit]);
  if (!options.prefetch || here == order.begin()) return;
  const Use& previous = uses[*(here - 1)];
  if (previous.recorded) units[previous.unit].weights->start_gather();
}

void FullyShardedModel::Impl::leave(Unit& unit) {
  if (std::exchange(unit.left, true)) return;
  FsdpUnit& weights = *unit.weights;
  const bool has_sum = weights.trainable() && (!weights.aliased() || replicate_group.size() > 1);
  if (has_sum && (last_micro_batch || !options.defer_reduce)) {
    finish_reduction();
    weights.start_reduction();
    reducing = &weights;
    if (!options.prefetch) finish_reduction();
  }
  weights.reshard();
}

void FullyShardedModel::Impl::finish_reduction() {
  if (reducing == nullptr) return;
  FsdpUnit& unit = *std::exchange(reducing, nullptr);
  unit.finish_reduction();
  if (last_micro_batch && replicate_group.size() > 1) {
    replica_sums.push_back(replicate_group.all_reduce(unit.shard_gradients()));
  }
}

void FullyShardedModel::Impl::finish_backward() {
  if (backward_began) {
    for (auto unit = units.rbegin(); unit != units.rend(); ++unit) leave(*unit);
    finish_reduction();
    for (const Unit& unit : units) unit.weights->begin_pass();
  }
  end_pass();
}

// After finish_backward() there is nothing left to give up.
void FullyShardedModel::Impl::end_pass() {
  reducing = nullptr;
  for (Pending& sum : std::exchange(replica_sums, {})) sum.wait();
  for (Unit& unit : units) {
    unit.weights->abandon_gradients();
    unit.weights->begin_pass();
    unit.weights->reshard();
    unit.left = false;
  }
  for (Use& use : uses) use.entered = use.recorded = false;
  order.clear();
  backward_began = false;
}

FullyShardedModel::FullyShardedModel(std::vector<ShardingUnit> units, Group& shard_group,
                                     Group& replicate_group, FsdpOptions options)
    : impl_(std::make_unique<Impl>(units, shard_group, replicate_group, options)) {}

FullyShardedModel::~FullyShardedModel() = default;

void FullyShardedModel::set_last_micro_batch(bool last) { impl_->last_micro_batch = last; }

void FullyShardedModel::finish_backward() { impl_->finish_backward(); }

const FsdpMemory& FullyShardedModel::memory() const { return impl_->memory; }

int64_t FullyShardedModel::deferred_gradient_bytes() const {
  int64_t bytes = 0;
  for (const auto& unit : impl_->units) bytes += unit.weights->deferred_gradient_bytes();
  return bytes;
}

void shard_parameters(Module& model, int64_t shards, int64_t index) {
  for (const auto& [name, parameter] : model.named_parameters()) {
    parameter->shard_block = parameter->value_block.chunk(0, shards, index);
  }
}

}  // namespace titan
