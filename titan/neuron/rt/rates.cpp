#include <algorithm>

#include "titan/base/error.h"
#include "titan/neuron/rt/cost.h"

// Trainium2's documented rates, of a chip or of one of its physical cores; docs/neuron.md names the pages.

namespace titan::neuron {

namespace {

constexpr double kCoresPerChip = 8, kLanes = 128;
constexpr double kVectorClock = 0.96e9, kScalarClock = 1.2e9;  // Hz
constexpr double kVectorElements16 = 4;                   // at most, of 16 bits, a cycle and lane; else 1
constexpr double kChipHbm = 2.9e12, kChipLink = 1.28e12;  // B/s

bool has_16_bits(DeviceDtype dtype) { return element_bytes(dtype) == 2; }

}  // namespace

Rates::Rates(int64_t lnc) : cores_(static_cast<double>(lnc)) {
  check(lnc == 1 || lnc == 2, "a logical core is one or two physical ones");
}

double Rates::matmul_flops(DeviceDtype dtype) const {
  if (dtype == DeviceDtype::float8) return 158e12 * cores_;
  if (dtype == DeviceDtype::bfloat16 || dtype == DeviceDtype::float16) return 79e12 * cores_;
  return 20e12 * cores_;
}

double Rates::vector_elements(DeviceDtype dtype) const {
  return kVectorClock * kLanes * (has_16_bits(dtype) ? kVectorElements16 : 1) * cores_;
}

double Rates::scalar_elements() const { return kScalarClock * kLanes * cores_; }
double Rates::hbm_bytes() const { return kChipHbm / kCoresPerChip * cores_; }
double Rates::link_bytes() const { return kChipLink / kCoresPerChip * cores_; }

EngineTimes times_of(const Work& work, const Rates& rates) {
  return {.tensor = work.flops / rates.matmul_flops(work.dtype),
          .vector = work.vector_elements / rates.vector_elements(work.dtype),
          .scalar = work.scalar_elements / rates.scalar_elements(),
          .hbm = work.bytes / rates.hbm_bytes()};
}

EngineTimes& EngineTimes::operator+=(const EngineTimes& other) {
  tensor += other.tensor;
  vector += other.vector;
  scalar += other.scalar;
  gpsimd += other.gpsimd;
  hbm += other.hbm;
  link += other.link;
  return *this;
}

double EngineTimes::longest() const { return std::max({tensor, vector, scalar, gpsimd, hbm, link}); }

}  // namespace titan::neuron
