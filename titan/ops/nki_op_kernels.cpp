#include "titan/ops/nki_op_kernels.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "titan/base/error.h"
#include "titan/ops/autograd.h"
#include "titan/ops/op_values.h"
#include "titan/ops/rethrow.h"

namespace titan {
namespace {

using at::Tensor;
using c10::IValue;
using torch::jit::Stack;

/// What is known of a result, for a gradient of zeros.
struct ResultForm {
  std::vector<int64_t> sizes;
  at::TensorOptions options;
};

/// A forward's results in the order that the graph sees: those with a gradient first.
struct ResultOrder {
  std::vector<size_t> order;  ///< order[i]: the result that the graph knows as i
  size_t num_differentiable = 0;

  explicit ResultOrder(const std::vector<Tensor>& results) {
    for (const bool differentiable : {true, false}) {
      for (size_t i = 0; i < results.size(); ++i) {
        const bool has_grad = results[i].defined() && c10::isFloatingType(results[i].scalar_type());
        if (has_grad == differentiable) order.push_back(i);
      }
      if (differentiable) num_differentiable = order.size();
    }
  }
};

/// What a backward is given and others read too: another branch of the graph the gradient, the caller what
/// is saved.
class GivenVersions {
 public:
  GivenVersions(std::span<const Tensor> grads, std::span<const Tensor> saved) {
    for (const Tensor& grad : grads) add("a gradient that it is given", grad);
    for (const Tensor& tensor : saved) add("a saved tensor", tensor);
  }
  /// ValueError where one has another version now.
  void check_unwritten(const OperatorRecord& record) const {
    for (const auto& [what, tensor, version] : given_) {
      if (tensor._version() == version) continue;
      throw ValueError(
          "nki_op {}: its backward writes {}, {}, which others read too: write a copy (.clone())",
          record.name, what, tensor.sizes());
    }
  }

 private:
  struct Given {
    const char* what;
    Tensor tensor;
    int64_t version;
  };
  void add(const char* what, const Tensor& tensor) {
    if (tensor.defined() && !tensor.is_inference()) given_.push_back({what, tensor, tensor._version()});
  }

  std::vector<Given> given_;
};

/// What a backward needs besides the tensors that the graph keeps.
struct BackwardCall {
  std::shared_ptr<const OperatorRecord> record;
  std::map<std::string, IValue> saved_data;
  std::vector<size_t> saved_order;  ///< saved_tensors[i] is GradientCall::saved[saved_order[i]]
  std::vector<size_t> input_counts;
  std::vector<IValue> results;  ///< their form; the tensors in it are empty
  std::vector<ResultForm> result_forms;
  std::vector<size_t> result_order;

  std::vector<Tensor> operator()(const GradientCall& call) const {
    if (!record->backward) {
      throw ValueError(
          "nki_op {}: a gradient is wanted, and it has no backward: give it one with "
          ".register_autograd(backward)",
          record->name);
    }
    OpContext ctx(wanted(call), saved(call));
    ctx.saved_data = saved_data;
    const std::vector<IValue> grads = gradients(call);
    const GivenVersions versions(tensors_of(grads), call.saved);
    const std::vector<IValue> given = record->backward(ctx, grads);
    versions.check_unwritten(*record);
    return flat(given);
  }

 private:
  std::vector<bool> wanted(const GradientCall& call) const {
    std::vector<bool> needs;
    size_t next = 0;
    for (const size_t count : input_counts) {
      bool any = false;
      for (size_t i = 0; i < count; ++i) any = any || call.needs_grad[next++] != 0;
      needs.push_back(any);
    }
    return needs;
  }

  std::vector<Tensor> saved(const GradientCall& call) const {
    std::vector<Tensor> tensors;
    for (const size_t index : saved_order) tensors.push_back(call.saved[index]);
    return tensors;
  }

  std::vector<IValue> gradients(const GradientCall& call) const {
    std::vector<Tensor> grads(result_forms.size());
    // The graph knows of the differentiable results only.
    for (size_t i = 0; i < call.grad_outputs.size(); ++i) grads[result_order[i]] = call.grad_outputs[i];
    for (size_t i = 0; i < grads.size(); ++i) {
      if (!grads[i].defined()) grads[i] = at::zeros(result_forms[i].sizes, result_forms[i].options);
    }
    return with_tensors(results, grads);
  }

  /// One gradient per tensor, from one per argument.
  std::vector<Tensor> flat(const std::vector<IValue>& grads) const {
    if (grads.size() != input_counts.size()) {
      throw ValueError(
          "nki_op {}: its backward returned {} gradients, and it takes {} arguments: return one for each, an "
          "undefined tensor where there is none",
          record->name, grads.size(), input_counts.size());
    }
    std::vector<Tensor> tensors;
    for (size_t i = 0; i < grads.size(); ++i) {
      auto one = tensors_of({&grads[i], 1});
      const bool is_none = std::ranges::none_of(one, [](const Tensor& grad) { return grad.defined(); });
      if (is_none) one.assign(input_counts[i], Tensor());
      if (one.size() != input_counts[i]) {
        throw ValueError(
            "nki_op {}: its backward returned {} gradient(s) for argument {}, which has {} tensor(s)",
            record->name, one.size(), i, input_counts[i]);
      }
      tensors.insert(tensors.end(), one.begin(), one.end());
    }
    return tensors;
  }
};

/// One forward whose results get a backward.
class OpRecording {
 public:
  OpRecording(std::shared_ptr<const OperatorRecord> record, OpValues arguments, std::vector<IValue> results)
      : arguments_(arguments),
        results_(std::move(results)),
        tensors_(tensors_of(results_)),
        order_(tensors_) {
    call_.record = std::move(record);
    backward_.name = call_.record->name;
    backward_.inputs = tensors_of(arguments);
    backward_.num_differentiable = static_cast<int64_t>(order_.num_differentiable);
  }

