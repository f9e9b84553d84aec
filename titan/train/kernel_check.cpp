#include "titan/train/kernel_check.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>

#include "titan/base/error.h"
#include "titan/base/strings.h"
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

constexpr std::string_view kUnwritten = "unwritten memory is read";

/// One choice of inputs.
struct CheckSet {
  at::ScalarType dtype = at::kFloat;
  int64_t batch = 1, seq_len = 0;
  bool has_documents = false;

  std::string text(bool takes_positions) const {
    return format("{} batch {}{}", dtype == at::kFloat ? "fp32" : "bf16", batch,
                  !takes_positions ? ""
                  : has_documents  ? " documents"
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

CheckArguments draw(const CheckKind& kind, const CheckSet& set) {
  auto generator = at::detail::createCPUGenerator(kCheckSeed);
  CheckArguments given;
  given.dtype = set.dtype;
  for (const CheckInput& input : kind.inputs) {
    std::vector<int64_t> shape = {set.batch, set.seq_len};
    shape.insert(shape.end(), input.dims.begin(), input.dims.end());
    given.tensors.push_back(
        input.num_ids > 0 ? at::randint(0, input.num_ids, shape, generator, at::TensorOptions(at::kLong))
                          : at::randn(shape, generator).to(set.dtype));
  }
  given.positions_BT = set.has_documents
                           ? document_positions(set.batch, set.seq_len)
                           : at::arange(set.seq_len, at::kLong).expand({set.batch, -1}).contiguous();
  return given;
}

/// A value under a name; undefined where there is none.
struct CheckedValue {
  std::string name;
  Tensor tensor;
  Tensor rotated = {};  ///< what the value is a rotation of, where it is one
};

std::vector<CheckedValue> weights_of(const Module& module) {
  std::vector<CheckedValue> weights;
  for (const auto& [name, parameter] : module.named_parameters()) weights.push_back({name, parameter->value});
  return weights;
}

/// Drawn weights: constants (those of norms) get noise, so that one that is left out shows.
ModulePtr build_reference(const Replacement& replacement, at::ScalarType dtype) {
  const NoGrad no_grad;
  ModulePtr module = replacement.before.type->build(replacement.before.data);
  materialize(*module, dtype, at::kCPU, kCheckSeed);
  auto generator = at::detail::createCPUGenerator(kCheckSeed + 1);
  for (const auto& [name, parameter] : module->named_parameters()) {
    if (parameter->init.kind == Init::Kind::normal) continue;
    parameter->value.add_(at::randn(parameter->value.sizes(), generator).mul_(0.2).to(dtype));
  }
  return module;
}

/// The replacement with the reference's weights.
ModulePtr build_replacement(const Replacement& replacement, const Module& reference, at::ScalarType dtype) {
  const NoGrad no_grad;
  ModulePtr module = replacement.after.type->build(replacement.after.data);
  materialize(*module, dtype, at::kCPU, kCheckSeed);
  std::map<std::string, Tensor> given;
  for (const CheckedValue& weight : weights_of(reference)) given[weight.name] = weight.tensor;
  for (const CheckedValue& weight : weights_of(*module)) {
    const auto found = given.find(weight.name);
    if (found == given.end() || found->second.sizes() != weight.tensor.sizes()) {
      throw ValueError("the weight {} {} of {} has no counterpart in {}: the two cannot be compared",
                       weight.name, weight.tensor.sizes(), type_name(*replacement.after.type),
                       type_name(*replacement.before.type));
    }
    weight.tensor.copy_(found->second);
  }
  return module;
}

/// What one forward and backward gave.
struct CheckRun {
  std::vector<CheckedValue> values;  ///< results, then gradients
  std::string error;                 ///< what it threw instead
  bool is_value_error = true;
};

/// Runs `work`; what a user's module throws becomes part of the report, whatever it is.
CheckRun guarded(const std::function<std::vector<CheckedValue>()>& work) {
  CheckRun run;
  try {
    run.values = work();
  } catch (const nki::KernelError& error) {
    run.error = error.rule == "memory.unwritten" ? format("{}: {}", kUnwritten, error.what())
                                                 : std::string(error.what());
  } catch (const ValueError& error) {
    run.error = error.what();
  } catch (const std::exception& error) {
    const std::string_view what = error.what();
    run.error = what.substr(0, what.find("\nException raised from"));
    run.is_value_error = false;
  }
  return run;
}

/// The gradients that results get: fixed numbers that bfloat16 has.
std::vector<Tensor> result_gradients(const std::vector<Tensor>& results) {
  auto generator = at::detail::createCPUGenerator(kCheckSeed + 2);
  std::vector<Tensor> gradients;
  for (const Tensor& result : results)
    gradients.push_back(at::randn(result.sizes(), generator).to(at::kBFloat16).to(at::kFloat));
  return gradients;
}

Tensor weighted_sum(const std::vector<Tensor>& results, const std::vector<Tensor>& weights) {
  Tensor sum;
  for (size_t i = 0; i < results.size(); ++i) {
    const Tensor part = (results[i].to(at::kFloat) * weights[i]).sum();
    sum = sum.defined() ? sum + part : part;
  }
  return sum;
}

CheckRun run_module(const CheckKind& kind, const Module& module, const CheckArguments& drawn) {
  return guarded([&] {
    CheckArguments given = drawn;
    std::vector<CheckedValue> leaves;
    for (size_t i = 0; i < given.tensors.size(); ++i) {
      given.tensors[i] = drawn.tensors[i].clone();
      if (given.tensors[i].is_floating_point())
        leaves.push_back({kind.inputs[i].name, given.tensors[i].requires_grad_()});
    }
    for (const CheckedValue& weight : weights_of(module)) leaves.push_back(weight);
    for (const CheckedValue& leaf : leaves) leaf.tensor.mutable_grad() = Tensor();

    const std::vector<Tensor> results = kind.call(module, given);
    const std::vector<Tensor> gradients = result_gradients(results);
    std::vector<CheckedValue> values;
    for (size_t i = 0; i < results.size(); ++i) {
      values.push_back(
          {kind.outputs[i], results[i].detach(), kind.is_rotation ? drawn.tensors[i] : Tensor()});
    }
    const Tensor sum = weighted_sum(results, gradients);
    if (sum.requires_grad()) backward(sum);
    for (size_t i = 0; i < leaves.size(); ++i) {
      const bool is_rotation = kind.is_rotation && i < gradients.size();
      values.push_back(
          {"grad " + leaves[i].name, leaves[i].tensor.grad(), is_rotation ? gradients[i] : Tensor()});
    }
    return values;
  });
}

/// |x| + |rotate_half(x)| of each element: what the roundings of a rotation of x are parts of.
Tensor rotation_scale(const Tensor& x) {
  const Tensor size = x.to(at::kDouble).abs();
  return size + size.roll(size.size(-1) / 2, -1);
}

double largest(const Tensor& tensor) { return tensor.numel() == 0 ? 0 : tensor.abs().max().item<double>(); }

/// Collects the lines of a report, and what failed first.
class CheckTable {
 public:
  explicit CheckTable(KernelCheckOptions options) : options_(options) {
    row("input set", "tensor", "max |difference|", "max |reference|", "allowed", "");
  }

  void compare(const std::string& set, at::ScalarType dtype, const CheckRun& reference, const CheckRun& run) {
    if (!reference.error.empty()) return fail(set, format("what is replaced fails: {}", reference.error));
    if (!run.error.empty()) return fail(set, run.error);
    for (size_t i = 0; i < reference.values.size(); ++i)
      compare_values(set, dtype, reference.values[i], run.values[i]);
  }

  void row(const std::string& set, const std::string& tensor, const std::string& difference,
           const std::string& reference, const std::string& allowed, const std::string& verdict) {
    std::array<char, 512> text{};
    std::snprintf(text.data(), text.size(), "  %-24s %-24s %16s %16s %12s  %s", set.c_str(), tensor.c_str(),
                  difference.c_str(), reference.c_str(), allowed.c_str(), verdict.c_str());
    std::string line = text.data();
    line.erase(line.find_last_not_of(' ') + 1);
    report.lines.push_back(std::move(line));
  }

  void note(const std::string& set, const std::string& what) {
    report.lines.push_back("  " + pad(set) + what);
  }

  void fail(const std::string& set, const std::string& what) {
    has_unwritten_ = has_unwritten_ || what.starts_with(kUnwritten);
    note(set, "FAILED: " + what);
    refuse(set, what);
  }

  void end_sets() {
    if (!has_unwritten_) note("unwritten memory", "none is read");
  }

  KernelCheckReport report;
  std::string first_failure;

 private:
  static std::string pad(std::string text) {
    constexpr size_t kWidth = 25;
    if (text.size() < kWidth) text.resize(kWidth, ' ');
    return text;
  }
  static std::string number(double value) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), value == 0 ? "0.0" : "%.3g", value);
    return text.data();
  }

