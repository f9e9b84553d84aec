#include "titan/data/datasets.h"

#include <algorithm>

#include "titan/base/error.h"
#include "titan/base/file.h"

namespace titan {

std::vector<DatasetEntry> dataset_table() {
  constexpr std::string_view kText =
      "chapters of the King James text (public domain), a document each; not C4";
  return {
      {"c4_test", "tests/assets/c4_test", kText},
      {"sample", "tests/assets/c4_test", kText},
      {"c4_test_validation", "tests/assets/c4_test_validation",
       "the chapters that c4_test leaves out, every 20th"},
      {"c4", "", "en/c4-train.*.json.gz of https://huggingface.co/datasets/allenai/c4"},
      {"c4_validation", "", "en/c4-validation.*.json.gz of https://huggingface.co/datasets/allenai/c4"},
  };
}

Dataset find_dataset(const DataLoaderConfig& config, std::string_view section) {
  const std::string flag = format("{}.dataset_path", section);
  config.validate();
  if (config.dataset_path) {
    return {.name = config.dataset,
            .shown_path = *config.dataset_path,
            .about = {},
            .files = find_data_files(*config.dataset_path, flag)};
  }
  const auto table = dataset_table();
  const auto entry =
      std::find_if(table.begin(), table.end(), [&](const auto& row) { return row.name == config.dataset; });
  if (entry == table.end()) {
    std::vector<std::string> names;
    for (const auto& row : table) names.emplace_back(row.name);
    throw ConfigError("{}.dataset: unknown data set \"{}\"{}; known are {}; for files of your own set {}",
                      section, config.dataset, did_you_mean(config.dataset, names), join(names, ", "), flag);
  }
  if (entry->folder.empty()) {
    throw ConfigError(
        "{}.dataset: {} is not bundled; download {} and set {} to the files, or use the bundled {}", section,
        entry->name, entry->about, flag, entry->name == "c4" ? "c4_test" : "c4_test_validation");
  }
  const auto folder = share_folder() / entry->folder;
  return {.name = config.dataset,
          .shown_path = std::string(entry->folder),
          .about = entry->about,
          .files = find_data_files(folder.string(), format("{}.dataset", section))};
}

}  // namespace titan
