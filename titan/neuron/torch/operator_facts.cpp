#include "titan/neuron/torch/operator_facts.h"

#include <algorithm>
#include <string_view>

namespace titan::neuron {
namespace {

using Kind = OperatorFacts::Kind;

Kind kind_of(const c10::TypePtr& type) {
  if (const auto optional = type->cast<c10::OptionalType>()) return kind_of(optional->getElementType());
  if (type->kind() == c10::TypeKind::TensorType) return Kind::tensor;
  if (type->kind() == c10::TypeKind::DeviceObjType) return Kind::device;
  if (type->kind() == c10::TypeKind::GeneratorType) return Kind::generator;
  const auto list = type->cast<c10::ListType>();
  if (!list) return Kind::other;
  if (list->getElementType()->kind() == c10::TypeKind::TensorType) return Kind::tensors;
  const bool optional = list->getElementType()->kind() == c10::TypeKind::OptionalType;
  return optional && kind_of(list->getElementType()) == Kind::tensor ? Kind::optional_tensors : Kind::other;
}

/// Operators that hand out other views of memory, read one number, or only make room: nothing to compile.
constexpr std::string_view kNotCompiled[] = {
    "aten::_local_scalar_dense", "aten::resize_",           "aten::resize_as_",    "aten::unfold",
    "aten::view_as_real",        "aten::view_as_complex",   "aten::is_set_to",     "aten::_pin_memory",
    "aten::is_pinned",           "aten::_fused_sdp_choice", "aten::record_stream",
};

}  // namespace

OperatorFacts::OperatorFacts(const c10::OperatorHandle& op) : name(c10::toString(op.operator_name())) {
  const c10::FunctionSchema& schema = op.schema();
  for (const c10::Argument& argument : schema.arguments()) {
    arguments.push_back({.kind = kind_of(argument.type()),
                         .written = argument.alias_info() != nullptr && argument.alias_info()->isWrite()});
  }
  num_returns = schema.returns().size();
  returns_list = std::ranges::any_of(
      schema.returns(), [](const c10::Argument& value) { return kind_of(value.type()) == Kind::tensors; });
  compiled = std::ranges::find(kNotCompiled, schema.operator_name().name) == std::end(kNotCompiled);
  takes_host_tensors = name.text.starts_with("aten::index_put") || name.text.starts_with("aten::_index_put");
}

}  // namespace titan::neuron
