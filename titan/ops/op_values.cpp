#include "titan/ops/op_values.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace titan {

using at::Tensor;
using c10::IValue;

std::vector<Tensor> tensors_of(OpValues values) {
  std::vector<Tensor> tensors;
  for (const IValue& value : values) {
    if (value.isTensor()) tensors.push_back(value.toTensor());
    if (value.isTensorList()) std::ranges::copy(value.toTensorVector(), std::back_inserter(tensors));
  }
  return tensors;
}

std::vector<size_t> tensor_counts(OpValues values) {
  std::vector<size_t> counts;
  for (const IValue& value : values) {
    counts.push_back(value.isTensorList() ? value.toTensorVector().size() : value.isTensor() ? 1 : 0);
  }
  return counts;
}

std::vector<IValue> with_tensors(OpValues form, std::span<const Tensor> tensors) {
  std::vector<IValue> values(form.begin(), form.end());
  size_t next = 0;
  for (IValue& value : values) {
    if (value.isTensor()) {
      value = tensors[next++];
    } else if (value.isTensorList()) {
      std::vector<Tensor> list(value.toTensorVector().size());
      for (Tensor& tensor : list) tensor = tensors[next++];
      value = std::move(list);
    }
  }
  return values;
}

bool shares_bytes(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined() || !a.has_storage() || !b.has_storage()) return false;
  const c10::Storage &left = a.storage(), &right = b.storage();
  if (left.unsafeGetStorageImpl() == right.unsafeGetStorageImpl()) return true;
  // The host sees a device's bytes in storages of its own.
  const auto begin = reinterpret_cast<uintptr_t>(left.data()),
             other = reinterpret_cast<uintptr_t>(right.data());
  return begin != 0 && begin < other + right.nbytes() && other < begin + left.nbytes();
}

}  // namespace titan
