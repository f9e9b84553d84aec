#pragma once

#include <ATen/core/ivalue.h>

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// What modules say at namespace scope, and what becomes of it: recording cannot fail, since an exception
// there would end the program; the host registers once the module is loaded, and says then what is wrong.
namespace titan {

/// Arguments or results of an operator, one each.
using OpValues = std::span<const c10::IValue>;

/// What a forward leaves for its backward.
class OpContext {
 public:
  OpContext(std::vector<bool> needs_input_grad, std::vector<at::Tensor> saved)
      : needs_input_grad_(std::move(needs_input_grad)), saved_(std::move(saved)) {}

  /// Keeps tensors (undefined ones too) for saved_tensors(). An in-place change before the backward is an
  /// error.
  template <class... T>
  void save_for_backward(const T&... tensors) {
    save({c10::IValue(tensors)...});
  }
  const std::vector<at::Tensor>& saved_tensors() const { return saved_; }

  /// Whether the gradient of an argument is wanted.
  bool needs_input_grad(size_t argument) const { return needs_input_grad_.at(argument); }

  /// What else is kept: numbers and texts. No tensors of the forward.
  std::map<std::string, c10::IValue> saved_data;

 private:
  void save(const std::vector<c10::IValue>& tensors);

  std::vector<bool> needs_input_grad_;
  std::vector<at::Tensor> saved_;
};

struct RegisteredOperator;  // its entry in torch's dispatcher

/// An operator as its module recorded it, without types.
struct OperatorRecord {
  std::string name;  ///< "ns::name"
  std::vector<std::string>
      argument_types;                  ///< in schema notation: "Tensor", "Tensor?", "Tensor[]", "int" ...
  std::vector<std::string> arguments;  ///< their names; none: arg0, arg1, ...
  std::vector<std::string> mutates_args;
  std::vector<std::string> result_types;
  std::function<std::vector<c10::IValue>(OpValues)> body;

  std::function<std::vector<c10::IValue>(OpContext&, OpValues grads)> backward = {};
  std::function<void(OpContext&, OpValues inputs, OpValues outputs)> setup_context = {};
  int num_backwards = 0;

  std::string module = {};  ///< that it came from, once registered
  std::shared_ptr<const RegisteredOperator> registered = {};
};

/// Keeps an operator until the host registers it. Reports nothing.
std::shared_ptr<OperatorRecord> record_operator(OperatorRecord record);

/// Keeps a text that registration is to report.
void record_load_problem(std::string problem);

/// Calls an operator through torch's dispatcher. ValueError when it is not registered, or given no tensor.
std::vector<c10::IValue> call_operator(const OperatorRecord& record, std::vector<c10::IValue> arguments);

/// Registers what `module` has recorded with torch's dispatcher. ConfigError, naming the module and each
/// operator that cannot be: a name that is not "ns::name", that is taken, or in a namespace of torch's;
/// argument names that do not fit the function; words of torch's schema language; two backwards, or one of an
/// operator that writes its arguments. The others are registered all the same.
void register_recorded_operators(std::string_view module);

}  // namespace titan
