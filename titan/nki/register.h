#pragma once

#include <cstdint>
#include <memory>

namespace titan::nki {

/// A 32-bit number of a core's sequencer. Copies are the same register.
class Register {
 public:
  explicit Register(int64_t value = 0) : value_(std::make_shared<int64_t>(value)) {}
  int64_t value() const { return *value_; }
  void set(int64_t value) { *value_ = value; }

 private:
  std::shared_ptr<int64_t> value_;
};

}  // namespace titan::nki
