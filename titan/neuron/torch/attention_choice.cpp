#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice.h>

#include "titan/neuron/torch/views.h"

namespace titan::neuron {
namespace {

std::optional<at::Tensor> cpu_view_of(const std::optional<at::Tensor>& mask) {
  return mask && mask->defined() && mask->is_privateuseone() ? std::optional(cpu_view(*mask)) : mask;
}

/// scaled_dot_product_attention takes the kernel that it would take on the CPU.
int64_t same_choice_as_cpu(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                           const std::optional<at::Tensor>& mask, double dropout, bool is_causal,
                           std::optional<double> scale, bool enable_gqa) {
  return at::_fused_sdp_choice(cpu_view(query), cpu_view(key), cpu_view(value), cpu_view_of(mask), dropout,
                               is_causal, scale, enable_gqa);
}

}  // namespace
}  // namespace titan::neuron

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &titan::neuron::same_choice_as_cpu)
}
