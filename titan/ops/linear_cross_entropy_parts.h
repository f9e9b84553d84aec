#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <string>

#include "titan/ops/autograd.h"

// What the loss on a whole vocabulary and the one on a cut vocabulary share. C rows of a chunk, V vocabulary.
namespace titan {

/// ValueError for shapes, dtypes and a normalizer that do not fit.
void check_linear_cross_entropy(const at::Tensor& x, const at::Tensor& weight_VD, const at::Tensor& labels,
                                double normalizer, int64_t chunk);

/// ValueError for a label that is neither kIgnoreLabel nor in [0, vocabulary).
void check_labels(const at::Tensor& labels, int64_t vocabulary);

/// Rows of a chunk: those asked for, else as many as fill 8 MiB with logits.
int64_t loss_chunk_rows(int64_t asked, int64_t rows, int64_t vocabulary);

/// dweight [V, D] float32 += logitsᵀ · x. A bfloat16 product cannot be added in place, so it is made in
/// slices.
void add_weight_gradient(const at::Tensor& dweight, const at::Tensor& logits_CV, const at::Tensor& x_CD);

/// Which of x and the weight want a gradient of the loss.
std::array<bool, 2> loss_gradients_needed(const at::Tensor& x, const at::Tensor& weight_VD);

/// The backward of (loss, dx, dweight), whose gradients the forward has made: it only scales them.
Backward loss_backward(std::string name, const at::Tensor& x, const at::Tensor& weight_VD);

}  // namespace titan