  void refuse(const std::string& set, const std::string& what) {
    if (report.passed) first_failure = format("{}: {}", set, what);
    report.passed = false;
  }

  void compare_values(const std::string& set, at::ScalarType dtype, const CheckedValue& reference,
                      const CheckedValue& value) {
    if (!reference.tensor.defined()) return;
    if (!value.tensor.defined()) return fail(set, value.name + ": there is none");
    if (value.tensor.sizes() != reference.tensor.sizes() ||
        value.tensor.scalar_type() != reference.tensor.scalar_type()) {
      return fail(set, format("{} is {} {}, where {} {} is replaced", value.name, value.tensor.sizes(),
                              c10::toString(value.tensor.scalar_type()), reference.tensor.sizes(),
                              c10::toString(reference.tensor.scalar_type())));
    }
    const Tensor a = value.tensor.to(at::kDouble), b = reference.tensor.to(at::kDouble);
    const int64_t unwritten = a.isnan().sum().item<int64_t>();
    const double difference = largest(a - b), scale = largest(b);
    const double part = dtype != at::kFloat ? kBfloat16Tolerance : options_.is_strict ? 0 : kFloat32Tolerance;
    has_unwritten_ = has_unwritten_ || unwritten > 0;
    const bool by_element = dtype != at::kFloat && reference.rotated.defined();
    const Tensor bounds = by_element ? rotation_scale(reference.rotated) * part : Tensor();
    const bool fits = by_element ? ((a - b).abs() <= bounds).all().item<bool>()
                                 : difference <= part * scale;  // not for NaN
    const std::string wrong =
        unwritten > 0 ? format("{} of {} numbers are NaN or were never written", unwritten, a.numel())
        : by_element  ? beyond(a - b, bounds)
                      : "off by " + number(difference);
    row(set, value.name, number(difference), number(scale), by_element ? "by element" : number(part * scale),
        fits                          ? "ok"
        : unwritten > 0 || by_element ? "FAILED: " + wrong
                                      : "FAILED");
    if (!fits) refuse(set, format("{}: {}", value.name, wrong));
  }

