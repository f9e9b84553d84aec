#include "titan/ops/tensor_axis.h"

#include <utility>

#include "titan/base/error.h"
#include "titan/ops/autograd.h"

namespace titan {

at::Tensor gather_columns(const at::Tensor& x, int64_t columns, const TensorAxis& axis) {
  if (axis.size == 1) return x;
  const int64_t mine = x.size(-1), step = (columns + axis.size - 1) / axis.size;
  check(mine <= step, "a rank holds its chunk of the columns");
  Backward backward{.name = "titan::gather_columns", .inputs = {x}};
  backward.fn = [mine, first = axis.index * step](const GradientCall& call) -> std::vector<at::Tensor> {
    return {call.grad_outputs[0].narrow(-1, first, mine)};
  };
  return differentiable(std::move(backward), [&] {
    auto sizes = x.sizes().vec();
    sizes.back() = columns;
    const at::Tensor part = x.reshape({-1, mine}).t().contiguous();
    return axis.gather(part, columns).t().reshape(sizes);
  });
}

}  // namespace titan
