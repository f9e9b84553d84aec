#pragma once

#include <tuple>

#include "titan/nki.h"

namespace titan::nkilib {

struct RmsNormOptions {
  double eps = 1e-6;
};

/// y = x * rstd * weight with rstd = rsqrt(mean(x^2) + eps) over each row: x [R, H], weight [H]. Gives y [R,
/// H] in x's dtype and rstd [R, 1] in float32, which the gradients need. Any R; H up to 16,384. Everything is
/// float32 until y is rounded. ValueError for shapes and dtypes that break the contract.
std::tuple<nki::Tensor, nki::Tensor> rmsnorm(nki::Tensor x, nki::Tensor weight, RmsNormOptions options = {});

/// Gradients of x [R, H], in its dtype, and of weight [H], in its dtype, summed over all rows in float32, for
/// dy [R, H] and the rstd [R, 1] of the forward pass.
std::tuple<nki::Tensor, nki::Tensor> rmsnorm_backward(nki::Tensor dy, nki::Tensor x, nki::Tensor weight,
                                                      nki::Tensor rstd);

}  // namespace titan::nkilib
