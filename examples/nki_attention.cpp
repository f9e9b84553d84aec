// Attends with nkilib's attention in place of titan's own code:
//
//   titan train --module qwen3 --config qwen3_demo --override.imports nki_attention
//
// Query heads share key heads, documents of a row do not see each other, and under tensor parallelism the
// kernel is given the heads that this rank has. A kernel for the rotation (my_neuron_kernels.cpp) replaces
// what lies inside this node, so that the two exclude each other on one layer.
#include <titan/kernels.h>
#include <titan/models/common/attention.h>
#include <titan/nkilib/attention/attention.h>

using namespace titan;
using at::Tensor;

/// Physical NeuronCores that a kernel runs on.
const int64_t LNC = std::stoi(get_logical_neuron_cores());
const auto wrapped_forward = wrap_nki(nkilib::attention_forward);
const auto wrapped_backward = wrap_nki(nkilib::attention_backward);

// The kernel's layout is that of titan: [batch, seq, heads, head_dim]. first_key [batch, seq] is the first
// key that each query sees: the start of its document, or 0 everywhere with --attention.mask causal.

const auto attention_fwd =
    nki_op("my_kernels::attention_fwd",
           [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& first_key) {
             return wrapped_forward[LNC](q.contiguous(), k.contiguous(), v.contiguous(),
                                         {.first_key = first_key.contiguous()});
           },
           {.arguments = {"q", "k", "v", "first_key"}});

const auto attention_bwd =
    nki_op("my_kernels::attention_bwd",
           [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& first_key, const Tensor& out,
              const Tensor& lse, const Tensor& grad_out) {
             return wrapped_backward[LNC](q.contiguous(), k.contiguous(), v.contiguous(),
                                          {.out = out, .lse = lse, .dout = grad_out.contiguous()},
                                          {.first_key = first_key.contiguous()});
           },
           {.arguments = {"q", "k", "v", "first_key", "out", "lse", "grad_out"}});

// lse, a result of the operator that nobody else looks at, is kept for the backward beside the output.
static void setup_context(OpContext& ctx, OpValues inputs, OpValues outputs) {
  ctx.save_for_backward(inputs[0], inputs[1], inputs[2], inputs[3], outputs[0], outputs[1]);
}

/// The first keys have no gradient.
static std::tuple<Tensor, Tensor, Tensor, Tensor> attend_backward(OpContext& ctx, const Tensor& grad_out,
                                                                  const Tensor&) {
  const auto& saved = ctx.saved_tensors();
  const auto [grad_q, grad_k, grad_v] =
      attention_bwd(saved[0], saved[1], saved[2], saved[3], saved[4], saved[5], grad_out);
  return {grad_q, grad_k, grad_v, Tensor()};
}

const auto attend_op = attention_fwd.register_autograd(attend_backward, setup_context);

class NKIAttention : public Attention {
 public:
  struct Config : AttentionConfig {
    void describe(Fields& f) { f.base<AttentionConfig>(*this); }
  };
  explicit NKIAttention(const Config& config) : Attention(config) {}

  /// Generation, where few queries look at a cache of keys, stays with titan's own code.
  Tensor attend(const Heads& heads, const LayerContext& context, const CacheSlot* slot) const override {
    if (slot) return Attention::attend(heads, context, slot);
    const auto [out, lse] = attend_op(heads.q_BTNH, heads.k_BTKH, heads.v_BTKH, context.first_key_BT);
    return out.flatten(2);
  }
};

template <>
ModulePtr titan::build(const NKIAttention::Config& config) {
  return std::make_shared<NKIAttention>(config);
}

Override nki_attention() {
  return override<AttentionConfig>(
      {.exact = true, .description = "nkilib attention kernels in place of titan's operator"},
      [](const AttentionConfig& config) { return derive<NKIAttention::Config>(config); });
}
