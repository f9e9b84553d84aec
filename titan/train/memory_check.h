#pragma once

#include <cstdint>

#include "titan/train/trainer_config.h"

namespace titan {

/// What the memory of a machine has to hold.
struct MemoryDemand {
  int64_t weight_bytes = 0;    ///< weights that one rank keeps
  int64_t unit_bytes = 0;      ///< the largest unit of weights that FSDP gathers whole; 0 without FSDP
  int64_t ranks = 1;           ///< on this machine
  int64_t capacity_bytes = 0;  ///< of its memory
  int64_t swap_bytes = 0;
  int64_t hbm_bytes = 0;      ///< memory of the device that one rank has for itself; 0: the CPU trains
  bool emulated_hbm = false;  ///< it is taken from the machine's memory
};

/// CommonError with an estimate when weights, gradients, optimizer moments and what FSDP gathers cannot fit:
/// those of one rank into its device, those of all ranks of this machine into its memory, unless a device
/// holds them instead; activations are not counted. Memory is only taken as it is written to:
/// without this check a job that is too large would be killed by the system without a word, after minutes.
void require_memory(const TrainerConfig& config, const MemoryDemand& demand);

}  // namespace titan
