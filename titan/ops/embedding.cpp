#include "titan/ops/embedding.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <cstring>
#include <vector>

#include "titan/base/error.h"
#include "titan/ops/autograd.h"
#include "titan/ops/operator.h"
#include "titan/ops/tensor_array.h"

namespace titan {

namespace {

using at::Tensor;

Tensor embedding_shape(const Tensor& weight_VD, const Tensor& ids, at::ScalarType dtype, int64_t first_row,
                       int64_t vocabulary) {
  element_of(weight_VD, "embedding: weight");
  if (weight_VD.dim() != 2)
    throw ValueError("embedding: the weight is {}; it must be [V, D]", weight_VD.sizes());
  if (ids.scalar_type() != at::kLong && ids.scalar_type() != at::kInt) {
    throw ValueError("embedding: ids are {}; they must be int64 or int32", c10::toString(ids.scalar_type()));
  }
  if (first_row < 0 || first_row + weight_VD.size(0) > vocabulary) {
    throw ValueError("embedding: the weight holds {} rows from row {} on, but the vocabulary has {} entries",
                     weight_VD.size(0), first_row, vocabulary);
  }
  auto sizes = ids.sizes().vec();
  sizes.push_back(weight_VD.size(1));
  auto out = at::empty(sizes, weight_VD.options().dtype(dtype));
  element_of(out, "embedding: the result");
  return out;
}

/// ids as int64, each checked to lie in [0, vocab).
Tensor checked_ids(const Tensor& ids, int64_t vocab) {
  auto checked = ids.to(at::kLong).contiguous();
  const int64_t* id = checked.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < checked.numel(); ++i) {
    if (id[i] < 0 || id[i] >= vocab) {
      throw ValueError("embedding: token {} has id {}, but the vocabulary has {} entries", i, id[i], vocab);
    }
  }
  return checked;
}

Tensor embedding_cpu(const Tensor& weight_VD, const Tensor& ids, at::ScalarType dtype, int64_t first_row,
                     int64_t vocabulary) {
  auto out = embedding_shape(weight_VD, ids, dtype, first_row, vocabulary);
  const auto checked = checked_ids(ids, vocabulary);
  const auto weight = weight_VD.contiguous();
  const int64_t rows = weight.size(0), dim = weight.size(1), weight_size = weight.element_size(),
                out_size = out.element_size();
  const ConstArray from = const_array(weight);
  const Array to = array(out);
  const int64_t* id = checked.const_data_ptr<int64_t>();
  parallel_rows(checked.numel(), dim, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = id[i] - first_row;
      char* vector = static_cast<char*>(to.data) + i * dim * out_size;
      if (row < 0 || row >= rows) {
        std::memset(vector, 0, static_cast<size_t>(dim * out_size));
        continue;
      }
      kernels().convert({static_cast<const char*>(from.data) + row * dim * weight_size, from.element},
                        {vector, to.element}, dim);
    }
  });
  return out;
}

Tensor embedding_backward_shape(const Tensor& grad, const Tensor&, int64_t rows, int64_t, int64_t,
                                at::ScalarType dtype) {
  return at::empty({rows, grad.size(-1)}, grad.options().dtype(dtype));
}

Tensor embedding_backward_cpu(const Tensor& grad, const Tensor& ids, int64_t rows, int64_t first_row,
                              int64_t vocabulary, at::ScalarType dtype) {
  const auto checked = checked_ids(ids, vocabulary);
  const int64_t* id = checked.const_data_ptr<int64_t>();
  const int64_t tokens = checked.numel(), dim = grad.size(-1);
  const auto held = [&](int64_t i) { return id[i] >= first_row && id[i] < first_row + rows; };
  // Tokens by id, in token order, so that each row is summed by one thread in one order.
  std::vector<int64_t> start(static_cast<size_t>(rows) + 1), order(static_cast<size_t>(tokens));
  for (int64_t i = 0; i < tokens; ++i) {
    if (held(i)) ++start[static_cast<size_t>(id[i] - first_row) + 1];
  }
  for (size_t v = 0; v < static_cast<size_t>(rows); ++v) start[v + 1] += start[v];
  auto next = start;
  for (int64_t i = 0; i < tokens; ++i) {
    if (held(i)) order[static_cast<size_t>(next[static_cast<size_t>(id[i] - first_row)]++)] = i;
  }

  const auto grad_rows = grad.contiguous();
  const ConstArray from = const_array(grad_rows);
  const int64_t grad_size = grad_rows.element_size();
  auto sums = at::zeros({rows, dim}, grad.options().dtype(at::kFloat));
  float* sum = sums.mutable_data_ptr<float>();
  parallel_rows(rows, dim, [&](int64_t begin, int64_t end) {
    for (int64_t v = begin; v < end; ++v) {
      for (int64_t i = start[static_cast<size_t>(v)]; i < start[static_cast<size_t>(v) + 1]; ++i) {
        const int64_t token = order[static_cast<size_t>(i)];
        kernels().accumulate(sum + v * dim,
                             {static_cast<const char*>(from.data) + token * dim * grad_size, from.element},
                             dim);
      }
    }
  });
  return sums.to(dtype);
}

using EmbeddingForward = Tensor(const Tensor&, const Tensor&, at::ScalarType, int64_t, int64_t);
using EmbeddingBackward = Tensor(const Tensor&, const Tensor&, int64_t, int64_t, int64_t, at::ScalarType);

Tensor embedding_autograd(const Tensor& weight_VD, const Tensor& ids, at::ScalarType dtype, int64_t first_row,
                          int64_t vocabulary) {
  static const auto forward = find_operator<EmbeddingForward>("titan::embedding");
  static const auto gradient = find_operator<EmbeddingBackward>("titan::embedding_backward");
  Backward backward{.name = "titan::embedding", .inputs = {weight_VD}, .saved = {ids}};
  backward.fn = [rows = weight_VD.size(0), first_row, vocabulary,
                 weight_dtype = weight_VD.scalar_type()](const GradientCall& call) {
    return std::vector{call_kernel(gradient, call.grad_outputs[0], call.saved[0], rows, first_row, vocabulary,
                                   weight_dtype)};
  };
  return differentiable(std::move(backward),
                        [&] { return call_kernel(forward, weight_VD, ids, dtype, first_row, vocabulary); });
}

}  // namespace

Tensor embedding(const Tensor& weight_VD, const Tensor& ids_BT, at::ScalarType dtype, VocabularyRows rows) {
  static const auto op = find_operator<EmbeddingForward>("titan::embedding");
  const int64_t vocabulary = rows.vocabulary > 0 ? rows.vocabulary : weight_VD.size(0);
  return op.call(weight_VD, ids_BT, dtype, rows.first, vocabulary);
}

}  // namespace titan

TORCH_LIBRARY_FRAGMENT(titan, m) {
  m.def("embedding(Tensor weight, Tensor ids, ScalarType dtype, int first_row, int vocabulary) -> Tensor");
  m.def(
      "embedding_backward(Tensor grad, Tensor ids, int rows, int first_row, int vocabulary, ScalarType "
      "dtype) "
      "-> Tensor");
}
TORCH_LIBRARY_IMPL(titan, CPU, m) {
  m.impl("embedding", titan::embedding_cpu);
  m.impl("embedding_backward", titan::embedding_backward_cpu);
}
TORCH_LIBRARY_IMPL(titan, Meta, m) {
  m.impl("embedding", titan::embedding_shape);
  m.impl("embedding_backward", titan::embedding_backward_shape);
}
TORCH_LIBRARY_IMPL(titan, Autograd, m) { m.impl("embedding", titan::embedding_autograd); }
