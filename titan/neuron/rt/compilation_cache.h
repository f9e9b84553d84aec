#pragma once

#include <cstdint>
#include <filesystem>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "titan/neuron/rt/cost.h"

namespace titan::neuron {

/// TorchNeuron's statistics of its cache, by its names. What memory does not have is looked for on disk, and
/// what neither has is compiled: cache_hits = in_memory_hits + persistent_hits, in_memory_misses =
/// persistent_hits + cache_misses, cache_misses = total_compilations. persistent_misses = cache_misses where
/// there is a folder; without one both persistent counts stay 0.
struct CompilationStatistics {
  int64_t total_entries = 0;
  int64_t in_memory_hits = 0, in_memory_misses = 0;
  int64_t persistent_hits = 0, persistent_misses = 0;
  int64_t cache_hits = 0, cache_misses = 0;
  int64_t total_compilations = 0;
  int64_t evictions_performed = 0;
  int64_t max_cache_entries = 0;
  int64_t memory_usage_bytes = 0;  ///< of the entries in memory with their signatures
  int64_t max_cache_size_bytes = 0;
  double total_compilation_time_ms = 0;  ///< of the emulation, not of neuronx-cc

  double hit_rate() const;                  ///< of all look-ups, 0 to 1
  double memory_utilization_ratio() const;  ///< of max_cache_size_bytes
};

/// Where compiled operators would be kept.
struct CacheOptions {
  /// Empty: nothing is kept on disk.
  std::filesystem::path folder;
  /// In memory; the least recently used goes first.
  int64_t max_entries = 1 << 16, max_bytes = int64_t{64} << 20;

  /// TORCH_NEURONX_NEFF_CACHE_DIR, else "neuron" in the user's cache folder; none with
  /// TORCH_NEURONX_NEFF_DISABLE_CACHE=1 or TORCH_NEURONX_DISABLE_NEFF_CACHE=1. ConfigError for other values
  /// than 0 and 1.
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

  /// The cost of a signature that is in memory (counted as a hit), or nothing: then call compile(), which
  /// counts the miss. The hash is of the signature.
  std::optional<EngineTimes> find(uint64_t hash);

  /// Brings a signature into memory from disk, or compiles it and leaves it on disk;
  /// TORCH_NEURONX_LOG_LEVEL=3 logs which. Threads that come with one signature compile it once.
  EngineTimes compile(uint64_t hash, const std::string& signature, const EngineTimes& cost);

  CompilationStatistics statistics() const;

 private:
  struct Entry {
    uint64_t hash = 0;
    std::string signature;
    EngineTimes cost;

    int64_t bytes() const { return static_cast<int64_t>(sizeof(Entry) + signature.size()); }
  };

  std::optional<EngineTimes> find_signature(uint64_t hash, const std::string& signature);
  bool load(uint64_t hash, const std::string& signature) const;
  void store(uint64_t hash, const std::string& signature);
  void keep(Entry entry);
  void remove(std::list<Entry>::iterator entry);

  const CacheOptions options_;
  const bool logs_;

  std::mutex compiler_;   // one compilation at a time; find() does not wait for it
  bool writable_ = true;  // the folder; guarded by compiler_

  mutable std::mutex mutex_;  // what follows
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<uint64_t, std::list<Entry>::iterator> by_hash_;
  CompilationStatistics statistics_;
};

}  // namespace titan::neuron
