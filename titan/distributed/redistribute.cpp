#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <string_view>
#include <utility>
#include <vector>

#include "titan/base/error.h"
#include "titan/distributed/tensor_parallel.h"
#include "titan/ops/autograd.h"

// B batch, T tokens of a row, D dim.
namespace titan {

namespace {

using at::Tensor;
/// One direction of a change of layout.
using Move = Tensor (*)(const Tensor& x_BTD, Group& group);

std::string_view layout_name(Layout layout) {
  switch (layout) {
    case Layout::replicate:
      return "replicate";
    case Layout::sequence:
      return "sequence";
    case Layout::partial:
      break;
  }
  return "partial";
}

/// The rows of a batch: cut along T, each is contiguous.
std::vector<Tensor> batch_rows(const Tensor& x_BTD) {
  std::vector<Tensor> rows;
  for (int64_t b = 0; b < x_BTD.size(0); ++b) rows.push_back(x_BTD.select(0, b));
  return rows;
}

Tensor with_tokens(const Tensor& x_BTD, int64_t tokens, at::ScalarType dtype) {
  return at::empty({x_BTD.size(0), tokens, x_BTD.size(2)}, x_BTD.options().dtype(dtype));
}

Tensor keep(const Tensor& x_BTD, Group&) { return x_BTD; }

Tensor gather_tokens(const Tensor& x_BTD, Group& group) {
  const Tensor mine = x_BTD.contiguous();
  Tensor whole = with_tokens(mine, mine.size(1) * group.size(), mine.scalar_type());
  if (!mine.is_meta()) group.all_gather(batch_rows(whole), batch_rows(mine)).wait();
  return whole;
}

Tensor scatter_sums(const Tensor& x_BTD, Group& group) {
  const int64_t tokens = x_BTD.size(1);
  if (tokens % group.size() != 0) {
    throw ValueError("sequence parallel: {} tokens do not divide into {} ranks of {}", tokens, group.size(),
                     group.name());
  }
  const Tensor summand = x_BTD.contiguous();
  Tensor sums = with_tokens(summand, tokens / group.size(), at::kFloat);
  if (!summand.is_meta()) group.reduce_scatter(batch_rows(sums), batch_rows(summand)).wait();
  return sums.to(summand.scalar_type());
}

Tensor sum_over_ranks(const Tensor& x_BTD, Group& group) {
  Tensor sum = x_BTD.clone(at::MemoryFormat::Contiguous);
  if (!sum.is_meta()) group.all_reduce(sum).wait();
  return sum;
}

std::pair<Move, Move> forward_and_backward(LayoutChange change) {
  const auto is = [&](Layout from, Layout to) { return change.from == from && change.to == to; };
  if (is(Layout::sequence, Layout::replicate)) return {gather_tokens, scatter_sums};
  if (is(Layout::replicate, Layout::replicate)) return {keep, sum_over_ranks};
  if (is(Layout::partial, Layout::sequence)) return {scatter_sums, gather_tokens};
  if (is(Layout::partial, Layout::replicate)) return {sum_over_ranks, keep};
  throw ValueError("there is no change of layout from {} to {}", layout_name(change.from),
                   layout_name(change.to));
}

}  // namespace

Tensor redistribute(const Tensor& x, LayoutChange change, Group& group) {
  const auto [forward_move, backward_move] = forward_and_backward(change);
  if (group.size() == 1) return x;
  check(x.dim() == 3, "activations are [B, T, D]");
  Backward backward{
      .name = format("titan::redistribute {} -> {}", layout_name(change.from), layout_name(change.to)),
      .inputs = {x}};
  backward.fn = [move = backward_move, &group](const GradientCall& call) -> std::vector<Tensor> {
    return {move(call.grad_outputs[0], group)};
  };
  return differentiable(std::move(backward), [&, move = forward_move] { return move(x, group); });
}

}  // namespace titan
