#include "titan/neuron/rt/cost_classes.h"

#include <span>
#include <string>
#include <unordered_map>

#include "titan/base/error.h"
#include "titan/base/strings.h"

namespace titan::neuron {

namespace {

struct OperatorGroup {
  OperatorEntry entry;
  std::string_view names;  // plain ones, with one space between them; aten's without "aten::"
};

std::span<const OperatorGroup> operator_groups() {
  using enum OperatorClass;
  static constexpr OperatorGroup kGroups[] = {
      {{matmul},
       "mm bmm matmul linear addmm baddbmm addbmm addmv mv dot vdot inner _addmm_activation _grouped_mm "
       "_scaled_mm _scaled_grouped_mm titan::linear titan::linear_backward"},
      {{attention},
       "scaled_dot_product_attention _scaled_dot_product_attention_math "
       "_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention_for_cpu_backward "
       "_scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_backward "
       "_scaled_dot_product_efficient_attention _scaled_dot_product_fused_attention_overrideable "
       "_scaled_dot_product_fused_attention_overrideable_backward titan::attention "
       "titan::attention_backward"},
      {{loss}, "titan::linear_cross_entropy"},
      {{elementwise},
       "add sub rsub mul div floor_divide remainder fmod neg abs sign clamp clamp_min clamp_max maximum "
       "minimum addcmul addcdiv lerp where masked_fill eq ne lt le gt ge isfinite isinf isnan isposinf "
       "isneginf logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor "
       "bitwise_not bitwise_left_shift bitwise_right_shift __and__ __or__ __xor__ __lshift__ __rshift__ "
       "round floor ceil trunc relu leaky_relu threshold threshold_backward hardtanh hardtanh_backward "
       "tanh_backward sigmoid_backward _softmax_backward_data dropout native_dropout "
       "native_dropout_backward tril triu nan_to_num square real imag conj_physical _conj_physical "
       "view_as_complex_copy titan::rope titan::row_gradients_ titan::first_keys"},
      {{transcendental},
       "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin acos atan atan2 sinh "
       "cosh tanh erf erfc erfinv pow float_power sigmoid log_sigmoid log_sigmoid_forward "
       "log_sigmoid_backward silu silu_backward gelu gelu_backward mish softplus softplus_backward elu "
       "softmax _softmax log_softmax _log_softmax _log_softmax_backward_data logsumexp logaddexp "
       "cross_entropy_loss polar angle titan::swiglu titan::swiglu_backward titan::rope_cache "
       "titan::row_stats_"},
      {{normalisation},
       "rms_norm _fused_rms_norm _fused_rms_norm_backward layer_norm native_layer_norm "
       "native_layer_norm_backward group_norm native_group_norm native_group_norm_backward "
       "native_batch_norm native_batch_norm_backward titan::rms_norm titan::add_rms_norm "
       "titan::rms_norm_backward"},
      {{reduction},
       "sum nansum mean prod max min amax amin aminmax argmax argmin all any norm linalg_vector_norm std "
       "var std_mean var_mean median topk sort argsort msort kthvalue mode cumsum cumprod cummax cummin "
       "logcumsumexp trace count_nonzero nonzero unique_consecutive _unique2 unique_dim bincount histc "
       "equal allclose _local_scalar_dense is_nonzero titan::squared_norm"},
      {{gather, Traffic::picked},
       "embedding index _unsafe_index index_select gather take masked_select take_along_dim "
       "titan::embedding nll_loss_forward"},
      {{gather, Traffic::scattered},
       "index_put _index_put_impl _unsafe_index_put index_add index_copy index_fill scatter scatter_add "
       "scatter_reduce put"},
      {{gather}, "masked_scatter embedding_dense_backward embedding_backward titan::embedding_backward"},
      {{gather, Traffic::written}, "nll_loss_backward searchsorted bucketize"},
      {{copy, Traffic::other_inputs}, "copy"},
      {{copy, Traffic::first_input},
       "_copy_from _copy_from_and_resize slice_scatter select_scatter diagonal_scatter "
       "as_strided_scatter"},
      {{copy, Traffic::written},
       "fill zero zeros zeros_like ones ones_like full full_like new_zeros new_ones new_full arange "
       "linspace logspace eye scalar_tensor normal uniform random bernoulli exponential rand randn "
       "randint randperm rand_like randn_like randint_like"},
      {{copy, Traffic::picked},
       "slice_copy select_copy split_copy as_strided_copy unfold_copy narrow_copy diag"},
      {{copy},
       "clone contiguous cat stack _to_copy to repeat repeat_interleave tile flip roll rot90 "
       "constant_pad_nd pad slice_backward select_backward diagonal_backward view_copy expand_copy "
       "permute_copy transpose_copy complex diag_embed tril_indices triu_indices"},
      {{optimizer}, "titan::adamw_"},
  };
  return kGroups;
}

std::unordered_map<std::string, OperatorEntry> table_of_operators() {
  std::unordered_map<std::string, OperatorEntry> table;
  for (const OperatorGroup& group : operator_groups()) {
    for (const std::string& name : split(group.names, ' ')) {
      const std::string full = name.find("::") == std::string::npos ? "aten::" + name : name;
      const bool added = table.emplace(plain_name(full), group.entry).second;
      check(added, format("{} has one class", full));
    }
  }
  return table;
}

}  // namespace

std::string_view plain_name(std::string_view name) {
  name = name.substr(0, name.find('.'));
  if (name.ends_with('_')) name.remove_suffix(1);
  return name;
}

const OperatorEntry* find_operator_entry(std::string_view name) {
  static const auto table = table_of_operators();
  const auto found = table.find(std::string(plain_name(name)));
  return found == table.end() ? nullptr : &found->second;
}

OperatorClass class_of(std::string_view name) {
  const OperatorEntry* entry = find_operator_entry(name);
  return entry != nullptr ? entry->operator_class : OperatorClass::elementwise;
}

ClassPasses passes_of(OperatorClass operator_class) {
  using enum OperatorClass;
  switch (operator_class) {
    case elementwise:
    case reduction:
      return {.vector = 1};
    case transcendental:
      return {.scalar = 1};
    case normalisation:
      return {.vector = 2};
    case optimizer:
      // An instruction of VectorE does two operations of AdamW's arithmetic: two for each moment, one for the
      // quotient and one for the weight; ScalarE takes the square root.
      return {.vector = 6, .scalar = 1};
    case matmul:
    case attention:
    case loss:
    case gather:
    case copy:
      return {};
  }
  check(false, "the class is known");
  return {};
}

}  // namespace titan::neuron
