#pragma once

#include <cstdint>

#include "titan/models/common/model_config.h"

namespace titan {

/// ConfigError when rows of `seq_len` tokens of a (valid) model cannot be trained over `tp` ranks: heads, kv
/// heads or, with `sequence_parallel`, tokens that do not divide; a matrix with fewer rows than ranks; a
/// mixture of experts; a user's module in a place where it would have to know the ranks. Names the field and
/// what would fit.
void check_tensor_parallel(const ModelConfig& model, int64_t tp, bool sequence_parallel, int64_t seq_len);

}  // namespace titan
