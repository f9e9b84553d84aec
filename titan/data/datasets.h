#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "titan/data/data_files.h"
#include "titan/data/data_loader_config.h"

namespace titan {

/// A row of the table of data sets.
struct DatasetEntry {
  std::string_view name;
  std::string_view folder;  ///< under share_folder(); empty: nothing is bundled
  std::string_view about;   ///< what the bundled text is, or how to get the files
};

/// The table, in the order in which messages list it.
std::vector<DatasetEntry> dataset_table();

/// A data set that was found: what to print, and its files.
struct Dataset {
  std::string name;
  std::string shown_path;
  std::string_view about;  ///< empty for the user's own files
  std::vector<DataFile> files;
};

/// The files that `config`, a section named `section`, names. ConfigError for an unknown name, or for one
/// without files (the message says what to download); ValueError for a path that cannot be read.
Dataset find_dataset(const DataLoaderConfig& config, std::string_view section = "dataloader");

}  // namespace titan
