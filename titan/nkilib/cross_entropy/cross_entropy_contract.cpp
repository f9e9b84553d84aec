#include "titan/nkilib/cross_entropy/cross_entropy_contract.h"

#include <algorithm>

#include "titan/base/error.h"

namespace titan::nkilib {
namespace {

using nki::shape_text;
using nki::Tensor;

/// What a chunk may take of a partition: the rest of 192 KiB is for a window and numbers of rows. All
/// partitions' chunks are below 24 MiB then.
constexpr int64_t kLossChunkBytes = 160 * 1024;

void check_loss_tiling(const Tensor& logits, const LossTiling& tiling) {
  const int64_t vocabulary = logits.size(1), item = nki::itemsize(logits.dtype());
  if (tiling.positions_per_batch < 1 || tiling.positions_per_batch > nki::language::tile_size.pmax) {
    throw ValueError("cross_entropy: positions_per_batch has to be 1 to {}, got {}",
                     nki::language::tile_size.pmax, tiling.positions_per_batch);
  }
  if (tiling.chunk_size < 1 || tiling.chunk_size > vocabulary) {
    throw ValueError("cross_entropy: chunk_size has to be 1 to the vocabulary's {}, got {}", vocabulary,
                     tiling.chunk_size);
  }
  const int64_t most = std::min(int64_t{UINT16_MAX}, kLossChunkBytes / item);
  if (tiling.chunk_size > most) {
    throw ValueError("cross_entropy: chunk_size has to be at most {} for {}, got {}", most,
                     nki::dtype_name(logits.dtype()), tiling.chunk_size);
  }
}

}  // namespace

bool is_loss_dtype(nki::Dtype dtype) { return dtype == nki::Dtype::float32 || dtype == nki::Dtype::bfloat16; }

void check_loss_vector(const char* name, const Tensor& vector, const Tensor& logits) {
  if (vector.ndim() != 1 || vector.size(0) != logits.size(0)) {
    throw ValueError("cross_entropy: {} has to be [{}], a number for each row of logits {}, got {}", name,
                     logits.size(0), shape_text(logits.shape()), shape_text(vector.shape()));
  }
}

void check_loss_contract(const Tensor& logits, const Tensor& targets, const LossTiling& tiling) {
  if (logits.ndim() != 2) {
    throw ValueError("cross_entropy: logits have to be [positions, vocabulary], got {}",
                     shape_text(logits.shape()));
  }
  if (!is_loss_dtype(logits.dtype())) {
    throw ValueError("cross_entropy: logits have to be float32 or bfloat16, got {}",
                     nki::dtype_name(logits.dtype()));
  }
  if (!logits.is_contiguous()) {
    throw ValueError(
        "cross_entropy: logits {} are a view with gaps or in another order; give them contiguous",
        shape_text(logits.shape()));
  }
  check_loss_vector("targets", targets, logits);
  if (targets.dtype() != nki::Dtype::int32) {
    throw ValueError("cross_entropy: targets have to be int32, got {}", nki::dtype_name(targets.dtype()));
  }
  // float32 tells all columns apart.
  constexpr int64_t kMostColumns = int64_t{1} << 24;
  if (logits.size(1) > kMostColumns) {
    throw ValueError("cross_entropy: the vocabulary has to be at most {}, got {}", kMostColumns,
                     logits.size(1));
  }
  check_loss_tiling(logits, tiling);
}

}  // namespace titan::nkilib
