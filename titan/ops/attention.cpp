#include "titan/ops/attention.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <functional>
#include <tuple>
#include <vector>

#include "titan/base/error.h"
#include "titan/ops/autograd.h"
#include "titan/ops/operator.h"
#include "titan/ops/tensor_array.h"

// [Note: attention in blocks] Forward: keys (transposed) and values of every head are packed once as float32;
// then one task per (batch, head, block of queries) multiplies its queries with the keys they may see, takes
// the softmax of each row with its own maximum, and multiplies with the values. Backward: one task per
// (batch, key head) walks the blocks of all query heads that share it, so that dK and dV are summed in one
// order. Neither depends on the number of threads.

namespace titan {

namespace {

using at::Tensor;
using AttentionResult = std::tuple<Tensor, Tensor>;
using AttentionGrads = std::tuple<Tensor, Tensor, Tensor>;

constexpr int64_t kForwardBlock = 24;
constexpr int64_t kBackwardBlock = 48;
constexpr int64_t kInPlaceQueries = 4;  // with fewer, packing keys and values costs more than it saves

int64_t round_to_lanes(int64_t count) { return (count + 15) / 16 * 16; }

void attention_check(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& first_key) {
  element_of(q, "attention: q");
  const bool shapes_fit = q.dim() == 4 && k.dim() == 4 && k.sizes() == v.sizes() && q.size(0) == k.size(0) &&
                          q.size(3) == k.size(3) && k.size(1) >= q.size(1) && k.size(2) > 0 &&
                          q.size(2) % k.size(2) == 0;
  if (!shapes_fit) {
    throw ValueError(
        "attention: q is {}, k {} and v {}; they must be [B, T, N, H] and twice [B, S, K, H] with S >= T and "
        "K dividing N",
        q.sizes(), k.sizes(), v.sizes());
  }
  if (k.scalar_type() != q.scalar_type() || v.scalar_type() != q.scalar_type()) {
    throw ValueError("attention: q is {}, k {} and v {}; their dtypes must be the same",
                     c10::toString(q.scalar_type()), c10::toString(k.scalar_type()),
                     c10::toString(v.scalar_type()));
  }
  if (first_key.scalar_type() != at::kInt || first_key.sizes() != q.sizes().slice(0, 2)) {
    throw ValueError("attention: first_key is {} {}; it must be int32 {}",
                     c10::toString(first_key.scalar_type()), first_key.sizes(), q.sizes().slice(0, 2));
  }
}

/// (out [B, T, N, H], logsumexp [B, N, T]).
AttentionResult attention_shape(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& first_key,
                                double) {
  attention_check(q, k, v, first_key);
  return {at::empty(q.sizes(), q.options()),
          at::empty({q.size(0), q.size(2), q.size(1)}, q.options().dtype(at::kFloat))};
}

Tensor with_contiguous_heads(const Tensor& x) { return x.stride(3) == 1 ? x : x.contiguous(); }

HeadStrides head_strides(const Tensor& x) { return {x.stride(0), x.stride(1), x.stride(2)}; }

/// What forward and backward have in common; the tensors must outlive the result.
AttentionArgs attention_args(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& first_key,
                             double scale) {
  return {.q = const_array(q),
          .k = const_array(k),
          .v = const_array(v),
          .q_strides = head_strides(q),
          .k_strides = head_strides(k),
          .v_strides = head_strides(v),
          .first_key = first_key.const_data_ptr<int32_t>(),
          .first_key_batch_stride = first_key.size(1),
          .queries = q.size(1),
          .keys = k.size(1),
          .heads = q.size(2),
          .kv_heads = k.size(2),
          .head_dim = q.size(3),
          .scale = static_cast<float>(scale),
          .keys_padded = round_to_lanes(k.size(1)),
          .dim_padded = round_to_lanes(q.size(3))};
}

/// Calls fn(begin, end, scratch) over parts of [0, tasks), with `floats` of scratch per thread.
void run_tasks(int64_t tasks, int64_t floats, const std::function<void(int64_t, int64_t, float*)>& fn) {
  const int64_t threads = std::min<int64_t>(at::get_num_threads(), tasks);
  const auto scratch = at::empty({threads, floats}, at::TensorOptions(at::kFloat));
  auto* data = scratch.mutable_data_ptr<float>();
  at::parallel_for(0, tasks, 1,
                   [&](int64_t begin, int64_t end) { fn(begin, end, data + at::get_thread_num() * floats); });
}

AttentionResult attention_cpu(const Tensor& q_BTNH, const Tensor& k_BSKH, const Tensor& v_BSKH,
                              const Tensor& first_key_BT, double scale) {
  auto [out, logsumexp] = attention_shape(q_BTNH, k_BSKH, v_BSKH, first_key_BT, scale);
  if (out.numel() == 0) return {out, logsumexp};
  const auto q = with_contiguous_heads(q_BTNH), k = with_contiguous_heads(k_BSKH),
             v = with_contiguous_heads(v_BSKH);
  const auto first_key = first_key_BT.contiguous();
  auto args = attention_args(q, k, v, first_key, scale);
  args.block = std::min(kForwardBlock, args.queries);
  args.result = array(out);
  args.logsumexp = logsumexp.mutable_data_ptr<float>();
  const int64_t batch = q.size(0);
  if (args.queries < kInPlaceQueries) {
    run_tasks(batch * args.heads * args.queries, 2 * args.dim_padded + args.keys_padded,
              [&](int64_t begin, int64_t end, float* scratch) {
                kernels().attention_in_place(args, begin, end, scratch);
              });
    return {out, logsumexp};
  }
  const int64_t kv_tasks = batch * args.kv_heads;
  const auto packed =
      at::empty({kv_tasks, (args.keys_padded + args.keys) * args.dim_padded}, logsumexp.options());
  args.packed = packed.mutable_data_ptr<float>();
  at::parallel_for(0, kv_tasks, 1,
                   [&](int64_t begin, int64_t end) { kernels().attention_pack(args, begin, end); });

  const int64_t blocks = (args.queries + args.block - 1) / args.block;
  const int64_t scratch_floats = args.block * (2 * args.dim_padded + args.keys_padded);
  run_tasks(batch * args.heads * blocks, scratch_floats, [&](int64_t begin, int64_t end, float* scratch) {
    kernels().attention_forward(args, begin, end, scratch);
  });
  return {out, logsumexp};
}

AttentionGrads attention_backward_shape(const Tensor&, const Tensor& q, const Tensor& k, const Tensor& v,
                                        const Tensor&, const Tensor&, const Tensor&, double,
                                        std::array<bool, 3> needs) {
  const auto like = [](const Tensor& x, bool needed) {
    return needed ? at::empty(x.sizes(), x.options()) : Tensor();
  };
  return {like(q, needs[0]), like(k, needs[1]), like(v, needs[2])};
}

AttentionGrads attention_backward_cpu(const Tensor& grad_BTNH, const Tensor& q_BTNH, const Tensor& k_BSKH,
                                      const Tensor& v_BSKH, const Tensor& first_key_BT,
                                      const Tensor& out_BTNH, const Tensor& logsumexp_BNT, double scale,
                                      std::array<bool, 3> needs) {
  auto [dq, dk, dv] = attention_backward_shape(grad_BTNH, q_BTNH, k_BSKH, v_BSKH, first_key_BT, out_BTNH,
                                               logsumexp_BNT, scale, needs);
  if (out_BTNH.numel() == 0) {
    for (const auto& grad : {dk, dv}) {
      if (grad.defined()) grad.zero_();
    }
    return {dq, dk, dv};
  }
  const auto q = with_contiguous_heads(q_BTNH), k = with_contiguous_heads(k_BSKH),
             v = with_contiguous_heads(v_BSKH);
  const auto out = with_contiguous_heads(out_BTNH), grad = with_contiguous_heads(grad_BTNH);
  const auto first_key = first_key_BT.contiguous(), logsumexp = logsumexp_BNT.contiguous();
  auto args = attention_args(q, k, v, first_key, scale);
  args.out = const_array(out);
  args.grad_out = const_array(grad);
  args.out_strides = head_strides(out);
  args.grad_strides = head_strides(grad);
  args.block = std::min(kBackwardBlock, args.queries);
  args.logsumexp = logsumexp.data_ptr<float>();
  args.dq = array(dq);
  args.dk = array(dk);
  args.dv = array(dv);
  const int64_t scratch_floats = args.dim_padded * (3 * args.keys + 2 * args.keys_padded + 3 * args.block) +
                                 2 * args.block * args.keys_padded;
  run_tasks(q.size(0) * args.kv_heads, scratch_floats, [&](int64_t begin, int64_t end, float* scratch) {
    kernels().attention_backward(args, begin, end, scratch);
  });
  return {dq, dk, dv};
}

using AttentionForward = AttentionResult(const Tensor&, const Tensor&, const Tensor&, const Tensor&, double);

AttentionResult attention_autograd(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& first_key,
                                   double scale) {
  static const auto forward = find_operator<AttentionForward>("titan::attention");
  static const auto gradient =
      find_operator<AttentionGrads(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                   const Tensor&, const Tensor&, double, std::array<bool, 3>)>(
          "titan::attention_backward");
  Backward backward{.name = "titan::attention", .inputs = {q, k, v}, .saved = {q, k, v, first_key}};
  backward.saved_outputs = {0, 1};
  backward.num_differentiable = 1;
  backward.fn = [scale](const GradientCall& call) -> std::vector<Tensor> {
    const auto& saved = call.saved;
    auto [dq, dk, dv] = call_kernel(
        gradient, call.grad_outputs[0], saved[0], saved[1], saved[2], saved[3], saved[4], saved[5], scale,
        std::array{call.needs_grad[0] != 0, call.needs_grad[1] != 0, call.needs_grad[2] != 0});
    return {dq, dk, dv};
  };
  const auto outputs = differentiable(std::move(backward), [&]() -> std::vector<Tensor> {
    auto [out, logsumexp] = call_kernel(forward, q, k, v, first_key, scale);
    return {out, logsumexp};
  });
  return {outputs[0], outputs[1]};
}

Tensor first_keys_shape(const Tensor& positions_BT) {
  if (positions_BT.dim() != 2)
    throw ValueError("first_keys: positions are {}; they must be [B, T]", positions_BT.sizes());
  return at::empty(positions_BT.sizes(), positions_BT.options().dtype(at::kInt));
}

Tensor first_keys_cpu(const Tensor& positions_BT) {
  auto first = first_keys_shape(positions_BT);
  const auto positions = positions_BT.to(at::kLong).contiguous();
  const int64_t tokens = positions.size(1);
  const int64_t* position = positions.const_data_ptr<int64_t>();
  auto* key = first.mutable_data_ptr<int32_t>();
  for (int64_t i = 0; i < positions.numel(); ++i) {
    const int64_t t = i % tokens;
    const bool goes_on = t > 0 && position[i] == position[i - 1] + 1;
    key[i] = goes_on ? key[i - 1] : static_cast<int32_t>(t);
  }
  return first;
}

}  // namespace

Tensor first_keys(const Tensor& positions_BT) {
  static const auto op = find_operator<Tensor(const Tensor&)>("titan::first_keys");
  return op.call(positions_BT);
}

Tensor attention(const Tensor& q_BTNH, const Tensor& k_BSKH, const Tensor& v_BSKH, const Tensor& first_key_BT,
                 double scale) {
  static const auto op = find_operator<AttentionForward>("titan::attention");
  return std::get<0>(op.call(q_BTNH, k_BSKH, v_BSKH, first_key_BT, scale));
}

}  // namespace titan

TORCH_LIBRARY_FRAGMENT(titan, m) {
  m.def("first_keys(Tensor positions) -> Tensor");
  m.def("attention(Tensor q, Tensor k, Tensor v, Tensor first_key, float scale) -> (Tensor, Tensor)");
  m.def(
      "attention_backward(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor first_key, Tensor out, Tensor "
      "logsumexp, "
      "float scale, bool[3] needs) -> (Tensor, Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(titan, CPU, m) {
  m.impl("first_keys", titan::first_keys_cpu);
  m.impl("attention", titan::attention_cpu);
  m.impl("attention_backward", titan::attention_backward_cpu);
}
TORCH_LIBRARY_IMPL(titan, Meta, m) {
  m.impl("first_keys", titan::first_keys_shape);
  m.impl("attention", titan::attention_shape);
  m.impl("attention_backward", titan::attention_backward_shape);
}
TORCH_LIBRARY_IMPL(titan, Autograd, m) { m.impl("attention", titan::attention_autograd); }
