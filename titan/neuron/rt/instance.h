#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace titan::neuron {

/// The emulated machine, a trn2.48xlarge: 16 Trainium2 chips of 8 physical NeuronCores and 96 GiB of HBM
/// each. LNC (logical NeuronCore configuration) physical cores form the logical core that one process uses.
struct Instance {
  static constexpr int64_t kChips = 16, kPhysicalCoresPerChip = 8;
  static constexpr int64_t kHbmBytesPerChip = int64_t{96} << 30;

  int64_t lnc = 2;
  /// HBM of one logical core: its share of the chip's (24 GiB at LNC 2, 12 GiB at LNC 1) or what
  /// TITAN_NEURON_HBM_GIB says.
  int64_t hbm_bytes = 0;
  /// Logical cores that processes may use; local rank r takes the r-th.
  std::vector<int64_t> visible_cores;

  /// Reads NEURON_LOGICAL_NC_CONFIG (1 or 2), NEURON_RT_VISIBLE_CORES ("0-3", "0,2,5-7"; logical cores, order
  /// kept), NEURON_RT_NUM_CORES (the first n of the machine; 0 for all; beside a list of cores the list wins)
  /// and TITAN_NEURON_HBM_GIB (a number, fractions allowed). ConfigError naming the variable, its value and
  /// what is allowed.
  static Instance from_env();

  int64_t cores_per_chip() const { return kPhysicalCoresPerChip / lnc; }
  /// Logical cores of the machine: 64 at LNC 2, 128 at LNC 1.
  int64_t num_cores() const { return kChips * cores_per_chip(); }
  int64_t chip_of(int64_t core) const { return core / cores_per_chip(); }

  /// The logical core of a process. ConfigError, the same on every rank, when there are more processes than
  /// visible cores.
  int64_t core_of(int64_t local_rank, int64_t local_world_size) const;

  /// Dense bfloat16 peak of one logical core, FLOP/s: 79e12 for each physical core.
  double peak_flops() const { return 79e12 * static_cast<double>(lnc); }
};

}  // namespace titan::neuron
