#pragma once

#include <cstdint>
#include <filesystem>
#include <list>
#include <mutex>
#include <string>
#include <unordered_map>

#include "titan/neuron/rt/cost.h"

namespace titan::neuron {

/// TorchNeuron's statistics of its cache, by its names.
struct CompilationStatistics {
  int64_t total_entries = 0;
  int64_t in_memory_hits = 0, in_memory_misses = 0;
  int64_t persistent_hits = 0, persistent_misses = 0;
  int64_t cache_hits = 0, cache_misses = 0;
  int64_t total_compilations = 0;
  int64_t evictions_performed = 0;
  int64_t max_cache_entries = 0;
  int64_t memory_usage_bytes = 0, max_cache_size_bytes = 0;
  double total_compilation_time_ms = 0;  ///< of the emulation, not of neuronx-cc

  double hit_rate() const;
  double memory_utilization_ratio() const;
};

/// Where compiled operators would be kept.
struct CacheOptions {
  /// Empty: nothing is kept on disk.
  std::filesystem::path folder;
  int64_t max_entries = 1 << 16;  ///< in memory; the least recently used goes first

  /// TORCH_NEURONX_NEFF_CACHE_DIR, TORCH_NEURONX_NEFF_DISABLE_CACHE (and _DISABLE_NEFF_CACHE).
  static CacheOptions from_env();
};

/// The emulated compiler: the first use of a signature (operator, shapes, dtypes) compiles, unless an earlier
/// process has left it on disk. Safe from several threads and processes.
///
/// An entry on disk is <folder>/ab/cd/<hash>.titan: the signature as text, so that a collision or a damaged
/// file is noticed (and compiled again). It never has the name of a real NEFF. A folder that is full or
/// cannot be written warns once and is given up; the run goes on.
class CompilationCache {
 public:
  explicit CompilationCache(CacheOptions options);

  /// The cost of a signature that is in memory, or null: then call compile(). The hash is of the signature.
  const EngineTimes* find(uint64_t hash);

  /// Brings a signature into memory from disk, or compiles it (logged at debug level:
  /// TORCH_NEURONX_LOG_LEVEL=3) and leaves it on disk.
  const EngineTimes& compile(uint64_t hash, const std::string& signature, const EngineTimes& cost);

  CompilationStatistics statistics() const;

 private:
  struct Entry {
    uint64_t hash = 0;
    std::string signature;
    EngineTimes cost;
  };

  bool load(uint64_t hash, const std::string& signature);
  void store(uint64_t hash, const std::string& signature);

  mutable std::mutex mutex_;
  CacheOptions options_;
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<uint64_t, std::list<Entry>::iterator> by_hash_;
  CompilationStatistics statistics_;
};

}  // namespace titan::neuron