  /// The element that is furthest beyond its bound.
  static std::string beyond(const Tensor& difference, const Tensor& bounds) {
    const Tensor off = difference.abs().flatten(), allowed = bounds.flatten();
    const int64_t worst = (off - allowed).argmax().item<int64_t>();
    return format("off by {} where {} is allowed", number(off[worst].item<double>()),
                  number(allowed[worst].item<double>()));
  }

  KernelCheckOptions options_;
  bool has_unwritten_ = false;
};

/// A replacement's two modules in one dtype.
struct ModulePair {
  ModulePtr reference, replacement;
  ModulePair(const Replacement& what, at::ScalarType dtype)
      : reference(build_reference(what, dtype)), replacement(build_replacement(what, *reference, dtype)) {}
};

CheckRun run_filled(const CheckKind& kind, const Module& module, const CheckArguments& given) {
  const FilledEmpty filled;
  return run_module(kind, module, given);
}

void compare_sets(CheckTable& table, const CheckKind& kind, const Replacement& what, int64_t seq_len) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const ModulePair pair(what, dtype);
    for (const int64_t batch : {1, 4}) {
      for (const bool has_documents : {false, true}) {
        if (has_documents && !kind.takes_positions) continue;
        const CheckSet set{dtype, batch, seq_len, has_documents};
        const CheckArguments given = draw(kind, set);
        table.compare(set.text(kind.takes_positions), dtype, run_module(kind, *pair.reference, given),
                      run_filled(kind, *pair.replacement, given));
      }
    }
  }
}

void compare_drawn_cache(CheckTable& table, const CheckKind& kind, const ModulePair& pair, int64_t seq_len) {
  if (!kind.shares_cache || !kind.shares_cache(*pair.reference, *pair.replacement)) return;
  CheckArguments given = draw(kind, {.batch = 1, .seq_len = seq_len});
  given.has_drawn_cache = true;
  table.compare("fp32 batch 1 drawn cache", at::kFloat, run_module(kind, *pair.reference, given),
                run_filled(kind, *pair.replacement, given));
}

/// A length that the kernel may not take: refused, or right.
void check_off_contract(CheckTable& table, const CheckKind& kind, const ModulePair& pair, int64_t seq_len) {
  const std::string name = format("{} tokens", seq_len);
  const CheckArguments given = draw(kind, {.batch = 1, .seq_len = seq_len});
  const CheckRun run = run_filled(kind, *pair.replacement, given);
  if (!run.error.empty() && run.is_value_error) return table.note(name, "refused: " + run.error);
  if (!run.error.empty())
    return table.fail(name, "neither computed nor refused by a ValueError: " + run.error);
  table.compare(name, at::kFloat, run_module(kind, *pair.reference, given), run);
}

