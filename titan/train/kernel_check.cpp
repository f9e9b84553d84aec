#include "titan/train/kernel_check.h"

#include <array>
#include <cstdio>
#include <optional>

#include "titan/base/strings.h"
#include "titan/ops/gradcheck.h"
#include "titan/train/filled_empty.h"
#include "titan/train/kernel_check_run.h"
#include "titan/train/kernel_check_sets.h"
#include "titan/train/kernel_check_weights.h"

namespace titan {
namespace {

using at::Tensor;

constexpr int kDeterminismRuns = 3;
constexpr int64_t kDifferencesPerInput = 4;  ///< elements whose gradient is checked by difference quotients

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

/// Numbers of an embedding's size: what a norm adds to their squares shows. A rotation is linear.
void compare_small(CheckTable& table, const CheckedPair& pair, int64_t seq_len) {
  constexpr double kEmbeddingScale = 0.02;
  if (pair.reference().kind.cache_form) return;
  pair.compare(table, {.seq_len = seq_len, .scale = kEmbeddingScale});
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
  if (first.error.empty()) {
    const CheckRun apart = run_apart(checked, set);
    for (size_t v = 0; v < first.values.size(); ++v) {
      if (!apart.error.empty() || !has_same_bits(first.values[v].tensor, apart.values[v].tensor))
        return table.fail(name, format("{} differs where another call comes before the backward{}",
                                       first.values[v].name, apart.error.empty() ? "" : ": " + apart.error));
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
  compare_small(table, *exact, options.seq_len);
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
