#include "titan/launch/log_folder.h"

#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "titan/base/error.h"

namespace titan {

namespace fs = std::filesystem;

namespace {

fs::path make_unique_folder(const fs::path& start) {
  std::string name = start.string() + "XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) {
    throw ValueError("cannot make a folder for the workers' files in {}: {} (--log_dir chooses it)",
                     start.parent_path().string(), std::strerror(errno));
  }
  return name;
}

void make_folders(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw ValueError("--log_dir: cannot make {}: {}", folder.string(), error.message());
}

}  // namespace

LogFolder::LogFolder(const TorchrunOptions& options) {
  if (options.log_dir == "/dev/null") return;
  fs::path base = options.log_dir;
  if (options.log_dir.empty()) {
    base = make_unique_folder(fs::temp_directory_path() / "torchelastic_");
    const auto keeps = [&](int64_t rank) {
      return options.tee.out(rank) || options.tee.err(rank) || options.redirects.out(rank) ||
             options.redirects.err(rank);
    };
    bool any = false;
    for (int64_t rank = 0; rank < options.local_world_size; ++rank) any = any || keeps(rank);
    if (!any) temporary_ = base;
  } else {
    make_folders(base);
  }
  std::string id = options.run_id;
  std::replace(id.begin(), id.end(), '/', '_');
  run_folder_ = make_unique_folder(base / (id + "_"));
}

LogFolder::~LogFolder() {
  std::error_code ignored;  // a folder that someone removed already
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
}

void LogFolder::start_attempt(int64_t restart_count, int64_t local_world_size) {
  if (!exists()) return;
  attempt_folder_ = run_folder_ / format("attempt_{}", restart_count);
  std::error_code ignored;
  fs::remove_all(attempt_folder_, ignored);
  for (int64_t rank = 0; rank < local_world_size; ++rank) make_folders(attempt_folder_ / format("{}", rank));
}

std::string LogFolder::worker_file(int64_t local_rank, std::string_view name) const {
  return exists() ? (attempt_folder_ / format("{}", local_rank) / name).string() : "";
}

std::string LogFolder::attempt_file(std::string_view name) const {
  return exists() ? (attempt_folder_ / name).string() : "";
}

}  // namespace titan
