#include "titan/checkpoint/step_folders.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "titan/base/error.h"
#include "titan/base/file.h"
#include "titan/base/log.h"
#include "titan/checkpoint/safetensors_folder.h"

namespace titan {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kIncomplete = ".incomplete";
constexpr std::string_view kReplaced = ".replaced";

/// N of exactly "step-N"; nothing for step-10.bak, old-step-9, step-010.
std::optional<int64_t> step_of(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return {};
  name.remove_prefix(kStepPrefix.size());
  int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || step < 0 || std::to_string(step) != name) return {};
  return step;
}

fs::path hidden_folder(const fs::path& folder, std::string_view ending) {
  return folder.parent_path() / format(".{}{}", folder.filename().string(), ending);
}

/// `step-10` when `name` is `.step-10` + ending.
std::optional<std::string> hidden_step(std::string_view name, std::string_view ending) {
  if (!name.starts_with('.') || !name.ends_with(ending)) return {};
  const std::string_view inner = name.substr(1, name.size() - 1 - ending.size());
  if (!step_of(inner)) return {};
  return std::string(inner);
}

void rename_or_throw(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return;
  throw ValueError("cannot rename {} to {}: {}", from.string(), to.string(), std::strerror(errno));
}

/// Swaps the two folders in one step; false where the file system cannot.
bool exchange(const fs::path& a, const fs::path& b) {
  return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
}

}  // namespace

std::vector<StepFolder> find_steps(const fs::path& folder) {
  std::vector<StepFolder> steps;
  if (!fs::is_directory(folder)) return steps;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto step = step_of(entry.path().filename().string());
    if (!step || !entry.is_directory()) continue;
    const bool native = fs::exists(entry.path() / ".metadata");
    if (native || fs::exists(entry.path() / kIndexFile)) steps.push_back({*step, entry.path(), !native});
  }
  std::ranges::sort(steps, {}, &StepFolder::step);
  return steps;
}

fs::path staging_folder(const fs::path& folder) { return hidden_folder(folder, kIncomplete); }

void publish_folder(const fs::path& folder) {
  const fs::path staging = staging_folder(folder);
  sync_to_disk(staging);
  if (!fs::exists(folder)) {
    rename_or_throw(staging, folder);
  } else if (exchange(staging, folder)) {
    fs::remove_all(staging);
  } else {
    const fs::path replaced = hidden_folder(folder, kReplaced);
    fs::remove_all(replaced);
    rename_or_throw(folder, replaced);
    rename_or_throw(staging, folder);
    fs::remove_all(replaced);
  }
  sync_to_disk(folder.has_parent_path() ? folder.parent_path() : ".");
}

void clean_staging(const fs::path& folder) {
  if (!fs::is_directory(folder)) return;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder)) found.push_back(entry.path());
  for (const fs::path& path : found) {
    const std::string name = path.filename().string();
    if (const auto step = hidden_step(name, kReplaced); step && !fs::exists(folder / *step)) {
      log_warning("{} restores {}, which a stopped save had moved away", folder.string(), *step);
      rename_or_throw(path, folder / *step);
    } else if (step || hidden_step(name, kIncomplete)) {
      log_warning("Removing {}, left by a stopped save", path.string());
      fs::remove_all(path);
    }
  }
}

}  // namespace titan
