#include "titan/base/available_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace titan {
namespace {

namespace fs = std::filesystem;

std::optional<int64_t> number_in(const fs::path& path) {
  int64_t value = 0;
  // "max" does not parse: no limit.
  if (std::ifstream file(path); file >> value) return value;
  return std::nullopt;
}

/// The number that follows a word: "MemAvailable: 123 kB", "inactive_file 4096".
int64_t number_after(const fs::path& path, std::string_view word, int64_t otherwise) {
  std::ifstream file(path);
  std::string name;
  int64_t value = 0;
  for (std::string rest; file >> name >> value; std::getline(file, rest)) {
    if (name == word) return value;
  }
  return otherwise;
}

struct ControlGroupFiles {
  std::string_view folder, limit, usage, cache;
};

/// The least that the group and those above it leave; pages of files count as free, for they can be dropped.
int64_t left_by(const fs::path& root, const fs::path& group, const ControlGroupFiles& files) {
  int64_t left = std::numeric_limits<int64_t>::max();
  for (fs::path path = group.relative_path();; path = path.parent_path()) {
    const fs::path folder = root / files.folder / path;
    const std::optional<int64_t> limit = number_in(folder / files.limit),
                                 usage = number_in(folder / files.usage);
    if (limit && usage) {
      const int64_t cache = number_after(folder / "memory.stat", files.cache, 0);
      left = std::min(left, std::max<int64_t>(*limit - (*usage - cache), 0));
    }
    if (path.empty()) return left;
  }
}

}  // namespace

int64_t available_memory(const fs::path& root) {
  constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
  const int64_t kilobytes = number_after(root / "proc/meminfo", "MemAvailable:", kNoLimit / 1024);
  int64_t left = kilobytes * 1024;
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1),
                      path = line.substr(second + 1);
    if (controllers.empty()) {
      left = std::min(
          left, left_by(root, path, {"sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"}));
    } else if (controllers == "memory") {
      left = std::min(left, left_by(root, path,
                                    {"sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                                     "total_inactive_file"}));
    }
  }
  return left;
}

}  // namespace titan