void check_differences(CheckTable& table, const CheckKind& kind, const ModulePair& pair, int64_t seq_len) {
  const std::string name = "difference quotients";
  const Module& module = *pair.replacement;
  CheckArguments given = draw(kind, {.batch = 1, .seq_len = seq_len, .has_documents = kind.takes_positions});
  std::vector<Tensor> inputs;
  std::vector<std::string> names;
  for (size_t i = 0; i < given.tensors.size(); ++i) {
    if (!given.tensors[i].is_floating_point()) continue;
    inputs.push_back(given.tensors[i].requires_grad_());
    names.push_back(kind.inputs[i].name);
  }
  const size_t num_activations = inputs.size();
  for (const CheckedValue& weight : weights_of(module)) {
    inputs.push_back(weight.tensor);
    names.push_back(weight.name);
  }
  const auto parameters = module.named_parameters();
  const auto call = [&](const std::vector<Tensor>& leaves) {
    size_t next = 0;
    for (Tensor& tensor : given.tensors) {
      if (tensor.is_floating_point()) tensor = leaves[next++];
    }
    for (size_t i = 0; i < parameters.size(); ++i)
      parameters[i].parameter->value = leaves[num_activations + i];
    return kind.call(module, given);
  };
  GradcheckResult result;
  const CheckRun run = guarded([&]() -> std::vector<CheckedValue> {
    result = gradcheck(GradcheckFunction(call), inputs,
                       {.max_elements = kDifferencesPerInput, .raise_exception = false});
    return {};
  });
  if (!run.error.empty()) return table.fail(name, run.error);
  const std::string worst = result.input < 0 ? "nothing" : names[static_cast<size_t>(result.input)];
  std::array<char, 160> text{};
  if (!result.passed) {
    std::snprintf(text.data(), text.size(),
                  "the backward gives %.3g, differences give %.3g (allowed difference %.3g)",
                  result.analytical, result.numerical, result.allowed);
    return table.fail(
        name, format("gradient of {} at [{}]: {}", worst, c10::Join(", ", result.element), text.data()));
  }
  std::snprintf(text.data(), text.size(),
                "worst gradient off by %.3g of %.3g, allowed %.3g: ", result.max_difference, result.numerical,
                result.allowed);
  table.note(name, format("{}{}", text.data(), worst));
}

bool has_same_bits(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  const Tensor x = a.contiguous(), y = b.contiguous();
  return x.nbytes() == y.nbytes() && std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

void check_determinism(CheckTable& table, const CheckKind& kind, const ModulePair& pair, int64_t seq_len) {
  const std::string name = "determinism";
  const CheckArguments given =
      draw(kind, {.batch = 1, .seq_len = seq_len, .has_documents = kind.takes_positions});
  const CheckRun first = run_module(kind, *pair.replacement, given);
  for (int i = 1; i < kDeterminismRuns; ++i) {
    const CheckRun again = run_module(kind, *pair.replacement, given);
    if (again.error != first.error) return table.fail(name, "runs end differently: " + again.error);
    for (size_t v = 0; v < first.values.size(); ++v) {
      if (!has_same_bits(first.values[v].tensor, again.values[v].tensor))
        return table.fail(name, format("{} differs between two runs", first.values[v].name));
    }
  }
  table.note(name, format("{} runs give the same bits", kDeterminismRuns));
}

std::string heading(const Replacement& what, const CheckKind& kind) {
  return format("{}: {} -> {}, {} in {} place(s), the first {}", what.override_name,
                type_name(*what.before.type), type_name(*what.after.type), kind.name, what.fqns.size(),
                what.fqns.front());
}

}  // namespace

KernelCheckReport check_replacement(const Replacement& replacement, const KernelCheckOptions& options) {
  const CheckKind kind = check_kind(replacement);
  CheckTable table(options);
  table.report.lines.insert(table.report.lines.begin(), heading(replacement, kind));
  compare_sets(table, kind, replacement, options.seq_len);
  const ModulePair pair(replacement, at::kFloat);
  compare_drawn_cache(table, kind, pair, options.seq_len);
  table.end_sets();
  check_off_contract(table, kind, pair, options.seq_len + 1);
  check_determinism(table, kind, pair, options.seq_len);
  check_differences(table, kind, pair, options.seq_len);
  table.report.lines.push_back(table.report.passed ? format("{}: passed", replacement.override_name)
                                                   : format("{}: FAILED, first shown by {}",
                                                            replacement.override_name, table.first_failure));
  return std::move(table.report);
}

}  // namespace titan
