#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "titan/config/arity.h"
#include "titan/nki/kernel.h"
#include "titan/nki/memory.h"

namespace titan {

/// A torch tensor seen as HBM by a kernel: the same bytes. It lies on `cpu` or `neuron`, or has no data
/// (Meta). ValueError for other devices, for a dtype that NKI does not have (bool is seen as uint8), for one
/// that is not contiguous (kernels address HBM by themselves), and, while gradients are recorded, for one
/// that requires a gradient: a kernel records none.
nki::Tensor nki_tensor(const at::Tensor& tensor);

/// What a kernel has returned as a torch tensor: one that was given to it is that very tensor, a view of it a
/// view, and HBM of the kernel's own a new tensor on `device`.
at::Tensor torch_tensor(const nki::Tensor& result, at::Device device);

/// The HBM of a kernel's own that a tensor on `cpu` lies in, as torch_tensor() has returned it, or a view of
/// that: it knows which bytes were written. Null for other tensors, copies too.
std::shared_ptr<const nki::Allocation> kernel_memory(const at::Tensor& tensor);

/// "1" or "2": the physical NeuronCores of a logical one, by NEURON_LOGICAL_NC_CONFIG, 2 when unset. Never
/// throws, so that a module may ask for it at namespace scope: another value of the variable gives "2" and is
/// reported when the module has been loaded.
std::string get_logical_neuron_cores();

namespace nki {
/// at::Tensor converts to nki::Tensor wherever a kernel takes one.
template <>
struct HbmAccess<at::Tensor> {
  static Tensor tensor(const at::Tensor& other) { return nki_tensor(other); }
};
}  // namespace nki

namespace detail {

/// Calls `visit(const nki::Tensor&)` for each tensor in a kernel's argument: itself, or in an optional, a
/// vector, or a member of an options struct.
template <class T, class Visit>
void visit_tensors(const T& value, const Visit& visit);
template <class Visit>
void visit_tensors(const nki::Tensor& tensor, const Visit& visit) {
  visit(tensor);
}
template <class T, class Visit>
void visit_tensors(const std::optional<T>& value, const Visit& visit) {
  if (value) visit_tensors(*value, visit);
}
template <class T, class Visit>
void visit_tensors(const std::vector<T>& values, const Visit& visit) {
  for (const T& value : values) visit_tensors(value, visit);
}
template <class T, class Visit>
void visit_tensors(const T& value, const Visit& visit) {
  if constexpr (std::is_aggregate_v<T> && !std::is_array_v<T>) {
    constexpr size_t count = arity<T>();
    static_assert(count <= 8,
                  "a kernel's options have at most 8 members: put some into a struct of their own");
    const auto each = [&](const auto&... members) { (visit_tensors(members, visit), ...); };
    if constexpr (count == 1) {
      const auto& [a] = value;
      each(a);
    } else if constexpr (count == 2) {
      const auto& [a, b] = value;
      each(a, b);
    } else if constexpr (count == 3) {
      const auto& [a, b, c] = value;
      each(a, b, c);
    } else if constexpr (count == 4) {
      const auto& [a, b, c, d] = value;
      each(a, b, c, d);
    } else if constexpr (count == 5) {
      const auto& [a, b, c, d, e] = value;
      each(a, b, c, d, e);
    } else if constexpr (count == 6) {
      const auto& [a, b, c, d, e, f] = value;
      each(a, b, c, d, e, f);
    } else if constexpr (count == 7) {
      const auto& [a, b, c, d, e, f, g] = value;
      each(a, b, c, d, e, f, g);
    } else if constexpr (count == 8) {
      const auto& [a, b, c, d, e, f, g, h] = value;
      each(a, b, c, d, e, f, g, h);
    }
  }
}

/// The torch tensors of one call, gathered one argument after another.
class GivenTensors {
 public:
  GivenTensors() = default;
  GivenTensors(const GivenTensors&) = delete;
  GivenTensors& operator=(const GivenTensors&) = delete;
  /// Those that the kernel has written get a new version, also when it failed later on: who saved them for a
  /// backward must notice.
  ~GivenTensors();

  /// ValueError for tensors of two devices.
  void add(const nki::Tensor& tensor);
  /// Where they lie; `cpu` when there is none.
  at::Device device() const { return device_.value_or(at::Device(at::kCPU)); }

 private:
  std::vector<nki::Tensor> tensors_;
  std::optional<at::Device> device_;
};

/// How a call on `device` runs. ValueError unless `lnc` is 1 or 2.
nki::RunOptions kernel_run_options(int64_t lnc, at::Device device);

/// Tells the device that this process has taken, if any, what a kernel has kept the engines busy with.
void count_kernel_work(const nki::KernelRun& run, at::Device device);

inline at::Tensor torch_result(const nki::Tensor& result, at::Device device) {
  return torch_tensor(result, device);
}
template <class T>
auto torch_result(const std::vector<T>& results, at::Device device) {
  std::vector<decltype(torch_result(results[0], device))> converted;
  for (const T& result : results) converted.push_back(torch_result(result, device));
  return converted;
}
template <class... T>
auto torch_result(const std::tuple<T...>& results, at::Device device) {
  return std::apply([&](const T&... result) { return std::tuple(torch_result(result, device)...); }, results);
}
template <class A, class B>
auto torch_result(const std::pair<A, B>& results, at::Device device) {
  return std::pair(torch_result(results.first, device), torch_result(results.second, device));
}

}  // namespace detail

/// A kernel that torch tensors can be given to. `wrapped[lnc](args...)` runs it on `lnc` physical cores and
/// returns what it returned as torch tensors; on Meta tensors its instructions are checked, and shapes come
/// out. KernelError for what breaks a rule of the device.
template <class Result, class... Args>
class WrappedKernel {
 public:
  explicit WrappedKernel(Result (*kernel)(Args...),
                         const std::source_location& where = std::source_location::current())
      : kernel_(kernel), where_(where) {}

  WrappedKernel operator[](int64_t lnc) const {
    WrappedKernel other = *this;
    other.lnc_ = lnc;
    return other;
  }

  auto operator()(Args... args) const {
    detail::GivenTensors given;
    const auto add = [&](const nki::Tensor& tensor) { given.add(tensor); };
    (detail::visit_tensors(args, add), ...);
    const nki::RunOptions options = detail::kernel_run_options(lnc_, given.device());
    const auto simulation = nki::simulate(kernel_, where_).with(options)[lnc_];
    nki::KernelRun run;
    if constexpr (std::is_void_v<Result>) {
      simulation.finish(run, std::forward<Args>(args)...);
      detail::count_kernel_work(run, given.device());
    } else {
      const Result result = simulation.finish(run, std::forward<Args>(args)...);
      detail::count_kernel_work(run, given.device());
      return detail::torch_result(result, given.device());
    }
  }

 private:
  Result (*kernel_)(Args...);
  std::source_location where_;  ///< of wrap_nki, for errors that know no line of the kernel
  int64_t lnc_ = 1;
};

/// Makes a kernel, a function of nki::Tensor and an options struct, callable with torch tensors. It has no
/// gradient by itself: nki_op (titan/ops/nki_op.h) gives it one.
template <class Result, class... Args>
WrappedKernel<Result, Args...> wrap_nki(Result (*kernel)(Args...),
                                        const std::source_location& where = std::source_location::current()) {
  return WrappedKernel<Result, Args...>(kernel, where);
}

}  // namespace titan
