// Rotates queries and keys with nkilib's rope_hf in place of titan's own code:
//
//   titan train --module qwen3 --config qwen3_demo --override.imports my_neuron_kernels
//
// It shows how a kernel becomes an operator with a gradient, and how the operator takes the place of a part
// of the model. It is not faster.
#include <titan/kernels.h>

using namespace titan;
using at::Tensor;

/// Physical NeuronCores that a kernel runs on.
const int64_t LNC = std::stoi(get_logical_neuron_cores());
const auto wrapped_rope = wrap_nki(nkilib::rope_hf);

// torchtitan's layout is [batch, seq, heads, head_dim], the kernel's [batch, heads, seq, head_dim]. The cache
// keeps its batch dimension: positions restart with each document, so that rows of a batch differ.

const auto rope_fwd = nki_op(
    "my_kernels::rope_fwd",
    [](const Tensor& query, const Tensor& key, const Tensor& rope_cache) {
      const Tensor q = query.permute({0, 2, 1, 3}).contiguous();
      const Tensor k = key.permute({0, 2, 1, 3}).contiguous();
      const Tensor cache = rope_cache.contiguous();
      const auto [q_out, k_out] =
          wrapped_rope[LNC](q, k, at::empty_like(q), at::empty_like(k), {.rope_cache = cache});
      return std::tuple(q_out.permute({0, 2, 1, 3}).contiguous(), k_out.permute({0, 2, 1, 3}).contiguous());
    },
    {.arguments = {"query", "key", "rope_cache"}});

const auto rope_bwd = nki_op(
    "my_kernels::rope_bwd",
    [](const Tensor& grad_query, const Tensor& grad_key, const Tensor& rope_cache) {
      const Tensor gq = grad_query.permute({0, 2, 1, 3}).contiguous();
      const Tensor gk = grad_key.permute({0, 2, 1, 3}).contiguous();
      const Tensor cache = rope_cache.contiguous();
      const auto [out_q, out_k] = wrapped_rope[LNC](gq, gk, at::empty_like(gq), at::empty_like(gk),
                                                    {.rope_cache = cache, .backward = true});
      return std::tuple(out_q.permute({0, 2, 1, 3}).contiguous(), out_k.permute({0, 2, 1, 3}).contiguous());
    },
    {.arguments = {"grad_query", "grad_key", "rope_cache"}});

static void setup_context(OpContext& ctx, OpValues inputs, OpValues) { ctx.save_for_backward(inputs[2]); }

/// The cache has no gradient.
static std::tuple<Tensor, Tensor, Tensor> rope_backward(OpContext& ctx, const Tensor& grad_query,
                                                        const Tensor& grad_key) {
  const Tensor rope_cache = ctx.saved_tensors()[0];
  const auto [grad_q, grad_k] = rope_bwd(grad_query, grad_key, rope_cache);
  return {grad_q, grad_k, Tensor()};
}

const auto rope = rope_fwd.register_autograd(rope_backward, setup_context);

/// The kernel's contract, met here with the numbers of the run.
static void check_sequence_length(int64_t length) {
  const int64_t stride = 128 * LNC;
  if (length % stride == 0) return;
  throw ValueError("rope_hf requires a sequence length that is a multiple of 128 * LNC={}, got {}", stride,
                   length);
}

class NKIRoPE : public CosSinRoPE {
 public:
  struct Config : CosSinRoPEConfig {
    void describe(Fields& f) { f.base<CosSinRoPEConfig>(*this); }
    /// Before anything is built.
    void validate(const TrainerConfig& config) const { check_sequence_length(config.training.seq_len); }
  };
  explicit NKIRoPE(const Config& config) : CosSinRoPE(config) {}

  std::pair<Tensor, Tensor> apply_rotary_emb(const Tensor& query, const Tensor& key,
                                             const Tensor& rope_cache) const override {
    check_sequence_length(query.size(1));
    const auto [q_out, k_out] = rope_fwd(query, key, rope_cache);
    return {q_out.to(query.scalar_type()), k_out.to(key.scalar_type())};
  }
};

template <>
ModulePtr titan::build(const NKIRoPE::Config& config) {
  return std::make_shared<NKIRoPE>(config);
}

Override nki_rope() {
  return override<CosSinRoPEConfig>(
      {.exact = true, .description = "nkilib rope_hf kernel in place of the PyTorch rotation"},
      [](const CosSinRoPEConfig& config) { return derive<NKIRoPE::Config>(config); });
}
