#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <string>
#include <utility>

#include "titan/base/error.h"
#include "titan/ops/autograd.h"
#include "titan/ops/nki_op_kernels.h"
#include "titan/ops/op_values.h"
#include "titan/ops/rethrow.h"

namespace titan {
namespace {

using at::Tensor;
using c10::IValue;

/// Sees to it that a body writes no argument but those named in mutates_args: a backward that has saved
/// another one would not notice.
class WriteCheck {
 public:
  WriteCheck(const c10::OperatorHandle& op, OpValues arguments) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      const c10::Argument& argument = op.schema().arguments()[i];
      const bool is_named = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
      for (Tensor& tensor : tensors_of({&arguments[i], 1})) {
        if (!tensor.defined() || tensor.is_inference()) continue;
        const int64_t version = tensor._version();
        (is_named ? named_ : others_).push_back({argument.name(), std::move(tensor), version});
      }
    }
  }

  /// After the body. ValueError that names the operator and the argument.
  void check(const OperatorRecord& record) const {
    for (const Given& given : others_) {
      if (given.tensor._version() == given.version) continue;
      // Views of one tensor have one version: what was written may be another view, which is named.
      const auto is_it = [&](const Given& named) { return shares_bytes(named.tensor, given.tensor); };
      if (std::ranges::any_of(named_, is_it)) continue;
      throw ValueError(
          "nki_op {}: its body writes {}, which a backward that has saved it would not notice: name it in "
          "mutates_args, or write a copy (.clone())",
          record.name, given.argument);
    }
  }

 private:
  struct Given {
    std::string argument;
    Tensor tensor;
    int64_t version;
  };
  std::vector<Given> named_, others_;
};

/// Nothing in a body is recorded for gradients; its writes are counted and its views known as such, though,
/// which is the work of ADInplaceOrView. The neuron device calls from below that.
std::vector<IValue> run_body(const OperatorRecord& record, OpValues arguments) {
  const NoGrad no_grad;
  const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  const c10::impl::ForceDispatchKeyGuard guard(
      keys.included_,
      (keys.excluded_ | c10::autograd_dispatch_keyset).remove(c10::DispatchKey::ADInplaceOrView));
  try {
    return record.body(arguments);
  } catch (...) {
    rethrow_from("nki_op " + record.name);
  }
}

/// ValueError where a result shares memory with another one or with an argument.
void check_apart(const OperatorRecord& record, OpValues arguments, const std::vector<Tensor>& results) {
  const auto inputs = tensors_of(arguments);
  for (size_t i = 0; i < results.size(); ++i) {
    const auto shares = [&](const Tensor& other) { return shares_bytes(other, results[i]); };
    if (std::ranges::any_of(inputs, shares)) {
      throw ValueError(
          "nki_op {}: a result {} is one of its arguments, or a view of one: return a copy (.clone()), or "
          "name "
          "the argument in mutates_args and return nothing",
          record.name, results[i].sizes());
    }
    if (std::ranges::any_of(std::span(results).first(i), shares)) {
      throw ValueError("nki_op {}: a result {} shares memory with another one: return a copy (.clone())",
                       record.name, results[i].sizes());
    }
  }
}

/// Results have to be the caller's alone. One tensor has one place for its gradient's way back: whoever gets
/// it again, as another result or from a later call, takes that away.
std::vector<IValue> owned_results(const OperatorRecord& record, OpValues arguments,
                                  std::vector<IValue> results) {
  std::vector<Tensor> tensors = tensors_of(results);
  results = with_tensors(results, std::vector<Tensor>(tensors.size()));  // `tensors` alone holds them
  check_apart(record, arguments, tensors);
  for (Tensor& result : tensors) {
    if (!result.defined() || !result.has_storage()) continue;
    if (result.is_view()) result = result.variable_data();  // without the tensor that it is a view of
    if (result.use_count() == 1 && result.storage().use_count() == 1) continue;
    throw ValueError(
        "nki_op {}: its body keeps a result {} (in a static or a captured variable), so that the next call "
        "would change what this one gave: return a copy (.clone())",
        record.name, result.sizes());
  }
  return with_tensors(results, tensors);
}

}  // namespace

void OpBodyKernel::operator()(const c10::OperatorHandle& op, c10::DispatchKeySet,
                              torch::jit::Stack* stack) const {
  const std::vector<IValue> arguments = torch::jit::pop(*stack, op.schema().arguments().size());
  const WriteCheck writes(op, arguments);
  std::vector<IValue> results = run_body(*record_, arguments);
  writes.check(*record_);
  for (IValue& result : owned_results(*record_, arguments, std::move(results))) {
    stack->push_back(std::move(result));
  }
}

}  // namespace titan
