#include "apps/titan/torch_commands/kernel_results.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/zeros.h>

#include <cstdio>
#include <string>

#include "titan/base/log.h"
#include "titan/base/sha256.h"
#include "titan/base/strings.h"
#include "titan/nki/memory.h"
#include "titan/ops/wrap_nki.h"

namespace titan {
namespace {

using at::Tensor;

std::string checksum(const Tensor& tensor) {
  const Tensor whole = tensor.to(at::kCPU).contiguous();
  return sha256({static_cast<const char*>(whole.const_data_ptr()), whole.nbytes()}).substr(0, 16);
}

/// True where no instruction has written an element of a tensor that lies in `memory`.
Tensor unwritten_places(const Tensor& tensor, const nki::Allocation& memory) {
  const Tensor places = at::zeros(tensor.sizes(), at::TensorOptions(at::kBool));
  const auto size = static_cast<int64_t>(tensor.itemsize());
  const int64_t begin = static_cast<const std::byte*>(tensor.const_data_ptr()) - memory.data;
  if (tensor.is_contiguous() && memory.written->covers(begin, tensor.numel() * size)) return places;
  auto* place = places.mutable_data_ptr<bool>();
  std::vector<int64_t> index(static_cast<size_t>(tensor.dim()), 0);
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    int64_t offset = 0;
    for (size_t d = 0; d < index.size(); ++d) offset += index[d] * tensor.stride(static_cast<int64_t>(d));
    place[i] = !memory.written->covers(begin + offset * size, size);
    for (size_t d = index.size(); d-- > 0 && ++index[d] == tensor.size(static_cast<int64_t>(d));)
      index[d] = 0;
  }
  return places;
}

/// "4 of 8 elements were never written, the first at [1, 0]", or "".
std::string unwritten_text(const Tensor& tensor) {
  const auto memory = kernel_memory(tensor);
  const bool is_known = memory != nullptr && memory->written != nullptr;
  if (!is_known && !tensor.is_floating_point()) return "";
  const Tensor places = (is_known ? unwritten_places(tensor, *memory) : tensor.isnan()).nonzero();
  if (places.size(0) == 0) return "";
  const Tensor first = places.select(0, 0).contiguous();
  const at::IntArrayRef index(first.const_data_ptr<int64_t>(), static_cast<size_t>(first.numel()));
  return format("{} of {} elements {}, the first at {}", places.size(0), tensor.numel(),
                is_known ? "were never written" : "are NaN, or were never written", index);
}

}  // namespace

void print_results(const std::vector<KernelResult>& results) {
  for (const auto& [name, tensor, text] : results) {
    if (!text.empty()) {
      std::printf("%s %s\n", name.c_str(), text.c_str());
      continue;
    }
    const double sum = tensor.to(at::kDouble).sum().item<double>();
    const std::string unwritten = unwritten_text(tensor);
    std::printf("%s %s %s, sum %.9g, sha256 %s%s%s\n", name.c_str(), c10::str(tensor.sizes()).c_str(),
                c10::toString(tensor.scalar_type()), sum, checksum(tensor).c_str(),
                unwritten.empty() ? "" : ", ", unwritten.c_str());
    if (!unwritten.empty()) log_warning("{}: {}", name, unwritten);
  }
}

}  // namespace titan
