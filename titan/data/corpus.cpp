#include "titan/data/corpus.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "titan/base/error.h"
#include "titan/base/file.h"
#include "titan/base/log.h"
#include "titan/data/fingerprint.h"
#include "titan/data/text_line.h"
#include "titan/data/unpack.h"

namespace titan {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMaxOpenFiles = 16;
constexpr int64_t kLongWork = 64 << 20;  // bytes from which a message says what takes so long

/// Stands at the head of an index file; the offsets of the documents and that of the end follow.
struct IndexHeader {
  char magic[8] = {'t', 'i', 't', 'a', 'n', 'i', 'x', '1'};
  int64_t num_documents = 0;
  uint64_t fingerprint = 0;
  int64_t total_bytes = 0;
};

/// The folder of the cache for data sets.
fs::path data_cache() {
  const fs::path folder = cache_folder() / "data";
  require_writable_folder(folder, "the cache of data sets (TITAN_CACHE_DIR)");
  return folder;
}

int64_t size_of(const fs::path& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (error) throw ValueError("cannot read {}: {}", path.string(), error.message());
  return static_cast<int64_t>(size);
}

void add_identity(Fingerprint& key, const fs::path& path) {
  std::error_code error;
  const auto time = fs::last_write_time(path, error);
  if (error) throw ValueError("cannot read {}: {}", path.string(), error.message());
  key.add(titan::absolute(path));
  key.add(static_cast<uint64_t>(size_of(path)));
  key.add(static_cast<uint64_t>(time.time_since_epoch().count()));
}

/// Makes `target` by `write(temporary name)` unless it exists; one process of the machine does it, the others
/// wait.
template <class Write>
void make_once(const fs::path& target, Write write) {
  if (fs::exists(target)) return;
  const FileLock lock(target.string() + ".lock");
  if (fs::exists(target)) return;
  const fs::path temporary = target.string() + ".tmp";  // one left by a killed process is written over
  std::error_code error;
  try {
    write(temporary);
    sync_to_disk(temporary);
    fs::rename(temporary, target, error);
    if (error) throw ValueError("cannot write {}: {}", target.string(), error.message());
  } catch (...) {
    fs::remove(temporary, error);
    throw;
  }
}

/// Writes the index while going through the documents.
class IndexWriter {
 public:
  explicit IndexWriter(const fs::path& path) : path_(path), file_(std::fopen(path.c_str(), "wb")) {
    put(&header_, sizeof header_);
  }
  void add(int64_t offset, std::string_view text) {
    put(&offset, sizeof offset);
    content_.add(text);
    ++header_.num_documents;
  }
  void finish(int64_t total_bytes) {
    put(&total_bytes, sizeof total_bytes);
    header_.total_bytes = total_bytes;
    header_.fingerprint = content_.value();
    if (std::fseek(file_.get(), 0, SEEK_SET) != 0) fail();
    put(&header_, sizeof header_);
    if (std::fflush(file_.get()) != 0) fail();
  }

 private:
  void put(const void* data, size_t size) {
    if (!file_ || std::fwrite(data, 1, size, file_.get()) != size) fail();
  }
  [[noreturn]] void fail() const {
    throw ValueError("cannot write {}: {}; set TITAN_CACHE_DIR to a folder with room", path_.string(),
                     std::strerror(errno));
  }

  fs::path path_;
  std::unique_ptr<FILE, decltype([](FILE* f) { std::fclose(f); })> file_;
  IndexHeader header_;
  Fingerprint content_;
};

/// `begin` is the offset of the file in the corpus.
template <class TextOfLine>
void index_lines(const DataFile& file, const fs::path& plain, int64_t begin, TextOfLine text_of,
                 IndexWriter& index) {
  LineReader lines(plain);
  std::string_view line;
  while (lines.next(line)) {
    if (trim(line).empty()) continue;
    try {
      index.add(begin + lines.offset(), text_of(line));
    } catch (const ValueError& error) {
      throw ValueError("{}:{}: {}", file.path.string(), lines.number(), error.what());
    }
  }
}

void index_text(const DataFile& file, int64_t begin, IndexWriter& index) {
  const std::string content = read_file(file.path);
  try {
    index.add(begin, checked_utf8(content));
  } catch (const ValueError& error) {
    const size_t good = find_invalid_utf8(content).value_or(0);
    throw ValueError(
        "{}:{}: {}", file.path.string(),
        1 + std::count(content.begin(), content.begin() + static_cast<std::ptrdiff_t>(good), '\n'),
        error.what());
  }
}

}  // namespace

