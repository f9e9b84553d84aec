#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "titan/ops/recorded_operators.h"

namespace titan {

struct NkiOpOptions {
  std::vector<std::string> arguments = {};     ///< their names in the schema; none: arg0, arg1, ...
  std::vector<std::string> mutates_args = {};  ///< names of those that the body writes
};

/// Called after the forward: `f(ctx, inputs, outputs)` keeps in `ctx` what the backward needs.
using SetupContext = std::function<void(OpContext& ctx, OpValues inputs, OpValues outputs)>;

struct AutogradOptions {
  SetupContext setup_context = {};
};

namespace detail {

/// How a C++ type stands in a schema, and how it goes into a c10::IValue and comes out of one.
template <class T>
struct OpType {
  static_assert(
      !std::is_same_v<T, T>,
      "an nki_op takes and returns at::Tensor, std::vector<at::Tensor>, int64_t (not int), double (not "
      "float), bool, std::string and std::optional of these; it takes at::TensorList too, and returns "
      "several in a std::tuple or std::pair");
  static std::string schema();
  static T from(const c10::IValue& value);
};

template <>
struct OpType<at::Tensor> {
  static std::string schema() { return "Tensor"; }
  static at::Tensor from(const c10::IValue& value) { return value.toTensor(); }
};
template <>
struct OpType<std::vector<at::Tensor>> {
  static std::string schema() { return "Tensor[]"; }
  static std::vector<at::Tensor> from(const c10::IValue& value) { return value.toTensorVector(); }
};
template <>
struct OpType<at::TensorList> : OpType<std::vector<at::Tensor>> {};
template <>
struct OpType<int64_t> {
  static std::string schema() { return "int"; }
  static int64_t from(const c10::IValue& value) { return value.toInt(); }
};
template <>
struct OpType<double> {
  static std::string schema() { return "float"; }
  static double from(const c10::IValue& value) { return value.toDouble(); }
};
template <>
struct OpType<bool> {
  static std::string schema() { return "bool"; }
  static bool from(const c10::IValue& value) { return value.toBool(); }
};
template <>
struct OpType<std::string> {
  static std::string schema() { return "str"; }
  static std::string from(const c10::IValue& value) { return value.toStringRef(); }
};
template <class T>
struct OpType<std::optional<T>> {
  static std::string schema() { return OpType<T>::schema() + "?"; }
  static std::optional<T> from(const c10::IValue& value) {
    if (value.isNone()) return std::nullopt;
    return OpType<T>::from(value);
  }
};

template <class T>
c10::IValue op_value(const T& value) {
  if constexpr (std::is_same_v<T, at::TensorList>) return c10::IValue(value.vec());
  return c10::IValue(value);
}

/// The results of an operator: none, one, or several in a tuple or pair.
template <class R>
struct OpResults {
  static std::vector<std::string> schemas() { return {OpType<R>::schema()}; }
  static std::vector<c10::IValue> values(R result) { return {op_value(result)}; }
  static R from(const std::vector<c10::IValue>& values) { return OpType<R>::from(values.at(0)); }
  static constexpr size_t kCount = 1;
};
template <>
struct OpResults<void> {
  static std::vector<std::string> schemas() { return {}; }
  static constexpr size_t kCount = 0;
};
template <class... R>
struct OpResults<std::tuple<R...>> {
  static std::vector<std::string> schemas() { return {OpType<R>::schema()...}; }
  static std::vector<c10::IValue> values(const std::tuple<R...>& results) {
    return std::apply([](const R&... result) { return std::vector<c10::IValue>{op_value(result)...}; },
                      results);
  }
  static std::tuple<R...> from(const std::vector<c10::IValue>& values) {
    return from(values, std::index_sequence_for<R...>());
  }
  static constexpr size_t kCount = sizeof...(R);

