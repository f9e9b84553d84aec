#pragma once

#include <functional>

#include "titan/nki/core.h"

namespace titan::nki {

/// While it lives, every kernel of this process keeps its instructions, and `observe` is given the record of
/// each one that ends without an error, on the thread that started it. One at a time, made and destroyed
/// while no kernel runs.
class RunObserver {
 public:
  using Observe = std::function<void(const KernelRun&)>;

  explicit RunObserver(Observe observe);
  RunObserver(const RunObserver&) = delete;
  RunObserver& operator=(const RunObserver&) = delete;
  ~RunObserver();

  /// The one that lives, or null.
  static const Observe* current();

 private:
  Observe observe_;
};

}  // namespace titan::nki
