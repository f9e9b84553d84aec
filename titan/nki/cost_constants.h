#pragma once

#include <cstdint>

#include "titan/nki/memory.h"

/// The published numbers that costs are made of. None is fitted to a measurement.
namespace titan::nki {

inline constexpr double kMinInterval = 64;       ///< cycles from one instruction's begin to the next one's
inline constexpr double kDynamicInterval = 600;  ///< the same for copies with an address known at run time
inline constexpr double kGpSimdStart = 150;      ///< cycles that GpSimdE takes to start an instruction

/// Cycles from an instruction's end until another engine, or the same one, can use what it has written.
inline constexpr double kAccessLatency = 60;         ///< SBUF and PSUM
inline constexpr double kVectorLatency = 100;        ///< VectorE, dependent instructions
inline constexpr double kScalarLatencyOfTrn1 = 264;  ///< ScalarE of trn1, dependent instructions
inline constexpr double kWeightColumnsPerCycle = 4;  ///< stationary columns that TensorE loads in a cycle

inline constexpr int64_t kDmaQueues = 16;
inline constexpr double kDmaLatency = 1.3e-6;  ///< seconds: start and completion of a transfer

/// Bytes a second of one DMA queue.
constexpr double dma_queue_rate(Generation generation) {
  return generation == Generation::trn1 ? 17e9 : generation == Generation::trn2 ? 23e9 : 33e9;
}

}  // namespace titan::nki
