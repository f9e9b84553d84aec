#pragma once

#include <functional>
#include <optional>
#include <source_location>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "titan/nki/core.h"
#include "titan/nki/isa.h"
#include "titan/nki/language.h"

namespace titan::nki {

/// What a kernel returns must outlive its core: "launch.result-buffer" for tensors of SBUF and PSUM.
void check_result(const Tensor& tensor);
template <class T>
void check_result(const std::vector<T>& results) {
  for (const T& result : results) check_result(result);
}
template <class... T>
void check_result(const std::tuple<T...>& results) {
  std::apply([](const T&... result) { (check_result(result), ...); }, results);
}
template <class A, class B>
void check_result(const std::pair<A, B>& results) {
  check_result(results.first);
  check_result(results.second);
}

/// A kernel bound to nothing yet: a function of tensors and an options struct. `simulate(kernel)[2](args...)`
/// runs it on the simulated cores and returns what the function returned on core 0: nothing, or tensors of
/// HBM, alone or in a tuple, pair or vector. Called inside of another kernel it is inlined, and returns on
/// every core what it returns there.
template <class Result, class... Args>
class Simulation {
 public:
  explicit Simulation(Result (*kernel)(Args...),
                      const std::source_location& where = std::source_location::current())
      : kernel_(kernel), where_(where) {}

  Simulation operator[](int64_t lnc) const {
    Simulation other = *this;
    other.options_.lnc = lnc;
    return other;
  }
  /// Runs with these options, but for the number of cores.
  Simulation with(RunOptions options) const {
    Simulation other = *this;
    options.lnc = options_.lnc;
    other.options_ = options;
    return other;
  }

  Result operator()(Args... args) const {
    KernelRun ignored;
    return finish(ignored, std::forward<Args>(args)...);
  }

  /// The same, leaving the record of the run (RunOptions::record is set).
  Result run(KernelRun* record, Args... args) const {
    Simulation recorded = *this;
    recorded.options_.record = true;
    return recorded.finish(*record, std::forward<Args>(args)...);
  }

  /// The same, leaving what the options ask for.
  Result finish(KernelRun& done, Args... args) const {
    if constexpr (std::is_void_v<Result>) {
      done = run_on_cores(options_, [&] { kernel_(args...); }, where_);
    } else {
      std::optional<Result> result;
      const bool is_nested = is_in_kernel();
      const auto body = [&] {
        Result mine = kernel_(args...);
        if (!is_nested) check_result(mine);
        if (is_nested || current_core().id() == 0) result.emplace(std::move(mine));
      };
      done = run_on_cores(options_, body, where_);
      return std::move(*result);
    }
  }

 private:
  Result (*kernel_)(Args...);
  RunOptions options_;
  std::source_location where_;  ///< of what knows no line of the kernel
};

template <class Result, class... Args>
Simulation<Result, Args...> simulate(Result (*kernel)(Args...),
                                     const std::source_location& where = std::source_location::current()) {
  return Simulation<Result, Args...>(kernel, where);
}

}  // namespace titan::nki
