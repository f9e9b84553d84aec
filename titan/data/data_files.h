#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace titan {

/// How the documents lie in a file.
enum class DataFormat {
  json_lines,  ///< one JSON object a line
  text,        ///< the whole file is one document
};

enum class Compression { none, gzip, zstd };

/// One file of a data set.
struct DataFile {
  std::filesystem::path path;
  DataFormat format = DataFormat::json_lines;
  Compression compression = Compression::none;
};

/// What the name of a file says about it: .jsonl or .json (plain, .gz, .zst) and .txt. ValueError names any
/// other file, .parquet with the way to convert it; messages begin with `flag`, the setting that gave the
/// path.
DataFile classify_data_file(const std::filesystem::path& path,
                            std::string_view flag = "dataloader.dataset_path");

/// The files that `path` names, sorted by name: a file, the readable files directly inside a folder, or the
/// matches of a glob. ValueError when there is none, or when a folder mixes JSON lines with .txt.
std::vector<DataFile> find_data_files(const std::string& path,
                                      std::string_view flag = "dataloader.dataset_path");

}  // namespace titan
