#include "titan/neuron/rt/compilation_cache.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

#include "titan/base/clock.h"
#include "titan/base/env.h"
#include "titan/base/error.h"
#include "titan/base/file.h"
#include "titan/base/log.h"

namespace titan::neuron {

namespace fs = std::filesystem;

namespace {

bool is_switched_on(const char* name) {
  const std::string value = env(name).value_or("0");
  if (value != "0" && value != "1") {
    throw ConfigError("{} is 1 (nothing is kept on disk) or 0, not '{}'", name, value);
  }
  return value == "1";
}

bool logs_compilations() {
  const std::string level = env("TORCH_NEURONX_LOG_LEVEL").value_or("");
  return level == "3" || level == "debug";
}

/// 16 hexadecimal digits.
std::string key_text(uint64_t hash) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text(16, '0');
  for (size_t i = text.size(); i-- > 0; hash >>= 4) text[i] = kDigits[hash & 15];
  return text;
}

fs::path entry_path(const fs::path& folder, uint64_t hash) {
  const std::string key = key_text(hash);
  return folder / key.substr(0, 2) / key.substr(2, 2) / (key + ".titan");
}

/// Nothing is synced, unlike write_file_atomic: a first step writes hundreds of entries, and one that a crash
/// of the machine has torn is noticed.
std::error_code write_entry(const fs::path& path, std::string_view text) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) return error;
  // Processes of two containers may have the same id.
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  const std::string temporary = path.string() + format(".{}-{}.tmp", ::getpid(), now);
  const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return {errno, std::generic_category()};
  while (!error && !text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      error = {errno, std::generic_category()};
    }
  }
  if (::close(file) != 0 && !error) error = {errno, std::generic_category()};
  if (!error) fs::rename(temporary, path, error);
  if (error) ::unlink(temporary.c_str());
  return error;
}

double fraction_of(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

}  // namespace

double CompilationStatistics::hit_rate() const { return fraction_of(cache_hits, cache_hits + cache_misses); }

double CompilationStatistics::memory_utilization_ratio() const {
  return fraction_of(memory_usage_bytes, max_cache_size_bytes);
}

CacheOptions CacheOptions::from_env() {
  CacheOptions options;
  const bool disabled = is_switched_on("TORCH_NEURONX_NEFF_DISABLE_CACHE");
  if (is_switched_on("TORCH_NEURONX_DISABLE_NEFF_CACHE") || disabled) return options;
  const auto folder = env("TORCH_NEURONX_NEFF_CACHE_DIR");
  options.folder = folder ? fs::path(*folder) : cache_folder() / "neuron";
  return options;
}

CompilationCache::CompilationCache(CacheOptions options)
    : options_(std::move(options)), logs_(logs_compilations()) {
  check(options_.max_entries > 0 && options_.max_bytes > 0, "a compilation cache has room for an entry");
  statistics_.max_cache_entries = options_.max_entries;
  statistics_.max_cache_size_bytes = options_.max_bytes;
}

std::optional<EngineTimes> CompilationCache::find(uint64_t hash) {
  const std::lock_guard lock(mutex_);
  const auto found = by_hash_.find(hash);
  if (found == by_hash_.end()) return std::nullopt;
  ++statistics_.in_memory_hits;
  ++statistics_.cache_hits;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->cost;
}

std::optional<EngineTimes> CompilationCache::find_signature(uint64_t hash, const std::string& signature) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = by_hash_.find(hash);
    const bool is_same = found != by_hash_.end() && found->second->signature == signature;
    if (!is_same) {
      ++statistics_.in_memory_misses;
      return std::nullopt;
    }
  }
  return find(hash);
}

EngineTimes CompilationCache::compile(uint64_t hash, const std::string& signature, const EngineTimes& cost) {
  const std::lock_guard compiling(compiler_);
  // Another thread may have compiled it since this one's find().
  if (const auto found = find_signature(hash, signature)) return *found;

  const Stopwatch watch;
  const bool on_disk = load(hash, signature);
  if (!on_disk) store(hash, signature);
  if (logs_) {
    log_info("[NEFF_CACHE] Cache {} for key: {} ({}), {}", on_disk ? "HIT" : "MISS", key_text(hash),
             signature, on_disk ? "found on disk" : "compiled (emulated)");
  }
  const std::lock_guard lock(mutex_);
  if (on_disk) {
    ++statistics_.persistent_hits;
    ++statistics_.cache_hits;
  } else {
    if (!options_.folder.empty()) ++statistics_.persistent_misses;
    ++statistics_.cache_misses;
    ++statistics_.total_compilations;
    statistics_.total_compilation_time_ms += watch.seconds() * 1e3;
  }
  keep({hash, signature, cost});
  return cost;
}

bool CompilationCache::load(uint64_t hash, const std::string& signature) const {
  if (options_.folder.empty()) return false;
  const fs::path path = entry_path(options_.folder, hash);
  std::error_code ignored;
  // Opening a pipe would wait for a writer.
  if (!fs::is_regular_file(path, ignored)) return false;
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return text == signature + '\n';
}

void CompilationCache::store(uint64_t hash, const std::string& signature) {
  if (options_.folder.empty() || !writable_) return;
  const fs::path path = entry_path(options_.folder, hash);
  const std::error_code error = write_entry(path, signature + '\n');
  if (!error) return;
  if (error == std::errc::is_a_directory) {  // the others may still have room
    warn_once(format("cannot keep a compiled operator in {}: it is a folder; remove it", path.string()));
    return;
  }
  writable_ = false;
  warn_once(
      format("cannot keep compiled operators in {}: {}. The run goes on and keeps no more of them on disk; "
             "TORCH_NEURONX_NEFF_CACHE_DIR chooses another folder",
             options_.folder.string(), error.message()));
}

void CompilationCache::keep(Entry entry) {
  if (const auto old = by_hash_.find(entry.hash); old != by_hash_.end()) remove(old->second);
  entries_.push_front(std::move(entry));
  by_hash_[entries_.front().hash] = entries_.begin();
  ++statistics_.total_entries;
  statistics_.memory_usage_bytes += entries_.front().bytes();
  while (entries_.size() > 1 && (statistics_.total_entries > options_.max_entries ||
                                 statistics_.memory_usage_bytes > options_.max_bytes)) {
    remove(std::prev(entries_.end()));
    ++statistics_.evictions_performed;
  }
}

void CompilationCache::remove(std::list<Entry>::iterator entry) {
  --statistics_.total_entries;
  statistics_.memory_usage_bytes -= entry->bytes();
  by_hash_.erase(entry->hash);
  entries_.erase(entry);
}

CompilationStatistics CompilationCache::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

}  // namespace titan::neuron
