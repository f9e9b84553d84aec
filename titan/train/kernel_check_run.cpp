#include "titan/train/kernel_check_run.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>

#include <cstring>
#include <utility>

#include "titan/base/error.h"
#include "titan/base/strings.h"
#include "titan/config/module_error.h"
#include "titan/nki/error.h"
#include "titan/ops/autograd.h"
#include "titan/train/kernel_check_weights.h"

namespace titan {

using at::Tensor;

namespace {

/// The gradients that results get, as exact as the results are.
std::vector<Tensor> result_gradients(const std::vector<Tensor>& results, at::ScalarType dtype) {
  auto generator = at::detail::createCPUGenerator(kCheckSeed + 2);
  std::vector<Tensor> gradients;
  for (const Tensor& result : results)
    gradients.push_back(at::randn(result.sizes(), generator).to(dtype).to(at::kFloat));
  return gradients;
}

Tensor weighted_sum(const std::vector<Tensor>& results, const std::vector<Tensor>& weights) {
  Tensor sum;
  for (size_t i = 0; i < results.size(); ++i) {
    const Tensor part = (results[i].to(at::kFloat) * weights[i].to(results[i].device())).sum();
    sum = sum.defined() ? sum + part : part;
  }
  return sum;
}

/// Tensors that a call may read, as they were.
class ReadOnly {
 public:
  void add(const std::string& name, const Tensor& tensor) {
    if (tensor.defined()) kept_.push_back({tensor, {name, tensor.detach().clone()}});
  }
  /// Those that are something else now.
  std::vector<std::string> written() const {
    std::vector<std::string> names;
    for (const auto& [now, before] : kept_) {
      if (!has_same_bits(now, before.tensor)) names.push_back(before.name);
    }
    return names;
  }

 private:
  std::vector<std::pair<Tensor, CheckedValue>> kept_;
};

/// A call, and what may not change by it.
struct PreparedCall {
  CheckArguments given;
  std::vector<CheckedValue> leaves;  ///< inputs and weights that get gradients
  ReadOnly read_only;
};

void prepare(PreparedCall& call, const CheckedModule& checked, const CheckSet& set,
             const std::vector<Tensor>& drawn) {
  const auto& [kind, module, device] = checked;
  call.given.context = context_for(kind, set, module, device);
  call.given.dtype = set.dtype;
  for (size_t i = 0; i < drawn.size(); ++i) {
    const Tensor tensor = drawn[i].to(device, drawn[i].scalar_type(), /*non_blocking=*/false, /*copy=*/true);
    call.given.tensors.push_back(tensor);
    call.read_only.add(kind.inputs[i].name, tensor);
    if (tensor.is_floating_point()) call.leaves.push_back({kind.inputs[i].name, tensor.requires_grad_()});
  }
  call.read_only.add("rope_cache", call.given.context.rope_cache);
  call.read_only.add("first_key", call.given.context.first_key_BT);
  for (const CheckedValue& weight : weights_of(module)) {
    call.read_only.add(weight.name, weight.tensor);
    call.leaves.push_back(weight);
  }
  for (const CheckedValue& leaf : call.leaves) leaf.tensor.mutable_grad() = Tensor();
}

std::vector<CheckedValue> forward_and_backward(const CheckedModule& checked, const PreparedCall& call,
                                               const std::vector<Tensor>& drawn,
                                               const std::function<void()>& between) {
  const CheckKind& kind = checked.kind;
  const std::vector<Tensor> results = kind.call(checked.module, call.given);
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].defined()) throw ValueError("{}: there is none", kind.outputs[i]);
  }
  const std::vector<Tensor> gradients = result_gradients(results, call.given.dtype);
  const auto rotated = [&](const std::vector<Tensor>& what, size_t i) {
    return kind.cache_form && i < what.size() ? what[i] : Tensor();
  };
  std::vector<CheckedValue> values;
  for (size_t i = 0; i < results.size(); ++i)
    values.push_back({kind.outputs[i], results[i].detach().cpu(), rotated(drawn, i)});
  between();
  const Tensor sum = weighted_sum(results, gradients);
  if (sum.requires_grad()) backward(sum);
  for (size_t i = 0; i < call.leaves.size(); ++i) {
    const Tensor& grad = call.leaves[i].tensor.grad();
    values.push_back(
        {"grad " + call.leaves[i].name, grad.defined() ? grad.cpu() : Tensor(), rotated(gradients, i)});
  }
  return values;
}

CheckRun run_with(const CheckedModule& checked, const CheckSet& set, const std::function<void()>& between) {
  CheckRun run;
  PreparedCall call;
  const Thrown thrown = guarded([&] {
    const std::vector<Tensor> drawn = draw(checked.kind, set);
    prepare(call, checked, set, drawn);
    run.values = forward_and_backward(checked, call, drawn, between);
  });
  run.written = call.read_only.written();
  run.error = thrown.error;
  run.is_refusal = thrown.is_refusal;
  return run;
}

}  // namespace

Thrown guarded(const std::function<void()>& work) {
  try {
    work();
  } catch (const nki::KernelError& error) {
    if (error.rule != "memory.unwritten") return {error.what()};
    return {format("{}: {}", kReadsUnwritten, error.what()), /*is_refusal=*/false};
  } catch (const ValueError& error) {
    return {error.what()};
  } catch (...) {
    std::string what = thrown_text();
    for (const char* rest : {"\nException raised from", " Hint: "}) what = what.substr(0, what.find(rest));
    return {what, /*is_refusal=*/false};
  }
  return {};
}

bool has_same_bits(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  const Tensor x = a.detach().cpu().contiguous(), y = b.detach().cpu().contiguous();
  return x.nbytes() == y.nbytes() && std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

CheckRun run_module(const CheckedModule& checked, const CheckSet& set) {
  return run_with(checked, set, [] {});
}

CheckRun run_apart(const CheckedModule& checked, const CheckSet& set) {
  return run_with(checked, set, [&] {
    CheckSet other = set;
    other.seed = kCheckSeed + 4;
    PreparedCall call;
    prepare(call, checked, other, draw(checked.kind, other));
    checked.kind.call(checked.module, call.given);
  });
}

}  // namespace titan
