#include "titan/neuron/rt/compilation_cache.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <thread>
#include <vector>

#include "titan/base/error.h"
#include "titan/base/file.h"

using namespace titan;
using namespace titan::neuron;
namespace fs = std::filesystem;

namespace {

/// A folder of this test's own.
struct CacheFolder {
  CacheFolder() {
    char name[] = "/tmp/titan-cache-test-XXXXXX";
    path = mkdtemp(name);
  }
  ~CacheFolder() { fs::remove_all(path); }
  CacheFolder(const CacheFolder&) = delete;
  CacheFolder& operator=(const CacheFolder&) = delete;
  fs::path path;
};

/// Sets environment variables (null: unsets) until it ends.
class Environment {
 public:
  Environment(std::initializer_list<std::pair<const char*, const char*>> values) {
    for (const auto& [name, value] : values) {
      const char* old = std::getenv(name);
      before_.emplace_back(name, old ? std::optional<std::string>(old) : std::nullopt);
      set(name, value);
    }
  }
  ~Environment() {
    for (const auto& [name, value] : before_) set(name, value ? value->c_str() : nullptr);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  static void set(const char* name, const char* value) {
    value ? ::setenv(name, value, 1) : ::unsetenv(name);
  }
  std::vector<std::pair<const char*, std::optional<std::string>>> before_;
};

/// What `body` writes to stderr.
std::string errors_of(const std::function<void()>& body) {
  const CacheFolder folder;
  const int file = ::open((folder.path / "err").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  const int before = ::dup(STDERR_FILENO);
  ::dup2(file, STDERR_FILENO);
  body();
  ::dup2(before, STDERR_FILENO);
  ::close(before);
  ::close(file);
  return read_file(folder.path / "err");
}

int64_t count_of(std::string_view text, std::string_view part) {
  int64_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

int64_t files_in(const fs::path& folder) {
  int64_t count = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) count += entry.is_directory() ? 0 : 1;
  return count;
}

CacheOptions options_for(fs::path folder) {
  CacheOptions options;
  options.folder = std::move(folder);
  return options;
}

EngineTimes cost_of(double tensor) {
  EngineTimes cost;
  cost.tensor = tensor;
  return cost;
}

constexpr uint64_t kHash = 0xabcd'0123'4567'00ef;
const std::string kSignature = "aten::mm(float32[2, 3], float32[3, 4])";
const fs::path kEntry = "ab/cd/abcd0123456700ef.titan";

void check_consistent(const CompilationStatistics& s) {
  CHECK(s.cache_hits == s.in_memory_hits + s.persistent_hits);
  CHECK(s.in_memory_misses == s.persistent_hits + s.cache_misses);
  CHECK(s.cache_misses == s.total_compilations);
}

}  // namespace

TEST_CASE("a signature is compiled once, kept in memory and on disk, and another process finds it there") {
  const CacheFolder folder;
  CompilationCache cache(options_for(folder.path));
  CHECK_FALSE(cache.find(kHash));
  CHECK(cache.compile(kHash, kSignature, cost_of(2)).tensor == 2);
  REQUIRE(cache.find(kHash));
  CHECK(cache.find(kHash)->tensor == 2);
  CompilationStatistics s = cache.statistics();
  CHECK(s.total_compilations == 1);
  CHECK(s.in_memory_hits == 2);
  CHECK(s.in_memory_misses == 1);
  CHECK(s.persistent_hits == 0);
  CHECK(s.persistent_misses == 1);
  CHECK(s.total_entries == 1);
  CHECK(s.hit_rate() == doctest::Approx(2.0 / 3));
  CHECK(s.total_compilation_time_ms > 0);
  check_consistent(s);
  CHECK(read_file(folder.path / kEntry) == kSignature + "\n");
  CHECK(files_in(folder.path) == 1);

  CompilationCache later(options_for(folder.path));
  CHECK_FALSE(later.find(kHash));
  CHECK(later.compile(kHash, kSignature, cost_of(2)).tensor == 2);
  s = later.statistics();
  CHECK(s.total_compilations == 0);
  CHECK(s.persistent_hits == 1);
  CHECK(s.persistent_misses == 0);
  CHECK(s.hit_rate() == 1);
  CHECK(s.total_compilation_time_ms == 0);
  check_consistent(s);
  later.compile(kHash + 1, "another", cost_of(1));
  CHECK(later.statistics().total_compilations == 1);
  check_consistent(later.statistics());
}

TEST_CASE("without a folder everything is compiled once a process") {
  CompilationCache cache(options_for(""));
  CHECK(cache.statistics().hit_rate() == 0);
  cache.compile(kHash, kSignature, cost_of(1));
  cache.compile(kHash, kSignature, cost_of(1));
  const CompilationStatistics s = cache.statistics();
  CHECK(s.total_compilations == 1);
  CHECK(s.in_memory_hits == 1);
  CHECK(s.persistent_hits + s.persistent_misses == 0);
  check_consistent(s);
}

TEST_CASE("an entry on disk that is damaged or of another signature is compiled again and rewritten") {
  const CacheFolder folder;
  const fs::path entry = folder.path / kEntry;
  fs::create_directories(entry.parent_path());
  std::string same_size = kSignature + "\n";
  same_size[3] = 'x';
  for (const std::string& content :
       {std::string(), kSignature, kSignature.substr(0, 5), same_size, kSignature + "\n\n"}) {
    CAPTURE(content);
    std::ofstream(entry) << content;
    CompilationCache cache(options_for(folder.path));
    cache.compile(kHash, kSignature, cost_of(1));
    CHECK(cache.statistics().total_compilations == 1);
    CHECK(cache.statistics().persistent_hits == 0);
    CHECK(read_file(entry) == kSignature + "\n");
  }
  CompilationCache cache(options_for(folder.path));
  cache.compile(kHash, kSignature, cost_of(1));
  CHECK(cache.statistics().persistent_hits == 1);
  // The same hash of another text, in memory too.
  CHECK(cache.compile(kHash, "collision", cost_of(5)).tensor == 5);
  CHECK(cache.statistics().total_compilations == 1);
  CHECK(cache.statistics().total_entries == 1);
  CHECK(cache.find(kHash)->tensor == 5);
  check_consistent(cache.statistics());
}

TEST_CASE("a folder in an entry's place costs that entry only") {
  const CacheFolder folder;
  fs::create_directories(folder.path / kEntry);
  CompilationCache cache(options_for(folder.path));
  cache.compile(kHash, kSignature, cost_of(2));
  cache.compile(kHash + 1, "another", cost_of(1));
  CHECK(cache.statistics().total_compilations == 2);
  CHECK(files_in(folder.path) == 1);
  CHECK(fs::is_directory(folder.path / kEntry));
}

TEST_CASE("several processes on one folder never leave or show a torn entry") {
  const CacheFolder folder;
  const fs::path entry = folder.path / kEntry;
  const std::string signature(200'000, 's');
  std::vector<pid_t> writers(2);
  for (pid_t& writer : writers) {
    writer = fork();
    if (writer != 0) continue;
    for (int round = 0; round < 150; ++round) {
      std::error_code ignored;
      fs::remove(entry, ignored);  // so that each round writes
      CompilationCache(options_for(folder.path)).compile(kHash, signature, cost_of(1));
    }
    _exit(0);
  }
  int64_t torn = 0;
  for (size_t ended = 0; ended < writers.size();) {
    std::ifstream file(entry, std::ios::binary);
    if (file) {
      const std::string text{std::istreambuf_iterator<char>(file), {}};
      torn += text == signature + "\n" ? 0 : 1;
    }
    int status = 0;
    if (waitpid(writers[ended], &status, WNOHANG) == writers[ended]) {
      CHECK(status == 0);
      ++ended;
    }
  }
  CHECK(torn == 0);
  CHECK(read_file(entry) == signature + "\n");
  CHECK(files_in(folder.path) == 1);
}

TEST_CASE("a folder that cannot be written warns once, is given up, and the run goes on") {
  const CacheFolder folder;
  std::ofstream(folder.path / "file") << "in place of a folder";
  struct Case {
    fs::path path;
    std::string reason;
  };
  for (const Case& bad :
       {Case{"/proc/x", "No such file or directory"}, Case{folder.path / "file", "Not a directory"},
        Case{folder.path / "file" / "below", "Not a directory"}}) {
    CAPTURE(bad.path);
    CompilationCache cache(options_for(bad.path));
    const std::string errors = errors_of([&] {
      for (uint64_t hash = 0; hash < 5; ++hash) cache.compile(hash << 56, kSignature, cost_of(3));
      CompilationCache(options_for(bad.path)).compile(kHash, kSignature, cost_of(1));
    });
    CHECK(count_of(errors, "\n") == 1);
    CHECK(count_of(errors, "WARNING") == 1);
    CHECK(count_of(errors, " " + bad.path.string() + ": " + bad.reason) == 1);
    CHECK(count_of(errors, "TORCH_NEURONX_NEFF_CACHE_DIR") == 1);
    CHECK(cache.statistics().total_compilations == 5);
    CHECK(cache.find(0)->tensor == 3);
    check_consistent(cache.statistics());
  }
}

TEST_CASE("a full folder is given up for the rest of the run, and what is there is still found") {
  const CacheFolder folder;
  CompilationCache(options_for(folder.path)).compile(kHash, kSignature, cost_of(1));
  CompilationCache cache(options_for(folder.path));
  // A limit on file sizes ends a write in the middle, as a full disk does.
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{4096, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const std::string errors = errors_of([&] {
    setrlimit(RLIMIT_FSIZE, &small);
    cache.compile(1, std::string(10'000, 's'), cost_of(1));
    setrlimit(RLIMIT_FSIZE, &before);
    cache.compile(2, "small", cost_of(1));
  });
  std::signal(SIGXFSZ, handler);
  CHECK(count_of(errors, "\n") == 1);
  CHECK(count_of(errors, folder.path.string() + ": File too large") == 1);
  CHECK(files_in(folder.path) == 1);
  cache.compile(kHash, kSignature, cost_of(1));
  CHECK(cache.statistics().persistent_hits == 1);
  CHECK(cache.statistics().total_compilations == 2);
  check_consistent(cache.statistics());
}

TEST_CASE("memory keeps the entries used last and forgets no more than it must") {
  CacheOptions options;
  options.max_entries = 3;
  CompilationCache cache(options);
  for (uint64_t hash = 1; hash <= 3; ++hash) cache.compile(hash, "s", cost_of(1));
  CHECK(cache.find(1));
  cache.compile(4, "s", cost_of(1));
  CHECK_FALSE(cache.find(2));
  CHECK(cache.find(1));
  CHECK(cache.find(3));
  CHECK(cache.find(4));
  CompilationStatistics s = cache.statistics();
  CHECK(s.total_entries == 3);
  CHECK(s.max_cache_entries == 3);
  CHECK(s.evictions_performed == 1);
  CHECK(s.memory_usage_bytes > 3 * static_cast<int64_t>(sizeof(EngineTimes)));
  CHECK(s.memory_utilization_ratio() == static_cast<double>(s.memory_usage_bytes) / (64 << 20));

  options.max_entries = 100;
  options.max_bytes = 1000;
  CompilationCache small(options);
  small.compile(1, std::string(600, 's'), cost_of(1));
  const int64_t one = small.statistics().memory_usage_bytes;
  CHECK(one >= 600 + static_cast<int64_t>(sizeof(EngineTimes)));
  small.compile(2, std::string(600, 's'), cost_of(1));
  CHECK_FALSE(small.find(1));
  CHECK(small.find(2));
  CHECK(small.statistics().memory_usage_bytes == one);
  small.compile(3, std::string(6000, 's'), cost_of(1));  // larger than the limit: alone
  CHECK(small.find(3));
  CHECK(small.statistics().total_entries == 1);
  CHECK(small.statistics().evictions_performed == 2);
}

TEST_CASE("two threads compile a signature once, and an evicted cost stays valid") {
  const CacheFolder folder;
  CacheOptions options = options_for(folder.path);
  CompilationCache on_disk(options);
  options.max_entries = 2;
  CompilationCache in_memory(options_for(""));
  CompilationCache evicting(options);
  constexpr uint64_t kSignatures = 300;
  const auto use = [&](CompilationCache& cache, int64_t& wrong) {
    for (uint64_t i = 0; i < 2 * kSignatures; ++i) {
      const uint64_t hash = i % kSignatures;
      const auto found = cache.find(hash);
      const EngineTimes cost =
          found ? *found : cache.compile(hash, std::to_string(hash), cost_of(static_cast<double>(hash)));
      wrong += cost.tensor == static_cast<double>(hash) ? 0 : 1;
    }
  };
  for (CompilationCache* cache : {&in_memory, &on_disk, &evicting}) {
    int64_t wrong = 0, wrong_there = 0;
    {
      const std::jthread other([&] { use(*cache, wrong_there); });
      use(*cache, wrong);
    }
    CHECK(wrong + wrong_there == 0);
    check_consistent(cache->statistics());
  }
  CHECK(in_memory.statistics().total_compilations == kSignatures);
  CHECK(in_memory.statistics().cache_hits == 3 * kSignatures);
  CHECK(on_disk.statistics().total_compilations == kSignatures);
  CHECK(evicting.statistics().total_compilations == 0);
  CHECK(evicting.statistics().total_entries == 2);
}

TEST_CASE("the environment chooses the cache's folder, or none") {
  const char* folder = "TORCH_NEURONX_NEFF_CACHE_DIR";
  const char* disable = "TORCH_NEURONX_NEFF_DISABLE_CACHE";
  const char* disable_other = "TORCH_NEURONX_DISABLE_NEFF_CACHE";
  const Environment clean{{folder, nullptr},
                          {disable, nullptr},
                          {disable_other, nullptr},
                          {"TITAN_CACHE_DIR", "/tmp/titan-cache-test"}};
  CHECK(CacheOptions::from_env().folder == "/tmp/titan-cache-test/neuron");
  const Environment chosen{{folder, "/tmp/elsewhere"}, {disable, "0"}};
  CHECK(CacheOptions::from_env().folder == "/tmp/elsewhere");
  for (const char* name : {disable, disable_other}) {
    CAPTURE(name);
    {
      const Environment off{{name, "1"}};
      CHECK(CacheOptions::from_env().folder.empty());
    }
    const Environment nonsense{{name, "maybe"}};
    CHECK_THROWS_WITH_AS(CacheOptions::from_env(),
                         (std::string(name) + " is 1 (nothing is kept on disk) or 0, not 'maybe'").c_str(),
                         ConfigError);
  }
}

TEST_CASE("compilations are logged at the debug level only") {
  const auto run = [](const char* level) {
    const CacheFolder folder;
    const Environment set{{"TORCH_NEURONX_LOG_LEVEL", level}};
    return errors_of([&] {
      CompilationCache(options_for(folder.path)).compile(kHash, kSignature, cost_of(1));
      CompilationCache(options_for(folder.path)).compile(kHash, kSignature, cost_of(1));
    });
  };
  for (const char* level : {"3", "debug"}) {
    const std::string lines = run(level);
    CHECK(count_of(lines, "\n") == 2);
    CHECK(count_of(lines, "INFO - [NEFF_CACHE] Cache MISS for key: abcd0123456700ef (" + kSignature +
                              "), compiled (emulated)\n") == 1);
    CHECK(count_of(lines, "INFO - [NEFF_CACHE] Cache HIT for key: abcd0123456700ef (" + kSignature +
                              "), found on disk\n") == 1);
  }
  for (const char* level : {static_cast<const char*>(nullptr), "1"}) CHECK(run(level).empty());
}
