#include "titan/train/kernel_check_sets.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include "titan/base/strings.h"

namespace titan {

using at::Tensor;

namespace {

/// Position 0 again at one place or two of each row, at others in each.
Tensor document_positions(int64_t batch, int64_t seq_len) {
  Tensor positions = at::empty({batch, seq_len}, at::kLong);
  auto* data = positions.mutable_data_ptr<int64_t>();
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t first = seq_len * (b + 1) / (batch + 2), second = seq_len * (b + 4) / (batch + 4);
    for (int64_t t = 0, position = 0; t < seq_len; ++t) {
      position = t == first || t == second ? 0 : position + (t > 0 ? 1 : 0);
      *data++ = position;
    }
  }
  return positions;
}

/// The first id and the last are always among them.
Tensor drawn_ids(int64_t num_ids, at::IntArrayRef shape, const at::Generator& generator) {
  Tensor ids = at::randint(0, num_ids, shape, generator, at::TensorOptions(at::kLong));
  auto* data = ids.mutable_data_ptr<int64_t>();
  data[0] = num_ids - 1;
  if (ids.numel() > 1) data[1] = 0;
  return ids;
}

}  // namespace

std::string CheckSet::text(const CheckKind& kind) const {
  return format("{} batch {}{}{}", dtype == at::kFloat ? "fp32" : "bf16", batch, scale == 1 ? "" : " small",
                !kind.context     ? ""
                : has_drawn_cache ? " drawn cache"
                : has_documents   ? " documents"
                                  : " plain");
}

std::vector<Tensor> draw(const CheckKind& kind, const CheckSet& set) {
  auto generator = at::detail::createCPUGenerator(set.seed);
  std::vector<Tensor> tensors;
  for (const CheckInput& input : kind.inputs) {
    std::vector<int64_t> shape = {set.batch, set.seq_len};
    shape.insert(shape.end(), input.dims.begin(), input.dims.end());
    if (input.num_ids > 0) {
      tensors.push_back(drawn_ids(input.num_ids, shape, generator));
    } else {
      tensors.push_back((at::randn(shape, generator).mul_(set.scale)).to(set.dtype));
    }
  }
  return tensors;
}

LayerContext context_for(const CheckKind& kind, const CheckSet& set, const Module& module,
                         at::Device device) {
  if (!kind.context) return {};
  const Tensor positions_BT = set.has_documents
                                  ? document_positions(set.batch, set.seq_len)
                                  : at::arange(set.seq_len, at::kLong).expand({set.batch, -1}).contiguous();
  LayerContext context = kind.context(module, positions_BT.to(device));
  if (set.has_drawn_cache) {
    const auto generator = at::detail::createCPUGenerator(kCheckSeed + 3);
    context.rope_cache = at::randn(context.rope_cache.sizes(), generator).to(device);
  }
  return context;
}

}  // namespace titan
