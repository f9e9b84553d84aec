#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>

/// Watches what tensors allocate on this thread.
struct Watch : c10::MemoryReportingInfoBase {
  int64_t now = 0, peak = 0, largest = 0;

  void reportMemoryUsage(void*, int64_t size, size_t, size_t, c10::Device) override {
    now += size;
    peak = std::max(peak, now);
    largest = std::max(largest, size);
  }
  bool memoryProfilingEnabled() const override { return true; }
};

/// What fn allocates, freed parts subtracted.
inline std::shared_ptr<Watch> watch(const std::function<void()>& fn) {
  auto info = std::make_shared<Watch>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, info);
  fn();
  return info;
}
