#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace titan {

/// A function whose gradients are checked.
using GradcheckFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

struct GradcheckOptions {
  /// The step of the differences, for a number above 1 that part of it; 0: 1e-6 where all inputs are
  /// float64, otherwise 1e-2.
  double eps = 0;
  /// A gradient may differ by atol + rtol * |difference quotient|; 0: 1e-5 and 1e-3 in float64, otherwise
  /// 1e-2 and 1e-2.
  double atol = 0, rtol = 0;
  /// Of each input that many elements, 1 or more, spread evenly; each costs two calls of the function.
  int64_t max_elements = INT64_MAX;
  /// ValueError instead of a result with passed == false.
  bool raise_exception = true;
};

/// What was found: the element whose gradient is worst, measured against what it may differ by.
struct GradcheckResult {
  bool passed = true;
  int64_t input = -1;            ///< its number among the inputs
  std::vector<int64_t> element;  ///< its place there
  double analytical = 0;         ///< by the backward
  double numerical = 0;          ///< by the difference quotient
  double max_difference = 0;     ///< |analytical - numerical| of that element
  /// "input 1 at [0, 3]: the backward gives 2.5, differences give 3.5 (allowed difference 0.01)".
  std::string describe() const;
  double allowed = 0;
};

/// Compares the gradients of `fn` by its backward with difference quotients, for every element of every input
/// that requires a gradient (float64 or float32). The results are weighted by fixed random numbers, so that
/// one backward covers them all. Also checked: a second backward gives the same bits. ValueError for a
/// gradient that is wrong (but see raise_exception), for inputs of which none can be checked, results that
/// are missing or of which none has a gradient, and options out of their range.
GradcheckResult gradcheck(const GradcheckFunction& fn, const std::vector<at::Tensor>& inputs,
                          GradcheckOptions options = {});

/// The same for a function of one result.
GradcheckResult gradcheck(const std::function<at::Tensor(const std::vector<at::Tensor>&)>& fn,
                          const std::vector<at::Tensor>& inputs, GradcheckOptions options = {});

}  // namespace titan
