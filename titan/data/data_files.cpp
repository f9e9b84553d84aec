#include "titan/data/data_files.h"

#include <glob.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "titan/base/error.h"
#include "titan/base/log.h"

namespace titan {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kReadable = ".jsonl or .json (JSON lines; also with .gz or .zst behind) and .txt";

bool is_data_name(const std::string& name) {
  for (const std::string_view end : {".txt", ".parquet"})
    if (name.ends_with(end)) return true;
  for (const std::string_view packed : {"", ".gz", ".zst"})
    for (const std::string_view end : {".jsonl", ".json"})
      if (name.ends_with(std::string(end).append(packed))) return true;
  return false;
}

std::vector<fs::path> matches_of(const std::string& pattern, std::string_view flag) {
  glob_t found{};
  const int failure = ::glob(pattern.c_str(), GLOB_NOSORT | GLOB_ERR, nullptr, &found);
  std::vector<fs::path> paths(found.gl_pathv, found.gl_pathv + (failure ? 0 : found.gl_pathc));
  ::globfree(&found);
  if (failure == GLOB_NOMATCH || (failure == 0 && paths.empty()))
    throw ValueError("{}: no file matches {}", flag, pattern);
  if (failure != 0)
    throw ValueError("{}: cannot read the folders of {}: {}", flag, pattern, std::strerror(errno));
  std::error_code ignored;  // what cannot be looked at is named when it is opened
  std::erase_if(paths, [&](const fs::path& p) { return fs::is_directory(p, ignored); });
  if (paths.empty())
    throw ValueError("{}: {} matches folders only; add the files' names, for example /*.jsonl", flag,
                     pattern);
  return paths;
}

std::vector<fs::path> files_in(const fs::path& folder, std::string_view flag) {
  std::vector<fs::path> paths;
  std::vector<std::string> others;
  bool has_folders = false;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with('.')) continue;
    if (entry.is_directory()) {
      has_folders = true;
    } else if (is_data_name(name)) {
      paths.push_back(entry.path());
    } else {
      others.push_back(name);
    }
  }
  if (error) throw ValueError("{}: cannot read the folder {}: {}", flag, folder.string(), error.message());
  std::sort(others.begin(), others.end());
  if (paths.empty()) {
    throw ValueError(
        "{}: no data file in {}; readable are {}{}", flag, folder.string(), kReadable,
        has_folders ? "; to read its subfolders, give a glob such as " + (folder / "*" / "*.jsonl").string()
                    : "");
  }
  if (!others.empty())
    log_info("{} holds {} other file(s), which are not read: {}", folder.string(), others.size(),
             join(others, ", "));
  return paths;
}

}  // namespace

DataFile classify_data_file(const fs::path& path, std::string_view flag) {
  std::string name = path.filename().string();
  DataFile file{.path = path};
  if (name.ends_with(".gz")) file.compression = Compression::gzip;
  if (name.ends_with(".zst")) file.compression = Compression::zstd;
  if (file.compression != Compression::none) name = fs::path(name).stem().string();
  if (name.ends_with(".jsonl") || name.ends_with(".json")) return file;
  if (name.ends_with(".txt") && file.compression == Compression::none) {
    file.format = DataFormat::text;
    return file;
  }
  if (name.ends_with(".parquet"))
    throw ValueError(
        "{}: {} is a Parquet file, which titan does not read; docs/data.md shows the two lines that make "
        "JSON lines of it",
        flag, path.string());
  throw ValueError("{}: cannot tell what {} holds; readable are {}", flag, path.string(), kReadable);
}

std::vector<DataFile> find_data_files(const std::string& path, std::string_view flag) {
  std::vector<fs::path> paths;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) {
    paths = files_in(path, flag);
  } else if (fs::exists(status)) {
    paths = {path};
  } else if (path.find_first_of("*?[") != std::string::npos) {
    paths = matches_of(path, flag);
  } else if (status.type() == fs::file_type::not_found) {
    throw ValueError("{}: {} does not exist (looked from {})", flag, path, fs::current_path().string());
  } else {
    throw ValueError("{}: cannot read {}: {}", flag, path, error.message());
  }
  std::sort(paths.begin(), paths.end(),
            [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
  std::vector<DataFile> files;
  for (const auto& file : paths) files.push_back(classify_data_file(file, flag));
  const auto other = std::find_if(files.begin(), files.end(),
                                  [&](const DataFile& f) { return f.format != files[0].format; });
  if (other != files.end())
    throw ValueError(
        "{}: {} holds both JSON lines ({}) and text ({}); name one kind by a glob such as *.jsonl", flag,
        path, (files[0].format == DataFormat::json_lines ? files[0] : *other).path.filename().string(),
        (files[0].format == DataFormat::text ? files[0] : *other).path.filename().string());
  return files;
}

}  // namespace titan