 private:
  template <size_t... I>
  static std::tuple<R...> from(const std::vector<c10::IValue>& values, std::index_sequence<I...>) {
    return {OpType<R>::from(values.at(I))...};
  }
};
template <class A, class B>
struct OpResults<std::pair<A, B>> {
  using Tuple = OpResults<std::tuple<A, B>>;
  static std::vector<std::string> schemas() { return Tuple::schemas(); }
  static std::vector<c10::IValue> values(const std::pair<A, B>& pair) { return Tuple::values(pair); }
  static std::pair<A, B> from(const std::vector<c10::IValue>& values) {
    auto [a, b] = Tuple::from(values);
    return {std::move(a), std::move(b)};
  }
  static constexpr size_t kCount = 2;
};

/// A function that takes typed arguments, as one that takes values. TensorList arguments live in a vector for
/// the call.
template <class... Args, class Call, size_t... I>
decltype(auto) call_with_values(const Call& call, [[maybe_unused]] OpValues values,
                                std::index_sequence<I...>) {
  [[maybe_unused]] auto typed = std::tuple(OpType<std::remove_cvref_t<Args>>::from(values[I])...);
  return call(static_cast<Args>(std::get<I>(typed))...);
}

template <class R, class... Args>
std::function<std::vector<c10::IValue>(OpValues)> untyped_body(std::function<R(Args...)> body) {
  return [body](OpValues values) -> std::vector<c10::IValue> {
    const auto call = [&]() -> R {
      return call_with_values<Args...>(body, values, std::index_sequence_for<Args...>());
    };
    if constexpr (std::is_void_v<R>) {
      call();
      return {};
    } else {
      return OpResults<R>::values(call());
    }
  };
}

/// The gradients that a backward returns, one an argument; a vector has as many as it has elements.
inline std::vector<c10::IValue> gradient_values(const std::vector<at::Tensor>& grads) {
  return {grads.begin(), grads.end()};
}
inline std::vector<c10::IValue> gradient_values(const at::Tensor& grad) { return {grad}; }
template <class... T>
std::vector<c10::IValue> gradient_values(const std::tuple<T...>& grads) {
  return OpResults<std::tuple<T...>>::values(grads);
}
template <class A, class B>
std::vector<c10::IValue> gradient_values(const std::pair<A, B>& grads) {
  return OpResults<std::pair<A, B>>::values(grads);
}

template <class Results, class R, class... Grads>
std::function<std::vector<c10::IValue>(OpContext&, OpValues)> untyped_backward(
    std::function<R(OpContext&, Grads...)> backward) {
  static_assert(sizeof...(Grads) == Results::kCount,
                "a backward takes the context and one gradient per result");
  return [backward](OpContext& ctx, OpValues grads) {
    const auto with_context = [&](Grads... typed) { return backward(ctx, std::forward<Grads>(typed)...); };
    return gradient_values(
        call_with_values<Grads...>(with_context, grads, std::index_sequence_for<Grads...>()));
  };
}

}  // namespace detail

/// An operator of a module, called like the function that it was made of. Copies are the same operator.
template <class Signature>
class NkiOp;
template <class R, class... Args>
class NkiOp<R(Args...)> {
 public:
  explicit NkiOp(std::shared_ptr<OperatorRecord> record) : record_(std::move(record)) {}

  /// Through torch's dispatcher. ValueError before the module is loaded, and when no tensor is given.
  R operator()(Args... args) const {
    auto results = call_operator(*record_, {detail::op_value<std::remove_cvref_t<Args>>(args)...});
    if constexpr (!std::is_void_v<R>) return detail::OpResults<R>::from(results);
  }

  /// `backward(ctx, grad_results...)` returns one gradient per argument of the operator, an undefined tensor
  /// for each that has none: in a vector, a tuple (which may hold a vector for a list of tensors), or alone.
  /// It is given zeros where no gradient arrived, and runs without recording: no second derivatives.
  template <class Backward>
  NkiOp register_autograd(Backward backward, AutogradOptions options = {}) const {
    record_->backward = detail::untyped_backward<detail::OpResults<R>>(std::function(std::move(backward)));
    record_->setup_context = std::move(options.setup_context);
    ++record_->num_backwards;
    return *this;
  }
  /// The same, as `.register_autograd(backward, setup_context)`.
  template <class Backward, class Setup>
    requires std::is_invocable_v<Setup&, OpContext&, OpValues, OpValues>
  NkiOp register_autograd(Backward backward, Setup setup_context) const {
    return register_autograd(std::move(backward), AutogradOptions{std::move(setup_context)});
  }

 private:
  std::shared_ptr<OperatorRecord> record_;
};

namespace detail {
template <class R, class... Args>
NkiOp<R(Args...)> record_nki_op(std::string name, std::function<R(Args...)> body, NkiOpOptions options) {
  OperatorRecord record{.name = std::move(name),
                        .argument_types = {OpType<std::remove_cvref_t<Args>>::schema()...},
                        .arguments = std::move(options.arguments),
                        .mutates_args = std::move(options.mutates_args),
                        .result_types = OpResults<R>::schemas(),
                        .body = untyped_body(std::move(body))};
  return NkiOp<R(Args...)>(record_operator(std::move(record)));
}
}  // namespace detail

/// Makes a function an operator of torch's, `ns::name`, with the schema of its type: it takes at::Tensor,
/// std::optional of it, std::vector of it or at::TensorList, int64_t, double, bool and std::string, and
/// returns nothing, tensors, or a tuple or pair of them. The body runs on cpu, on neuron (on the same bytes,
/// seen from the host), and on Meta, where it is the shape function; it runs without recording. What it
/// returns is the caller's alone: no argument (copy it, or name it in mutates_args and return nothing), no
/// tensor that it keeps, and none twice. It writes no argument that mutates_args does not name. ValueError
/// for all these, at the call.
///
/// For namespace scope of a module: it records, and cannot throw; the operator is there once the module is
/// loaded.
template <class Fn>
auto nki_op(std::string name, Fn body, NkiOpOptions options = {}) {
  return detail::record_nki_op(std::move(name), std::function(std::move(body)), std::move(options));
}

}  // namespace titan
