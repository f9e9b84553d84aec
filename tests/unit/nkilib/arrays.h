#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "titan/nki.h"
#include "titan/nki/memory.h"

/// What tests of kernels share: arrays of the host that kernels see as HBM.
namespace titan::nkilib::testing {

using nki::Dtype;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// What a dtype makes of a number.
inline float rounded(float value, Dtype dtype) {
  std::byte bits[4];
  nki::from_float(&value, dtype, bits, 1);
  nki::to_float(bits, dtype, &value, 1);
  return value;
}

/// Numbers in -scale .. scale.
inline std::vector<float> draw(int64_t count, uint32_t seed, float scale = 3) {
  std::vector<float> drawn(static_cast<size_t>(count));
  for (float& value : drawn) {
    seed = seed * 1664525U + 1013904223U;
    value = (static_cast<float>(seed >> 8) / 8388608.0F - 1.0F) * scale;
  }
  return drawn;
}

/// An array with NaNs before and behind it that have to stay.
class Array {
 public:
  /// NaNs.
  Array(std::vector<int64_t> shape, Dtype dtype) : shape_(std::move(shape)), dtype_(dtype) {
    count_ = 1;
    for (const int64_t size : shape_) count_ *= size;
    bytes_.resize(static_cast<size_t>((count_ + 2 * kGuard) * nki::itemsize(dtype)));
    const std::vector<float> nans(static_cast<size_t>(count_ + 2 * kGuard), kNaN);
    nki::from_float(nans.data(), dtype, bytes_.data(), count_ + 2 * kGuard);
  }
  Array(std::vector<int64_t> shape, Dtype dtype, const std::vector<float>& values)
      : Array(std::move(shape), dtype) {
    nki::from_float(values.data(), dtype, begin(), count_);
  }

  nki::Tensor tensor(const std::string& name = "x") {
    return nki::host_tensor(name, shape_, dtype_, begin(), nullptr);
  }
  int64_t count() const { return count_; }
  std::vector<float> values() const {
    std::vector<float> all_values(static_cast<size_t>(count_));
    nki::to_float(begin(), dtype_, all_values.data(), count_);
    return all_values;
  }
  bool guards_are_whole() const {
    std::vector<float> guards(static_cast<size_t>(2 * kGuard));
    nki::to_float(bytes_.data(), dtype_, guards.data(), kGuard);
    nki::to_float(begin() + count_ * nki::itemsize(dtype_), dtype_, guards.data() + kGuard, kGuard);
    for (const float guard : guards)
      if (!std::isnan(guard)) return false;
    return true;
  }

 private:
  static constexpr int64_t kGuard = 64;

  std::byte* begin() { return bytes_.data() + kGuard * nki::itemsize(dtype_); }
  const std::byte* begin() const { return bytes_.data() + kGuard * nki::itemsize(dtype_); }

  std::vector<int64_t> shape_;
  Dtype dtype_;
  int64_t count_ = 0;
  std::vector<std::byte> bytes_;
};

/// The numbers of what a kernel returned.
inline std::vector<float> values_of(const nki::Tensor& hbm) {
  std::vector<float> values(static_cast<size_t>(hbm.numel()));
  nki::to_float(hbm.allocation()->data, hbm.dtype(), values.data(), hbm.numel());
  return values;
}

/// The largest |a - b|; infinite where one of them is not a number.
inline double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (!(difference <= largest)) {
      largest = std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
    }
  }
  return largest;
}

}  // namespace titan::nkilib::testing
