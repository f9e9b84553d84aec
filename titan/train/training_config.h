#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "titan/config/fields.h"

namespace titan {

/// Number types of parameters and arithmetic.
enum class TrainingDtype { float32, bfloat16 };
template <>
inline constexpr auto names<TrainingDtype> = std::to_array<Named<TrainingDtype>>(
    {{"float32", TrainingDtype::float32}, {"bfloat16", TrainingDtype::bfloat16}});

/// Number type gradients are summed in; the reference offers one.
enum class ReduceDtype { float32 };
template <>
inline constexpr auto names<ReduceDtype> =
    std::to_array<Named<ReduceDtype>>({{"float32", ReduceDtype::float32}});

/// Batch sizes, length and number types of a run.
struct TrainingConfig {
  int64_t local_batch_size = 8;
  int64_t global_batch_size = -1;
  int64_t seq_len = 2048;
  double max_norm = 1.0;
  int64_t steps = 10000;
  bool enable_cpu_offload = false;
  TrainingDtype dtype = TrainingDtype::float32;
  TrainingDtype mixed_precision_param = TrainingDtype::bfloat16;
  ReduceDtype mixed_precision_reduce = ReduceDtype::float32;
  int64_t gc_freq = 50;
  bool gc_debug = false;
  bool disable_cuda_graphs = false;
  std::optional<int64_t> num_tokens_per_microbatch_per_dp_rank = {};
  std::optional<int64_t> num_tokens_per_train_step = {};
  std::optional<int64_t> max_context_length = {};

  void describe(Fields& f) {
    f("local_batch_size", local_batch_size, "Rows a data-parallel rank takes per forward pass");
    f("global_batch_size", global_batch_size,
      "Rows per optimizer step over all ranks; -1: local_batch_size times the data-parallel ranks");
    f("seq_len", seq_len, "Tokens per row");
    f("max_norm", max_norm, "Gradients are scaled down to this L2 norm");
    f("steps", steps, "Optimizer steps to run");
    f("enable_cpu_offload", enable_cpu_offload,
      "Keep parameters, gradients and optimizer state in host memory, where cpu has them anyway",
      Status::no_meaning);
    f("dtype", dtype, "Type of the master parameters: float32 or bfloat16 (then no fp32 copy exists)");
    f("mixed_precision_param", mixed_precision_param, "Type of the arithmetic: bfloat16 or float32");
    f("mixed_precision_reduce", mixed_precision_reduce, "Type gradients are summed in: float32",
      Status::no_meaning);
    f("gc_freq", gc_freq, "Python's garbage collection period", Status::no_meaning);
    f("gc_debug", gc_debug, "Python's garbage collection debugging", Status::no_meaning);
    f("disable_cuda_graphs", disable_cuda_graphs, "CUDA graph capture of the reference", Status::no_meaning);
    f("num_tokens_per_microbatch_per_dp_rank", num_tokens_per_microbatch_per_dp_rank,
      "Later versions' local_batch_size * seq_len; set those two", Status::refused);
    f("num_tokens_per_train_step", num_tokens_per_train_step,
      "Later versions' global_batch_size * seq_len; set those two", Status::refused);
    f("max_context_length", max_context_length, "Later versions' seq_len; set that", Status::refused);
  }

  void validate() const;
};

}  // namespace titan
