#pragma once

#include <cstdint>

#include "titan/base/cpu_isa.h"

// The inner loops of the CPU kernels, compiled once per instruction set and chosen at run time. All work on
// plain pointers, on a range of rows, on the calling thread.
//
// [Note: same bits everywhere] Every loop works on 16 virtual lanes, whatever the register width, sums lanes
// in one fixed tree, and runs the last, partial group of lanes through the same arithmetic as the full ones.
// So results depend neither on the instruction set (avx2, avx512) nor on how rows are shared among threads.
namespace titan {

/// How an array is stored; arithmetic is float32.
enum class Element : uint8_t { f32, bf16 };

/// An array of `element`s.
struct ConstArray {
  const void* data = nullptr;
  Element element = Element::f32;
};

/// A writable array of `element`s.
struct Array {
  void* data = nullptr;
  Element element = Element::f32;
};

/// y = x · rstd · weight over rows of `dim`, where x is first increased by `residual` and kept in `sum` if
/// those are set. rstd [rows] is written.
struct RmsNormArgs {
  ConstArray x, residual;
  Array sum, y;
  const float* weight = nullptr;
  float* rstd = nullptr;
  int64_t dim = 0;
  float eps = 0;
};

/// dx (if set) = rstd · (g · weight - x · rstd² · mean(g · weight · x)) [+ grad_sum], dweight [dim] (if set)
/// is increased by g · x · rstd.
struct RmsNormBackwardArgs {
  ConstArray x, grad, grad_sum;
  Array dx;
  const float* weight = nullptr;
  const float* rstd = nullptr;
  float* dweight = nullptr;
  int64_t dim = 0;
};

/// Rotates heads [H] of x, addressed by strides in elements; out is [rows = B · T, heads, H] contiguous.
/// cache rows are 2H floats; batch b starts at cache + b · cache_batch_stride.
struct RopeArgs {
  ConstArray x;
  Array out;
  const float* cache = nullptr;
  int64_t cache_batch_stride = 0;
  int64_t tokens = 0, heads = 0, head_dim = 0;
  int64_t stride_b = 0, stride_t = 0, stride_n = 0;
  bool backward = false;
};

/// out = silu(gate) · up; with `grad` set, dgate and dup (each if set) instead.
struct SwigluArgs {
  ConstArray gate, up, grad;
  Array out, dgate, dup;
};

/// AdamW over arrays of one parameter, with everything that depends on the step worked out by the caller.
struct AdamWArgs {
  Array param, exp_avg, exp_avg_sq;
  ConstArray grad;
  /// decay = 1 - lr · weight_decay, rest = 1 - beta, step_size = lr / (1 - beta1^step).
  float grad_scale = 1, decay = 1, rest1 = 1, beta2 = 0, rest2 = 1, step_size = 0, bias_correction2_sqrt = 1,
        eps = 0;
};

/// Rows of logits [vocab]; where `with_grad`, each row becomes (softmax - onehot(label)) · scale, zero for
/// ignored labels. loss [rows] gets the unscaled cross-entropy.
struct CrossEntropyArgs {
  Array logits;
  const int64_t* labels = nullptr;
  float* loss = nullptr;
  int64_t vocab = 0;
  float scale = 1;
  bool with_grad = false;
};

/// Strides in elements of a [B, rows, heads, H] tensor whose last dimension is contiguous.
struct HeadStrides {
  int64_t b = 0, t = 0, n = 0;
};

/// Attention of one problem; see attention.cpp for the plan. All heads' keys and values are packed first.
struct AttentionArgs {
  ConstArray q, k, v, out, grad_out;
  HeadStrides q_strides, k_strides, v_strides, out_strides, grad_strides;
  const int32_t* first_key = nullptr;
  int64_t first_key_batch_stride = 0;
  int64_t queries = 0, keys = 0, heads = 0, kv_heads = 0, head_dim = 0;
  float scale = 1;
  int64_t block = 0;        // queries per block
  int64_t keys_padded = 0;  // keys rounded up to 16
  int64_t dim_padded = 0;   // head_dim rounded up to 16
  float* packed = nullptr;  // per (b, kv head): kT [dim_padded, keys_padded], then rows, see pack_floats
  bool backward = false;
  Array result;                // forward: out; [B, T, N, H] contiguous
  float* logsumexp = nullptr;  // [B, N, T]
  Array dq, dk, dv;            // contiguous; data may be null
};

/// One table per instruction set. Ranges are of rows, elements or tasks, as the argument's name says.
struct Kernels {
  void (*convert)(ConstArray from, Array to, int64_t elements);
  void (*accumulate)(float* sum, ConstArray from, int64_t elements);
  double (*sum_of_squares)(ConstArray from, int64_t elements);
  void (*rms_norm)(const RmsNormArgs& args, int64_t row_begin, int64_t row_end);
  void (*rms_norm_backward)(const RmsNormBackwardArgs& args, int64_t row_begin, int64_t row_end);
  void (*rope)(const RopeArgs& args, int64_t row_begin, int64_t row_end);
  void (*swiglu)(const SwigluArgs& args, int64_t begin, int64_t end);
  void (*swiglu_backward)(const SwigluArgs& args, int64_t begin, int64_t end);
  void (*adamw)(const AdamWArgs& args, int64_t begin, int64_t end);
  void (*cross_entropy)(const CrossEntropyArgs& args, int64_t row_begin, int64_t row_end);
  void (*attention_pack)(const AttentionArgs& args, int64_t kv_task_begin, int64_t kv_task_end);
  void (*attention_forward)(const AttentionArgs& args, int64_t block_task_begin, int64_t block_task_end,
                            float* scratch);
  void (*attention_in_place)(const AttentionArgs& args, int64_t query_task_begin, int64_t query_task_end,
                             float* scratch);
  void (*attention_backward)(const AttentionArgs& args, int64_t kv_task_begin, int64_t kv_task_end,
                             float* scratch);
};

/// The table for cpu_isa().
const Kernels& kernels();

/// The table of one instruction set, which this machine must have.
const Kernels& kernels_for(Isa isa);

}  // namespace titan
