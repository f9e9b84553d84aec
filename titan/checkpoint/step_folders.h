#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace titan {

/// A step-N folder that can be loaded.
struct StepFolder {
  int64_t step;
  std::filesystem::path path;
  /// Holds Hugging Face files; otherwise a native checkpoint (.metadata).
  bool in_hf;
};

/// The loadable folders named exactly step-N, by ascending step. A folder without
/// model.safetensors.index.json or .metadata is unfinished or something else and is not listed; a missing
/// `folder` has none.
std::vector<StepFolder> find_steps(const std::filesystem::path& folder);

/// The hidden folder beside `folder` in which its content is prepared: `.step-10.incomplete` for `step-10`.
std::filesystem::path staging_folder(const std::filesystem::path& folder);

/// Renames the staged content to `folder`, replacing what was there. Readers see the old folder or the new
/// one; a crash between the two leaves the old one to be restored by clean_staging. ValueError with the
/// system's reason.
void publish_folder(const std::filesystem::path& folder);

/// Removes staged folders that a killed process left in `folder` and restores a replaced one whose successor
/// never appeared. Other files are not touched.
void clean_staging(const std::filesystem::path& folder);

}  // namespace titan
