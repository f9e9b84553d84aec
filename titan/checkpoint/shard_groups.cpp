#include "titan/checkpoint/shard_groups.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "titan/base/error.h"
#include "titan/ops/autograd.h"

namespace titan {
namespace {

// Transposed at a time, so that the writing rank never holds a tensor twice.
constexpr int64_t kTransposedElements = int64_t{1} << 22;

std::array<Group*, 3> groups_of(const ShardGroups& groups) {
  return {groups.shard, groups.tensor, groups.replicate};
}

bool is_first(const Group* group) { return !group || group->index() == 0; }
bool is_shared(const Group* group) { return group && group->size() > 1; }

int64_t largest(Group& group, int64_t number) {
  const at::Tensor value = at::full({1}, number, at::kLong);
  group.all_reduce(value, ReduceOp::max).wait();
  return value.item<int64_t>();
}

int64_t largest(const ShardGroups& groups, int64_t number) {
  for (Group* group : groups_of(groups)) {
    if (is_shared(group)) number = largest(*group, number);
  }
  return number;
}

/// The text of the first member that has one; "" when none has. As int64, which every group carries.
std::string first_text(Group& group, const std::string& mine) {
  const int64_t nobody = group.size();
  const int64_t root = nobody - largest(group, mine.empty() ? 0 : nobody - group.index());
  if (root == nobody) return "";
  const at::Tensor length = at::full({1}, static_cast<int64_t>(mine.size()), at::kLong);
  group.broadcast(length, root);
  const at::Tensor letters = at::zeros({length.item<int64_t>()}, at::kLong);
  auto* data = letters.mutable_data_ptr<int64_t>();
  if (group.index() == root) std::ranges::copy(mine, data);
  group.broadcast(letters, root);
  std::string text;
  for (int64_t i = 0; i < letters.numel(); ++i) text.push_back(static_cast<char>(data[i]));
  return text;
}

std::string text_of(const std::exception_ptr& error) {
  if (!error) return "";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& caught) {
    const std::string text = caught.what();
    return text.empty() ? "an error without a text" : text;
  }
}

at::Tensor empty_like_rows(const at::Tensor& part, int64_t rows) {
  std::vector<int64_t> shape = part.sizes().vec();
  shape[0] = rows;
  return at::empty(shape, part.options().requires_grad(false));
}

/// Undefined but on the group's first member.
at::Tensor gather_rows(const at::Tensor& part, int64_t rows, Group& group) {
  const at::Tensor whole = is_first(&group) ? empty_like_rows(part, rows) : at::Tensor();
  group.gather(whole, part, rows);
  return whole;
}

/// The same along dim 1: a group gathers rows, so bands of the transpose are sent.
at::Tensor gather_columns(const at::Tensor& part_OI, int64_t columns, Group& group) {
  check(part_OI.dim() == 2, "only matrices are cut along dim 1");
  const int64_t rows = part_OI.size(0), step = std::max<int64_t>(kTransposedElements / columns, 1);
  at::Tensor whole_OI;
  if (is_first(&group)) whole_OI = at::empty({rows, columns}, part_OI.options().requires_grad(false));
  for (int64_t begin = 0; begin < rows; begin += step) {
    const int64_t count = std::min(step, rows - begin);
    const at::Tensor band_IO = part_OI.narrow(0, begin, count).t().contiguous();
    const at::Tensor gathered_IO = gather_rows(band_IO, columns, group);
    if (whole_OI.defined()) whole_OI.narrow(0, begin, count).copy_(gathered_IO.t());
  }
  return whole_OI;
}

/// The block that this rank's place in the groups gives it.
Block expected_block(const ShardedTensor& part, const ShardGroups& groups) {
  Block block = Block::whole(part.shape);
  if (groups.tensor && part.tensor_dim) {
    block = block.chunk(*part.tensor_dim, groups.tensor->size(), groups.tensor->index());
  }
  return groups.shard ? block.chunk(0, groups.shard->size(), groups.shard->index()) : block;
}

}  // namespace

bool ShardGroups::writes() const { return std::ranges::all_of(groups_of(*this), is_first); }
bool ShardGroups::saves() const { return is_first(replicate); }
bool ShardGroups::several() const { return std::ranges::any_of(groups_of(*this), is_shared); }

void SharedAttempt::run(const std::function<void()>& work) {
  if (error_) return;
  try {
    work();
  } catch (const std::exception&) {
    error_ = std::current_exception();
  }
}

void SharedAttempt::agree() {
  std::string text = text_of(error_);
  // Along one axis after the other, so that the text reaches every rank of the grid.
  for (Group* group : groups_of(groups_)) {
    if (is_shared(group)) text = first_text(*group, text);
  }
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  if (!text.empty()) throw ValueError("{}", text);
}

bool same_everywhere(const ShardGroups& groups, int64_t number) {
  return largest(groups, number) == -largest(groups, -number);
}

at::Tensor gather_whole(const ShardedTensor& part, const ShardGroups& groups) {
  check(part.block == expected_block(part, groups), "a weight is cut as its groups say");
  const NoGrad no_grad;
  // What is saved is put together in memory of the host: a device need not hold a whole weight.
  at::Tensor tensor = part.tensor.detach().to(at::kCPU).contiguous();
  if (is_shared(groups.shard)) {
    const bool rows_cut = groups.tensor && part.tensor_dim == 0;
    const int64_t rows = rows_cut
                             ? chunk_of(part.shape[0], groups.tensor->size(), groups.tensor->index()).count
                             : part.shape[0];
    tensor = gather_rows(tensor, rows, *groups.shard);
  }
  if (!is_first(groups.shard) || !is_shared(groups.tensor)) return tensor;
  if (!part.tensor_dim) return is_first(groups.tensor) ? tensor : at::Tensor();
  const int64_t dim = *part.tensor_dim;
  const int64_t size = part.shape[static_cast<size_t>(dim)];
  return dim == 0 ? gather_rows(tensor, size, *groups.tensor) : gather_columns(tensor, size, *groups.tensor);
}

}  // namespace titan
