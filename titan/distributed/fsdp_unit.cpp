#include "titan/distributed/fsdp_unit.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/StorageImpl.h>

#include <algorithm>
#include <utility>

#include "titan/base/error.h"
#include "titan/ops/autograd.h"

namespace titan {

namespace {

constexpr int64_t kBlockAlignment = 64;

int64_t aligned_bytes(const at::Tensor& tensor) {
  return (static_cast<int64_t>(tensor.nbytes()) + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
}

/// Lets the storage behind `tensor` be `bytes` bytes at `data`, which someone else owns.
void fill_storage(const at::Tensor& tensor, void* data, int64_t bytes) {
  c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
  storage.clear_data_ptr_access_error_msg_();
  storage.set_data_ptr_noswap(c10::DataPtr(data, tensor.device()));
  storage.set_nbytes(static_cast<size_t>(bytes));
}

/// Takes the memory away; whoever reads it then gets an error with that name.
void empty_storage(const at::Tensor& tensor, const std::string& name) {
  c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
  storage.set_data_ptr_noswap(c10::DataPtr(nullptr, tensor.device()));
  storage.set_nbytes(size_t{0});
  storage.release_data_and_set_meta_custom_data_ptr_error_msg_(
      format("a weight of the unit '{}' is read while it is sharded, outside of the unit's stages", name));
}

}  // namespace

FsdpUnit::FsdpUnit(const ShardingUnit& unit, const Context& context) : name_(unit.name), context_(context) {
  for (Module* module : unit.modules) {
    for (const auto& [name, parameter] : module->named_parameters())
      members_.push_back({.parameter = parameter});
  }
  const Group& group = context_.shard_group;
  aliased_ = group.size() == 1 && std::ranges::all_of(members_, [&](const Member& member) {
               return member.parameter->shard.scalar_type() == context_.options.param_dtype;
             });
  for (Member& member : members_) {
    const Parameter& parameter = *member.parameter;
    check(parameter.shard.defined() &&
              parameter.shard_block == parameter.value_block.chunk(0, group.size(), group.index()),
          "the weights of a sharded model are cut by shard_parameters() and allocated");
    if (parameter.trainable) trained_.push_back(&member);
    if (!aliased_) make_value(member);
  }
}

FsdpUnit::~FsdpUnit() {
  if (aliased_) return;
  for (Member& member : members_) member.parameter->value = at::Tensor();
}

void FsdpUnit::make_value(Member& member) {
  const NoGrad no_grad;
  Parameter& parameter = *member.parameter;
  const Group& group = context_.shard_group;
  const auto options = parameter.shard.options().dtype(context_.options.param_dtype).requires_grad(false);
  member.whole = at::empty(parameter.value_block.shape, options);
  const Range rows = chunk_of(member.whole.size(0), group.size(), group.index());
  member.own = member.whole.narrow(0, rows.begin, rows.count);
  member.value =
      at::empty({0}, options).set_(member.whole.storage(), 0, member.whole.sizes(), member.whole.strides());
  member.offset = block_bytes_;
  block_bytes_ += aligned_bytes(member.whole);
  value_bytes_ += static_cast<int64_t>(member.whole.nbytes());
  empty_storage(member.whole, name_);

  member.value.set_requires_grad(parameter.trainable);
  if (parameter.trainable) {
    on_grad_ready(member.value, [this, &member](const at::Tensor&) { gradient_ready(member); });
  }
  parameter.value = member.value;
}

void FsdpUnit::start_gather() {
  if (aliased_ || block_.defined()) return;
  const NoGrad no_grad;
  FsdpMemory& memory = context_.memory;
  block_ = context_.pool.take(block_bytes_, members_.front().whole.device());
  memory.unsharded += value_bytes_;
  memory.peak_unsharded = std::max(memory.peak_unsharded, memory.unsharded);

  std::vector<at::Tensor> outs, ins;
  for (Member& member : members_) {
    const at::Tensor& whole = member.whole;
    fill_storage(whole, block_.mutable_data_ptr<uint8_t>() + member.offset,
                 whole.numel() * whole.element_size());
    outs.push_back(whole);
    const at::Tensor& shard = member.parameter->shard;
    const bool cast = shard.scalar_type() != whole.scalar_type();
    ins.push_back(cast ? member.own.copy_(shard) : shard.detach());
  }
  gather_ = context_.shard_group.all_gather(std::move(outs), std::move(ins));
}

void FsdpUnit::finish_gather() { gather_.wait(); }

void FsdpUnit::reshard() {
  if (!block_.defined()) return;
  gather_.wait();
  for (const Member& member : members_) empty_storage(member.whole, name_);
  context_.pool.give_back(std::exchange(block_, at::Tensor()));
  context_.memory.unsharded -= value_bytes_;
}

// Gradients that wait for later micro-batches are added up in the dtype of the shards, as those in the shards
// are.
at::ScalarType FsdpUnit::gradient_dtype(const Member& member) const {
  return context_.options.defer_reduce ? member.parameter->shard.scalar_type() : context_.options.param_dtype;
}

int64_t FsdpUnit::deferred_gradient_bytes() const {
  int64_t bytes = 0;
  for (const Member* member : trained_) {
    if (!aliased_) bytes += member->whole.numel() * member->parameter->shard.element_size();
  }
  return bytes;
}

void FsdpUnit::gradient_ready(Member& member) {
  check(!reduced_, "gradients arrive before backward leaves the unit");
  const NoGrad no_grad;
  at::Tensor gradient = std::exchange(member.value.mutable_grad(), at::Tensor());
  touched_ = true;
  if (member.gradient.defined()) {
    member.gradient.add_(gradient);
  } else {
    keep(member, gradient.to(gradient_dtype(member)).contiguous());
  }
  context_.gradient_arrived();
}

void FsdpUnit::keep(Member& member, at::Tensor gradient) {
  FsdpMemory& memory = context_.memory;
  member.gradient = std::move(gradient);
  memory.unsharded_gradients += static_cast<int64_t>(member.gradient.nbytes());
  memory.peak_unsharded_gradients = std::max(memory.peak_unsharded_gradients, memory.unsharded_gradients);
}

void FsdpUnit::drop_gradients() {
  for (Member* member : trained_) {
    if (!member->gradient.defined()) continue;
    context_.memory.unsharded_gradients -= static_cast<int64_t>(member->gradient.nbytes());
    member->gradient = at::Tensor();
  }
}

void FsdpUnit::start_reduction() {
  if (aliased_) return;
  const NoGrad no_grad;
  reduced_ = true;
  const bool first = line_up_shard_gradients();
  std::vector<at::Tensor> outs, ins;
  for (Member* member : trained_) {
    if (!member->gradient.defined()) {
      keep(*member, at::zeros(member->whole.sizes(), member->whole.options().dtype(gradient_dtype(*member))));
    }
    outs.push_back(member->parameter->shard.grad());
    ins.push_back(member->gradient);
  }
  reduction_ = context_.shard_group.reduce_scatter(std::move(outs), std::move(ins), !first);
}

void FsdpUnit::finish_reduction() {
  reduction_.wait();
  drop_gradients();
}

bool FsdpUnit::line_up_shard_gradients() {
  int64_t total = 0;
  bool any = false, in_line = true;
  const at::Tensor front = trained_.front()->parameter->shard.grad();
  for (const Member* member : trained_) {
    const at::Tensor gradient = member->parameter->shard.grad();
    any = any || gradient.defined();
    in_line =
        in_line && gradient.defined() && gradient.is_alias_of(front) && gradient.storage_offset() == total;
    total += member->parameter->shard.numel();
  }
  if (in_line) return false;
  const at::Tensor line =
      at::empty({total}, trained_.front()->parameter->shard.options().requires_grad(false));
  int64_t offset = 0;
  for (Member* member : trained_) {
    at::Tensor& gradient = member->parameter->shard.mutable_grad();
    at::Tensor place =
        line.narrow(0, offset, member->parameter->shard.numel()).view(member->parameter->shard.sizes());
    if (gradient.defined()) {
      place.copy_(gradient);
    } else if (any) {
      place.zero_();
    }
    offset += place.numel();
    gradient = std::move(place);
  }
  return !any;
}

at::Tensor FsdpUnit::shard_gradients() {
  const NoGrad no_grad;
  if (line_up_shard_gradients()) {
    for (Member* member : trained_) member->parameter->shard.mutable_grad().zero_();
  }
  int64_t total = 0;
  for (const Member* member : trained_) total += member->parameter->shard.numel();
  return trained_.front()->parameter->shard.grad().as_strided({total}, {1}, 0);
}

void FsdpUnit::abandon_gradients() {
  reduction_.wait();
  if (touched_) drop_gradients();
}

}  // namespace titan
