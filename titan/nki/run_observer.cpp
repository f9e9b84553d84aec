#include "titan/nki/run_observer.h"

#include <utility>

#include "titan/base/error.h"

namespace titan::nki {
namespace {

const RunObserver::Observe* living_observer = nullptr;

}  // namespace

RunObserver::RunObserver(Observe observe) : observe_(std::move(observe)) {
  check(living_observer == nullptr, "one observer of kernels at a time");
  living_observer = &observe_;
}

RunObserver::~RunObserver() { living_observer = nullptr; }

const RunObserver::Observe* RunObserver::current() { return living_observer; }

}  // namespace titan::nki