  std::vector<IValue> results() && {
    keep_saved();
    call_.input_counts = tensor_counts(arguments_);
    call_.results = with_tensors(results_, std::vector<Tensor>(tensors_.size()));
    for (const Tensor& tensor : tensors_) {
      call_.result_forms.push_back(tensor.defined() ? ResultForm{tensor.sizes().vec(), tensor.options()}
                                                    : ResultForm{{0}, at::TensorOptions()});
    }
    call_.result_order = order_.order;
    backward_.fn = std::move(call_);
    auto hung = differentiable(std::move(backward_), [&] {
      std::vector<Tensor> ordered;
      for (const size_t index : order_.order) ordered.push_back(tensors_[index]);
      return ordered;
    });
    for (size_t i = 0; i < hung.size(); ++i) tensors_[order_.order[i]] = std::move(hung[i]);
    return with_tensors(results_, tensors_);
  }

 private:
  /// Asks setup_context what to keep. Results are kept without a cycle of references.
  void keep_saved() {
    if (!call_.record->setup_context) return;
    std::vector<bool> needs;
    for (const IValue& argument : arguments_) {
      needs.push_back(std::ranges::any_of(tensors_of({&argument, 1}), [](const Tensor& tensor) {
        return tensor.defined() && tensor.requires_grad();
      }));
    }
    OpContext ctx(std::move(needs), {});
    {
      const NoGrad guard;
      try {
        call_.record->setup_context(ctx, arguments_, results_);
      } catch (...) {
        rethrow_from("the setup_context of " + call_.record->name);
      }
    }
    std::vector<size_t> places;  // among the saved; or past them, among the saved outputs
    for (const Tensor& tensor : ctx.saved_tensors()) {
      if (const auto result = result_index(tensor)) {
        call_.saved_order.push_back(backward_.saved_outputs.size());
        places.push_back(call_.saved_order.size() - 1);
        backward_.saved_outputs.push_back(*result);
      } else {
        call_.saved_order.push_back(backward_.saved.size());
        backward_.saved.push_back(tensor);
      }
    }
    for (const size_t place : places) call_.saved_order[place] += backward_.saved.size();
    call_.saved_data = std::move(ctx.saved_data);
  }

  std::optional<int64_t> result_index(const Tensor& tensor) const {
    for (size_t i = 0; i < order_.order.size(); ++i) {
      if (tensor.defined() && tensors_[order_.order[i]].is_same(tensor)) return static_cast<int64_t>(i);
    }
    return std::nullopt;
  }

  OpValues arguments_;
  std::vector<IValue> results_;
  std::vector<Tensor> tensors_;  ///< of the results
  ResultOrder order_;
  BackwardCall call_;
  Backward backward_;
};

}  // namespace

namespace {

/// The arguments named in mutates_args, of those on top of the stack.
std::vector<IValue> written_arguments(const c10::OperatorHandle& op, const Stack& stack) {
  const c10::FunctionSchema& schema = op.schema();
  const size_t count = schema.arguments().size();
  std::vector<IValue> written;
  for (size_t i = 0; i < count; ++i) {
    const c10::AliasInfo* alias = schema.arguments()[i].alias_info();
    if (alias != nullptr && alias->isWrite()) written.push_back(stack[stack.size() - count + i]);
  }
  return written;
}

bool wants_grad(const Tensor& tensor) { return tensor.defined() && tensor.requires_grad(); }

}  // namespace

void OpMutationKernel::operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                                  Stack* stack) const {
  const std::vector<IValue> written = written_arguments(op, *stack);
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    op.redispatchBoxed(keys & c10::after_ADInplaceOrView_keyset, stack);
  }
  for (const Tensor& tensor : tensors_of(written)) {
    if (tensor.defined() && !tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
  }
}

void OpAutogradKernel::operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                                  Stack* stack) const {
  if (c10::GradMode::is_enabled() &&
      std::ranges::any_of(tensors_of(written_arguments(op, *stack)), wants_grad)) {
    throw ValueError(
        "nki_op {}: it writes an argument that requires a gradient; call it under titan::NoGrad, or on a "
        "copy that requires none (.detach().clone())",
        record_->name);
  }
  const std::vector<IValue> arguments = torch::jit::pop(*stack, op.schema().arguments().size());
  const bool records = c10::GradMode::is_enabled() && std::ranges::any_of(tensors_of(arguments), wants_grad);
  Stack results = arguments;
  {
    const NoGrad no_grad;
    const at::AutoDispatchBelowAutograd below_autograd;
    op.redispatchBoxed(keys & c10::after_autograd_keyset, &results);
  }
  if (records) results = OpRecording(record_, arguments, std::move(results)).results();
  for (IValue& result : results) stack->push_back(std::move(result));
}

}  // namespace titan
