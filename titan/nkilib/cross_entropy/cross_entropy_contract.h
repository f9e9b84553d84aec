#pragma once

#include <cstdint>

#include "titan/nki.h"

/// What cross_entropy's passes take; ValueError with names and numbers otherwise.
namespace titan::nkilib {

/// Rows and columns that are in SBUF at once.
struct LossTiling {
  int64_t positions_per_batch, chunk_size;
};

/// float32 or bfloat16.
bool is_loss_dtype(nki::Dtype dtype);

/// Logits [P, V], contiguous; targets [P] int32; a tiling that fits them and SBUF.
void check_loss_contract(const nki::Tensor& logits, const nki::Tensor& targets, const LossTiling& tiling);

/// `vector` is [P].
void check_loss_vector(const char* name, const nki::Tensor& vector, const nki::Tensor& logits);

}  // namespace titan::nkilib
