#include "apps/titan/torch_commands/kernel_library.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>

#include "titan/base/error.h"
#include "titan/base/hints.h"
#include "titan/base/number.h"
#include "titan/nkilib/attention/attention.h"
#include "titan/nkilib/cross_entropy/cross_entropy.h"
#include "titan/nkilib/rmsnorm/rmsnorm.h"
#include "titan/nkilib/rope_hf/rope_hf.h"
#include "titan/ops/autograd.h"
#include "titan/ops/wrap_nki.h"

namespace titan {
namespace {

using at::Tensor;

std::vector<KernelResult> run_rope(const TensorsByName& given, int64_t lnc, bool is_backward) {
  const Tensor &q = given.at("q"), &k = given.at("k");
  const auto [q_out, k_out] =
      wrap_nki(nkilib::rope_hf)[lnc](q, k, at::empty_like(q), at::empty_like(k),
                                     {.rope_cache = given.at("rope_cache"), .backward = is_backward});
  return {{"q_out", q_out}, {"k_out", k_out}};
}

RunnableKernel rope_kernel(std::string name, bool is_backward) {
  return {
      std::move(name),
      {{"q", {1, 8, 256, 128}}, {"k", {1, 2, 256, 128}}, {"rope_cache", {1, 256, 256}, at::kFloat}},
      [is_backward](const TensorsByName& given, int64_t lnc) { return run_rope(given, lnc, is_backward); }};
}

RunnableKernel rmsnorm_kernel() {
  return {"rmsnorm", {{"x", {256, 1024}}, {"weight", {1024}}}, [](const TensorsByName& given, int64_t lnc) {
            const auto [y, rstd] = wrap_nki(nkilib::rmsnorm)[lnc](given.at("x"), given.at("weight"), {});
            return std::vector<KernelResult>{{"y", y}, {"rstd", rstd}};
          }};
}

RunnableKernel rmsnorm_backward_kernel() {
  return {"rmsnorm_backward",
          {{"dy", {256, 1024}}, {"x", {256, 1024}}, {"weight", {1024}}, {"rstd", {256, 1}, at::kFloat}},
          [](const TensorsByName& given, int64_t lnc) {
            const auto [dx, dweight] = wrap_nki(nkilib::rmsnorm_backward)[lnc](
                given.at("dy"), given.at("x"), given.at("weight"), given.at("rstd"));
            return std::vector<KernelResult>{{"dx", dx}, {"dweight", dweight}};
          }};
}

/// Columns that a core takes at once.
int64_t loss_columns(const Tensor& logits) {
  return logits.dim() == 2 ? std::min<int64_t>(logits.size(1), nkilib::CrossEntropyOptions{}.chunk_size) : 1;
}

RunnableKernel cross_entropy_kernel() {
  return {"cross_entropy",
          {{"logits", {128, 1000}}, {"targets", {128}, at::kInt}},
          [](const TensorsByName& given, int64_t lnc) {
            const auto [loss, lse] = wrap_nki(nkilib::cross_entropy_forward)[lnc](
                given.at("logits"), given.at("targets"), {.chunk_size = loss_columns(given.at("logits"))});
            return std::vector<KernelResult>{{"loss", loss}, {"lse", lse}};
          }};
}

RunnableKernel cross_entropy_backward_kernel() {
  return {"cross_entropy_backward",
          {{"logits", {128, 1000}}, {"targets", {128}, at::kInt}, {"lse", {128}, at::kFloat}},
          [](const TensorsByName& given, int64_t lnc) {
            const auto dlogits = wrap_nki(nkilib::cross_entropy_backward)[lnc](
                given.at("logits"), given.at("targets"), given.at("lse"),
                {.chunk_size = loss_columns(given.at("logits")), .inplace = false});
            return std::vector<KernelResult>{{"dlogits", dlogits}};
          }};
}

nkilib::AttentionOptions attention_options(const TensorsByName& given) {
  const auto first_key = given.find("first_key");
  if (first_key == given.end()) return {};
  return {.first_key = nki_tensor(first_key->second)};
}

const std::vector<RunnableInput> kAttentionInputs = {
    {"q", {1, 256, 8, 64}}, {"k", {1, 256, 2, 64}}, {"v", {1, 256, 2, 64}}};
const RunnableInput kFirstKey = {.name = "first_key", .dtype = at::kInt, .is_optional = true};

RunnableKernel attention_kernel() {
  RunnableKernel kernel{"attention", kAttentionInputs, [](const TensorsByName& given, int64_t lnc) {
                          const auto [out, lse] = wrap_nki(nkilib::attention_forward)[lnc](
                              given.at("q"), given.at("k"), given.at("v"), attention_options(given));
                          return std::vector<KernelResult>{{"out", out}, {"lse", lse}};
                        }};
  kernel.inputs.push_back(kFirstKey);
  return kernel;
}

RunnableKernel attention_backward_kernel() {
  RunnableKernel kernel{"attention_backward", kAttentionInputs, [](const TensorsByName& given, int64_t lnc) {
                          const nkilib::AttentionGradients of{given.at("out"), given.at("lse"),
                                                              given.at("dout")};
                          const auto [dq, dk, dv] = wrap_nki(nkilib::attention_backward)[lnc](
                              given.at("q"), given.at("k"), given.at("v"), of, attention_options(given));
                          return std::vector<KernelResult>{{"dq", dq}, {"dk", dk}, {"dv", dv}};
                        }};
  kernel.inputs.push_back({"out", {1, 256, 8, 64}});
  kernel.inputs.push_back({"lse", {1, 8, 256}, at::kFloat});
  kernel.inputs.push_back({"dout", {1, 256, 8, 64}});
  kernel.inputs.push_back(kFirstKey);
  return kernel;
}

bool is_tensor(const c10::Argument& argument) {
  return argument.type()->isSubtypeOf(*c10::getTypePtr<std::optional<Tensor>>());
}

/// The argument that is no tensor, from its text, or its default.
c10::IValue value_of(const std::string& op, const c10::Argument& argument,
                     const std::map<std::string, std::string>& values) {
  const auto found = values.find(argument.name());
  const bool is_optional = argument.type()->kind() == c10::TypeKind::OptionalType;
  if (found == values.end()) {
    if (argument.default_value()) return *argument.default_value();
    if (is_optional) return {};
    throw ConfigError("{} takes {} {}: give --value {}=...", op, argument.type()->str(), argument.name(),
                      argument.name());
  }
  const std::string& text = found->second;
  const auto type =
      is_optional ? argument.type()->castRaw<c10::OptionalType>()->getElementType() : argument.type();
  switch (type->kind()) {
    case c10::TypeKind::StringType:
      return text;
    case c10::TypeKind::BoolType:
      if (text == "true" || text == "false") return text == "true";
      break;
    case c10::TypeKind::IntType:
      if (const auto number = parse_number<int64_t>(text)) return *number;
      break;
    case c10::TypeKind::FloatType:
      if (const auto number = parse_number<double>(text)) return *number;
      break;
    default:
      break;
  }
  throw ConfigError("--value {}={}: {} takes {} there", argument.name(), text, op, argument.type()->str());
}

/// A result of an operator; elements of a list one by one, as name.0, name.1, ...
void add_result(std::vector<KernelResult>& results, const std::string& name, const c10::IValue& value) {
  const auto number = [&](at::ScalarType dtype, const std::string& text) {
    results.push_back({name, at::scalar_tensor(value.toScalar(), at::TensorOptions(dtype)), text});
  };
  if (value.isTensor() && value.toTensor().defined()) {
    results.push_back({name, value.toTensor()});
  } else if (value.isNone() || value.isTensor()) {
    results.push_back({name, {}, "none"});
  } else if (value.isBool()) {
    number(at::kBool, value.toBool() ? "true" : "false");
  } else if (value.isInt()) {
    number(at::kLong, c10::str(value));
  } else if (value.isDouble()) {
    number(at::kDouble, c10::str(value));
  } else if (value.isList()) {
    const auto elements = value.toListRef();
    if (elements.empty()) results.push_back({name, {}, "an empty list"});
    for (size_t i = 0; i < elements.size(); ++i) add_result(results, format("{}.{}", name, i), elements[i]);
  } else {
    results.push_back({name, {}, c10::str(value)});
  }
}

std::vector<KernelResult> call_boxed(const c10::OperatorHandle& op, const TensorsByName& given,
                                     const std::map<std::string, std::string>& values) {
  torch::jit::Stack stack;
  for (const c10::Argument& argument : op.schema().arguments()) {
    if (!is_tensor(argument)) {
      stack.push_back(value_of(op.schema().name(), argument, values));
    } else {
      const auto found = given.find(argument.name());
      stack.push_back(found == given.end() ? c10::IValue() : c10::IValue(found->second));
    }
  }
  const NoGrad no_grad;
  op.callBoxed(stack);
  std::vector<KernelResult> outputs;
  for (const c10::Argument& argument : op.schema().arguments()) {
    const bool is_written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    if (is_written && given.contains(argument.name()))
      outputs.push_back({argument.name(), given.at(argument.name())});
  }
  for (size_t i = 0; i < stack.size(); ++i) add_result(outputs, format("output{}", i), stack[i]);
  return outputs;
}

}  // namespace

const std::vector<RunnableKernel>& library_kernels() {
  static const std::vector<RunnableKernel> kernels = {rope_kernel("rope_hf", false),
                                                      rope_kernel("rope_hf_backward", true),
                                                      rmsnorm_kernel(),
                                                      rmsnorm_backward_kernel(),
                                                      cross_entropy_kernel(),
                                                      cross_entropy_backward_kernel(),
                                                      attention_kernel(),
                                                      attention_backward_kernel()};
  return kernels;
}

std::set<std::string> operator_names() {
  std::set<std::string> names;
  for (const c10::OperatorName& op : c10::Dispatcher::singleton().getAllOpNames()) names.insert(op.name);
  return names;
}

RunnableKernel operator_kernel(const std::string& name, const std::map<std::string, std::string>& values,
                               const std::vector<std::string>& known) {
  const auto op = c10::Dispatcher::singleton().findSchema({name, ""});
  if (!op && known.empty()) {
    throw ConfigError("no operator '{}' is registered: --imports M names the module that has it", name);
  }
  if (!op) {
    throw ConfigError("no operator '{}' is registered{}", name,
                      did_you_mean_of(name, known, "the modules of --imports have"));
  }
  RunnableKernel kernel{name, {}, {}};
  std::vector<std::string> other_names;
  for (const c10::Argument& argument : op->schema().arguments()) {
    if (argument.type()->kind() == c10::TypeKind::ListType) {
      throw ConfigError("{} takes a list ({}), which cannot be given here", name, argument.name());
    }
    if (!is_tensor(argument)) {
      other_names.push_back(argument.name());
      kernel.values.push_back(format("{} {}", argument.type()->str(), argument.name()));
      continue;
    }
    const bool is_optional = argument.type()->kind() == c10::TypeKind::OptionalType;
    kernel.inputs.push_back({.name = argument.name(), .is_optional = is_optional});
  }
  for (const auto& [given, text] : values) {
    if (std::ranges::count(other_names, given) == 0) {
      throw ConfigError("--value {}={}: {} has no such argument{}", given, text, name,
                        did_you_mean(given, other_names));
    }
  }
  kernel.call = [op, values](const TensorsByName& given, int64_t) { return call_boxed(*op, given, values); };
  return kernel;
}

}  // namespace titan
