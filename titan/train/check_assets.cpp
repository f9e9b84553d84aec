#include "titan/train/check_assets.h"

#include <filesystem>

#include "titan/base/error.h"
#include "titan/models/families.h"

namespace titan {
namespace {

struct Folder {
  std::string setting;
  std::string path;
  std::string use;  ///< what makes a contradiction an error, or ""
};

std::vector<Folder> folders_of(const TrainerConfig& config) {
  const auto& checkpoint = config.checkpoint;
  const bool loads = checkpoint.enable && checkpoint.initial_load_in_hf;
  const bool exports = checkpoint.enable && checkpoint.last_save_in_hf && !checkpoint.load_only;
  const bool own_path = loads && checkpoint.initial_load_path && !checkpoint.initial_load_path->empty();

  Folder assets{"hf_assets_path", config.hf_assets_path, ""};
  if (exports) assets.use = "checkpoint.last_save_in_hf exports weights with that config.json";
  if (loads && !own_path) assets.use = "checkpoint.initial_load_in_hf loads its weights";
  std::vector<Folder> folders = {assets};
  if (own_path) {
    folders.push_back({"checkpoint.initial_load_path", *checkpoint.initial_load_path,
                       "checkpoint.initial_load_in_hf loads its weights"});
  }
  return folders;
}

}  // namespace

std::vector<std::string> check_assets(const TrainerConfig& config) {
  const auto& spec = config.model_spec;
  std::vector<std::string> warnings;
  for (const auto& [setting, folder, use] : folders_of(config)) {
    const auto path = std::filesystem::path(folder) / "config.json";
    if (!std::filesystem::exists(path)) continue;
    const HfComparison found = family_of(spec).compare(spec, Json::parse_file(path), path.string());
    if (found.contradictions.empty()) continue;
    const std::string text = format("{} {}: its config.json contradicts {} {}: {}", setting, folder,
                                    spec.name, spec.flavor, found.message());
    if (found.breaks_weights() && !use.empty()) throw ConfigError("{}. ({})", text, use);
    warnings.push_back(text);
  }
  return warnings;
}

}  // namespace titan
