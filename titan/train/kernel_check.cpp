#include "titan/train/kernel_check.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <optional>

#include "titan/base/error.h"
#include "titan/base/strings.h"
#include "titan/config/module_error.h"
#include "titan/nki/error.h"
#include "titan/ops/autograd.h"
#include "titan/ops/gradcheck.h"
#include "titan/train/filled_empty.h"

namespace titan {
namespace {

using at::Tensor;

constexpr uint64_t kCheckSeed = 20260701;
constexpr int kDeterminismRuns = 3;
constexpr int64_t kDifferencesPerInput = 4;  ///< elements whose gradient is checked by difference quotients

/// One choice of inputs.
struct CheckSet {
  at::ScalarType dtype = at::kFloat;
  int64_t batch = 1, seq_len = 0;
  bool has_documents = false;
  /// A rotary cache of any numbers: the kernel reads each where it should. Both halves of a real one hold the
  /// same numbers.
  bool has_drawn_cache = false;

  std::string text(const CheckKind& kind) const {
    return format("{} batch {}{}", dtype == at::kFloat ? "fp32" : "bf16", batch,
                  !kind.context     ? ""
                  : has_drawn_cache ? " drawn cache"
                  : has_documents   ? " documents"
                                    : " plain");
  }
};

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

std::vector<Tensor> draw(const CheckKind& kind, const CheckSet& set) {
  auto generator = at::detail::createCPUGenerator(kCheckSeed);
  std::vector<Tensor> tensors;
  for (const CheckInput& input : kind.inputs) {
    std::vector<int64_t> shape = {set.batch, set.seq_len};
    shape.insert(shape.end(), input.dims.begin(), input.dims.end());
    tensors.push_back(input.num_ids > 0
                          ? at::randint(0, input.num_ids, shape, generator, at::TensorOptions(at::kLong))
                          : at::randn(shape, generator).to(set.dtype));
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

/// By their names: two modules may register theirs in different orders.
std::vector<CheckedValue> weights_of(const Module& module) {
  std::vector<CheckedValue> weights;
  for (const auto& [name, parameter] : module.named_parameters()) weights.push_back({name, parameter->value});
  std::ranges::sort(weights, {}, &CheckedValue::name);
  return weights;
}

ModulePtr build_with_weights(Node node, at::ScalarType dtype, at::Device device) {
  const NoGrad no_grad;
  ModulePtr module = node.type->build(node.data);
  if (!module) throw ValueError("build() of {} gives no module", type_name(*node.type));
  materialize(*module, dtype, device, kCheckSeed);
  return module;
}

/// Drawn weights: constants (those of norms) get noise, so that one that is left out shows.
void add_noise(const Module& module, at::ScalarType dtype, at::Device device) {
  const NoGrad no_grad;
  auto generator = at::detail::createCPUGenerator(kCheckSeed + 1);
  for (const auto& [name, parameter] : module.named_parameters()) {
    if (parameter->init.kind == Init::Kind::normal) continue;
    parameter->value.add_(at::randn(parameter->value.sizes(), generator).mul_(0.2).to(dtype).to(device));
  }
}

/// Gives `to` the weights of `from`; ValueError naming those that only one of them has.
void copy_weights(const Module& from, const Module& to) {
  const NoGrad no_grad;
  const std::vector<CheckedValue> wanted = weights_of(from), there = weights_of(to);
  const auto find = [](const std::vector<CheckedValue>& weights, const CheckedValue& weight) {
    const auto found = std::ranges::find(weights, weight.name, &CheckedValue::name);
    return found != weights.end() && found->tensor.sizes() == weight.tensor.sizes() ? found->tensor
                                                                                    : Tensor();
  };
  const auto without = [&](const std::vector<CheckedValue>& one, const std::vector<CheckedValue>& other) {
    std::vector<std::string> names;
    for (const CheckedValue& weight : one) {
      if (!find(other, weight).defined())
        names.push_back(format("{} {}", weight.name, weight.tensor.sizes()));
    }
    return names.empty() ? "none" : join(names, ", ");
  };
  const std::string missing = without(wanted, there), extra = without(there, wanted);
  if (missing != "none" || extra != "none") {
    throw ValueError(
        "its weights are not those of what it replaces, and the two cannot be compared: missing "
        "are {}, extra are {}",
        missing, extra);
  }
  for (const CheckedValue& weight : there) weight.tensor.copy_(find(wanted, weight));
}

/// What a call of a user's code ended with: nothing, or what it threw.
struct Thrown {
  std::string error;
  bool is_refusal = true;  ///< a ValueError, which says that the call cannot be
};

/// Runs `work`; what a user's module throws becomes part of the report, whatever it is.
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

/// A module in a check, and where it is.
struct CheckedModule {
  const CheckKind& kind;
  const Module& module;
  at::Device device;
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
                                               const std::vector<Tensor>& drawn) {
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
  const Tensor sum = weighted_sum(results, gradients);
  if (sum.requires_grad()) backward(sum);
  for (size_t i = 0; i < call.leaves.size(); ++i) {
    const Tensor& grad = call.leaves[i].tensor.grad();
    values.push_back(
        {"grad " + call.leaves[i].name, grad.defined() ? grad.cpu() : Tensor(), rotated(gradients, i)});
  }
  return values;
}

CheckRun run_module(const CheckedModule& checked, const CheckSet& set) {
  CheckRun run;
  PreparedCall call;
  const Thrown thrown = guarded([&] {
    const std::vector<Tensor> drawn = draw(checked.kind, set);
    prepare(call, checked, set, drawn);
    run.values = forward_and_backward(checked, call, drawn);
  });
  run.written = call.read_only.written();
  run.error = thrown.error;
  run.is_refusal = thrown.is_refusal;
  return run;
}

CheckRun run_filled(const CheckedModule& checked, const CheckSet& set) {
  const FilledEmpty filled;
  return run_module(checked, set);
}

/// What is replaced, and what replaces it, with the same weights.
class CheckedPair {
 public:
  CheckedPair(const Replacement& what, at::ScalarType dtype, at::Device device)
      : kind_(what.kind),
        device_(device),
        reference_(build_with_weights(what.before, dtype, device)),
        replacement_(build_with_weights(what.after, dtype, device)) {
    add_noise(*reference_, dtype, device);
    copy_weights(*reference_, *replacement_);
  }
  CheckedModule reference() const { return {kind_, *reference_, device_}; }
  CheckedModule replacement() const { return {kind_, *replacement_, device_}; }

  void compare(CheckTable& table, const CheckSet& set) const {
    table.compare(set.text(kind_), set.dtype, run_module(reference(), set), run_filled(replacement(), set));
  }

 private:
  const CheckKind& kind_;
  at::Device device_;
  ModulePtr reference_, replacement_;
};

void compare_sets(CheckTable& table, const CheckedPair& pair, at::ScalarType dtype, int64_t seq_len) {
  const CheckKind& kind = pair.reference().kind;
  for (const int64_t batch : {1, 4}) {
    for (const bool has_documents : {false, true}) {
      if (has_documents && !kind.context) continue;
      pair.compare(table, {dtype, batch, seq_len, has_documents});
    }
  }
}

void compare_drawn_cache(CheckTable& table, const CheckedPair& pair, int64_t seq_len) {
  const auto& [kind, reference, device] = pair.reference();
  if (!kind.cache_form) return;
  bool has_one_form = false;
  const Thrown thrown = guarded(
      [&] { has_one_form = kind.cache_form(reference) == kind.cache_form(pair.replacement().module); });
  if (thrown.error.empty() && has_one_form)
    pair.compare(table, {.seq_len = seq_len, .has_drawn_cache = true});
}

/// A length that the kernel may not take: refused, or right.
void check_off_contract(CheckTable& table, const CheckedPair& pair, int64_t seq_len) {
  const std::string name = format("{} tokens", seq_len);
  const CheckSet set{.seq_len = seq_len};
  const CheckRun run = run_filled(pair.replacement(), set);
  if (!run.error.empty() && run.is_refusal) return table.note(name, "refused: " + run.error);
  if (!run.error.empty())
    return table.fail(name, "neither computed nor refused by a ValueError: " + run.error);
  table.compare(name, at::kFloat, run_module(pair.reference(), set), run);
}

void check_determinism(CheckTable& table, const CheckedModule& checked, const CheckSet& set) {
  const std::string name = "determinism";
  const CheckRun first = run_module(checked, set);
  for (int i = 1; i < kDeterminismRuns; ++i) {
    const CheckRun again = run_module(checked, set);
    if (again.error != first.error) return table.fail(name, "runs end differently: " + again.error);
    for (size_t v = 0; v < first.values.size(); ++v) {
      if (!has_same_bits(first.values[v].tensor, again.values[v].tensor))
        return table.fail(name, format("{} differs between two runs", first.values[v].name));
    }
  }
  table.note(name, format("{} runs {}", kDeterminismRuns,
                          first.error.empty() ? "give the same bits" : "end with the same error"));
}

std::string difference_text(const GradcheckResult& result, const std::string& input) {
  std::array<char, 160> text{};
  if (!result.passed) {
    std::snprintf(text.data(), text.size(),
                  "the backward gives %.3g, differences give %.3g (allowed difference %.3g)",
                  result.analytical, result.numerical, result.allowed);
    return format("gradient of {} at [{}]: {}", input, c10::Join(", ", result.element), text.data());
  }
  std::snprintf(text.data(), text.size(),
                "worst gradient off by %.3g of %.3g, allowed %.3g: ", result.max_difference, result.numerical,
                result.allowed);
  return text.data() + input;
}

/// Last of all: the module's weights are others afterwards.
void check_differences(CheckTable& table, const CheckedModule& checked, const CheckSet& set) {
  const std::string name = "difference quotients";
  const auto& [kind, module, device] = checked;
  GradcheckResult result;
  std::vector<std::string> names;
  const Thrown thrown = guarded([&] {
    CheckArguments given{
        .tensors = {}, .context = context_for(kind, set, module, device), .dtype = set.dtype};
    std::vector<Tensor> inputs;
    for (const Tensor& drawn : draw(kind, set)) {
      const Tensor& tensor = given.tensors.emplace_back(drawn.to(device));
      if (!tensor.is_floating_point()) continue;
      names.push_back(kind.inputs[given.tensors.size() - 1].name);
      inputs.push_back(tensor.requires_grad_());
    }
    const auto parameters = module.named_parameters();
    for (const auto& [weight, parameter] : parameters) {
      names.push_back(weight);
      inputs.push_back(parameter->value);
    }
    const auto call = [&](const std::vector<Tensor>& leaves) {
      size_t next = 0;
      for (Tensor& tensor : given.tensors) {
        if (tensor.is_floating_point()) tensor = leaves[next++];
      }
      for (const auto& [weight, parameter] : parameters) parameter->value = leaves[next++];
      return kind.call(module, given);
    };
    result = gradcheck(GradcheckFunction(call), inputs,
                       {.max_elements = kDifferencesPerInput, .raise_exception = false});
  });
  if (!thrown.error.empty()) return table.fail(name, thrown.error);
  const std::string text =
      difference_text(result, result.input < 0 ? "nothing" : names[static_cast<size_t>(result.input)]);
  if (result.passed) return table.note(name, text);
  table.fail(name, text);
}

std::string replacement_heading(const Replacement& what) {
  return format("{}: {} -> {}, {} in {} place(s), the first {}", what.override_name,
                type_name(*what.before.type), type_name(*what.after.type), what.kind.name, what.fqns.size(),
                what.fqns.front());
}

void check_pairs(CheckTable& table, const Replacement& what, const KernelCheckOptions& options) {
  std::optional<CheckedPair> exact, rounded;
  const Thrown thrown = guarded([&] {
    exact.emplace(what, at::kFloat, options.device);
    rounded.emplace(what, at::kBFloat16, options.device);
  });
  if (!thrown.error.empty()) return table.fail("build", thrown.error);
  compare_sets(table, *exact, at::kFloat, options.seq_len);
  compare_sets(table, *rounded, at::kBFloat16, options.seq_len);
  compare_drawn_cache(table, *exact, options.seq_len);
  check_off_contract(table, *exact, options.seq_len + 1);
  table.tell_unwritten();
  const CheckSet set{.seq_len = options.seq_len, .has_documents = bool(what.kind.context)};
  check_determinism(table, exact->replacement(), set);
  check_differences(table, exact->replacement(), set);
}

}  // namespace

KernelCheckReport check_replacement(const Replacement& replacement, const KernelCheckOptions& options) {
  CheckTable table(replacement.override_name, replacement_heading(replacement), options.is_strict);
  check_pairs(table, replacement, options);
  return std::move(table).report();
}

}  // namespace titan