Corpus::Corpus(std::vector<DataFile> files, std::string text_key, std::string text_key_flag)
    : files_(std::move(files)), text_key_(std::move(text_key)), text_key_flag_(std::move(text_key_flag)) {
  check(!files_.empty(), "a corpus has files");
  unpack_files();
  begins_.push_back(0);
  for (const auto& path : plain_) begins_.push_back(begins_.back() + size_of(path));
  open_index();
  Fingerprint with_key;
  with_key.add(fingerprint_);
  with_key.add(files_[0].format == DataFormat::json_lines ? text_key_ : "");
  fingerprint_ = with_key.value();
}

void Corpus::unpack_files() {
  for (const auto& file : files_) {
    if (file.compression == Compression::none) {
      plain_.push_back(file.path);
      continue;
    }
    Fingerprint key;
    add_identity(key, file.path);
    const fs::path target = data_cache() / (hex(key.value()) + ".jsonl");
    make_once(target, [&](const fs::path& temporary) {
      if (size_of(file.path) >= kLongWork)
        log_info("Unpacking {} into {}", file.path.string(), target.string());
      unpack(file, temporary);
    });
    plain_.push_back(target);
  }
}

void Corpus::open_index() {
  Fingerprint key;
  key.add(text_key_);
  for (const auto& file : files_) add_identity(key, file.path);
  const fs::path path = data_cache() / (hex(key.value()) + ".index");
  make_once(path, [&](const fs::path& temporary) {
    if (begins_.back() >= kLongWork)
      log_info("Checking every line of {} file(s), {} bytes; the result is kept in {}", files_.size(),
               with_commas(begins_.back()), path.string());
    IndexWriter index(temporary);
    const auto text_of = [&](std::string_view line) { return text_of_line(line, text_key_, text_key_flag_); };
    for (size_t i = 0; i < files_.size(); ++i) {
      if (files_[i].format == DataFormat::text) {
        index_text(files_[i], begins_[i], index);
      } else {
        index_lines(files_[i], plain_[i], begins_[i], text_of, index);
      }
    }
    index.finish(begins_.back());
  });
  index_.emplace(path);
  IndexHeader header;
  index_->read(0, &header, sizeof header);
  if (std::memcmp(header.magic, IndexHeader{}.magic, sizeof header.magic) != 0 ||
      header.total_bytes != begins_.back() ||
      size_of(path) != static_cast<int64_t>(sizeof header) + 8 * (header.num_documents + 1))
    throw ValueError("{} does not belong to these files; delete it and start again", path.string());
  num_documents_ = header.num_documents;
  fingerprint_ = header.fingerprint;
}

size_t Corpus::file_of(int64_t offset) const {
  return static_cast<size_t>(std::upper_bound(begins_.begin(), begins_.end() - 1, offset) - begins_.begin() -
                             1);
}

const FileReader& Corpus::reader(size_t file) {
  const auto found =
      std::find_if(open_.begin(), open_.end(), [&](const auto& entry) { return entry.first == file; });
  if (found != open_.end()) {
    std::rotate(found, found + 1, open_.end());
  } else {
    if (open_.size() == kMaxOpenFiles) open_.erase(open_.begin());
    open_.emplace_back(file, FileReader(plain_[file]));
  }
  return open_.back().second;
}

std::string Corpus::text(int64_t document) {
  check(document >= 0 && document < num_documents_, "the document is in the corpus");
  int64_t range[2];
  index_->read(static_cast<int64_t>(sizeof(IndexHeader)) + 8 * document, range, sizeof range);
  if (range[0] == range[1]) return {};  // an empty .txt file
  const size_t file = file_of(range[0]);
  std::string content(static_cast<size_t>(std::min(range[1], begins_[file + 1]) - range[0]), '\0');
  reader(file).read(range[0] - begins_[file], content.data(), content.size());
  try {
    if (files_[file].format == DataFormat::text) return std::string(checked_utf8(content));
    return text_of_line(std::string_view(content).substr(0, content.find('\n')), text_key_, text_key_flag_);
  } catch (const ValueError& error) {
    throw ValueError("{} has changed since it was indexed: at byte {}: {}", files_[file].path.string(),
                     range[0] - begins_[file], error.what());
  }
}

}  // namespace titan
