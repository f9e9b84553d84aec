#pragma once

#include "titan/ops/device.h"
#include "titan/ops/profile_range.h"

namespace titan {

/// A stretch of a run under one name: a range in traces, and what the device's account of its memory says
/// holds what is allocated from its beginning to the next one's.
class Phase {
 public:
  /// `name` lives for ever: "forward".
  explicit Phase(const char* name) : range_(name) { set_device_phase(name); }

 private:
  ProfileRange range_;
};

}  // namespace titan
