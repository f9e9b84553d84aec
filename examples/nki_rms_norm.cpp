// Normalises with nkilib's rmsnorm in place of titan's own code, in every norm of the model:
//
//   titan train --module qwen3 --config qwen3_demo --override.imports nki_rms_norm
//
// What the kernel demands of its shapes is said before training: titan runs the model on shapes alone first.
#include <titan/kernels.h>
#include <titan/nkilib/rmsnorm/rmsnorm.h>

using namespace titan;
using at::Tensor;

/// Physical NeuronCores that a kernel runs on.
const int64_t LNC = std::stoi(get_logical_neuron_cores());
const auto wrapped_norm = wrap_nki(nkilib::rmsnorm);
const auto wrapped_norm_backward = wrap_nki(nkilib::rmsnorm_backward);

/// The kernel's layout is [rows, features], of whatever the model normalises.
static Tensor rows_of(const Tensor& x) { return x.contiguous().view({-1, x.size(-1)}); }

// The kernel also returns what the backward needs of each row. It is a result of the operator, so that it is
// kept and not computed again; nobody else looks at it.

const auto norm_fwd = nki_op("my_kernels::rms_norm_fwd",
                             [](const Tensor& x, const Tensor& weight, double eps) {
                               const auto [y, rstd] =
                                   wrapped_norm[LNC](rows_of(x), weight.contiguous(), {.eps = eps});
                               return std::tuple(y.view(x.sizes()), rstd);
                             },
                             {.arguments = {"x", "weight", "eps"}});

const auto norm_bwd =
    nki_op("my_kernels::rms_norm_bwd",
           [](const Tensor& grad_y, const Tensor& x, const Tensor& weight, const Tensor& rstd) {
             const auto [grad_x, grad_weight] =
                 wrapped_norm_backward[LNC](rows_of(grad_y), rows_of(x), weight.contiguous(), rstd);
             return std::tuple(grad_x.view(x.sizes()), grad_weight);
           },
           {.arguments = {"grad_y", "x", "weight", "rstd"}});

static void setup_context(OpContext& ctx, OpValues inputs, OpValues outputs) {
  ctx.save_for_backward(inputs[0], inputs[1], outputs[1]);
}

/// eps has no gradient.
static std::tuple<Tensor, Tensor, Tensor> norm_backward(OpContext& ctx, const Tensor& grad_y, const Tensor&) {
  const auto& saved = ctx.saved_tensors();
  const auto [grad_x, grad_weight] = norm_bwd(grad_y, saved[0], saved[1], saved[2]);
  return {grad_x, grad_weight, Tensor()};
}

const auto norm = norm_fwd.register_autograd(norm_backward, setup_context);

class NKIRMSNorm : public RMSNorm {
 public:
  struct Config : RMSNormConfig {
    void describe(Fields& f) { f.base<RMSNormConfig>(*this); }
  };
  explicit NKIRMSNorm(const Config& config) : RMSNorm(config), eps_(config.eps) {}

  Tensor forward(const Tensor& x) const override { return std::get<0>(norm(x, weight.value, eps_)); }

 private:
  double eps_;
};

template <>
ModulePtr titan::build(const NKIRMSNorm::Config& config) {
  return std::make_shared<NKIRMSNorm>(config);
}

Override nki_rms_norm() {
  return override<RMSNormConfig>(
      {.exact = true, .description = "nkilib rmsnorm kernel in place of titan's norm"},
      [](const RMSNormConfig& config) { return derive<NKIRMSNorm::Config>(config); });
}
