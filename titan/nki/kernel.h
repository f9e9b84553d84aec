#pragma once

#include <functional>
#include <string>
#include <tuple>
#include <utility>

#include "titan/nki/core.h"
#include "titan/nki/isa.h"
#include "titan/nki/language.h"

namespace titan::nki {

/// A kernel bound to nothing yet: a function of tensors and an options struct. `simulate(kernel)[2](args...)`
/// runs it on the simulated cores and returns what the function returned on core 0.
template <class Result, class... Args>
class Simulation {
 public:
  explicit Simulation(Result (*kernel)(Args...)) : kernel_(kernel) {}

  Simulation operator[](int64_t lnc) const {
    Simulation other = *this;
    other.options_.lnc = lnc;
    return other;
  }
  Simulation with(RunOptions options) const {
    Simulation other = *this;
    options.lnc = options_.lnc;
    other.options_ = options;
    return other;
  }

  Result operator()(Args... args) const { return run(nullptr, std::move(args)...); }

  /// The same, leaving the record of the run (RunOptions::record is set).
  Result run(KernelRun* record, Args... args) const {
    std::optional<Result> result;
    RunOptions options = options_;
    options.record = options.record || record != nullptr;
    KernelRun done = run_on_cores(options, [&] {
      Result mine = kernel_(args...);
      if (language::program_id() == 0) result = std::move(mine);
    });
    if (record != nullptr) *record = std::move(done);
    return std::move(*result);
  }

 private:
  Result (*kernel_)(Args...);
  RunOptions options_;
};

template <class Result, class... Args>
Simulation<Result, Args...> simulate(Result (*kernel)(Args...)) {
  return Simulation<Result, Args...>(kernel);
}

}  // namespace titan::nki
