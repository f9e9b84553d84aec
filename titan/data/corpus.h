#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "titan/data/data_files.h"
#include "titan/data/file_reader.h"

namespace titan {

/// The documents of a list of files, read one at a time from disk.
///
/// [Note: index] The first time a list of files is seen, every line is checked, and where each document
/// begins is written to a file in the user's cache (8 bytes a document), together with a fingerprint of the
/// content; .gz and .zst files are unpacked there as well. Later runs, and the other processes of this
/// machine, reuse both for as long as name, size and modification time stay. Memory holds the list of files,
/// a few open ones, and one document: it does not grow with the corpus.
class Corpus {
 public:
  /// ValueError for a file that cannot be read, and for the first broken line, with file name and line
  /// number.
  Corpus(std::vector<DataFile> files, std::string text_key,
         std::string text_key_flag = "dataloader.text_key");

  int64_t num_documents() const { return num_documents_; }
  /// Hash of the texts in order: equal for equal content, wherever it lies and however it is packed.
  uint64_t fingerprint() const { return fingerprint_; }
  /// The text of one document. Not safe from several threads.
  std::string text(int64_t document);

 private:
  void unpack_files();
  void open_index();
  size_t file_of(int64_t offset) const;
  const FileReader& reader(size_t file);

  std::vector<DataFile> files_;
  std::string text_key_;
  std::string text_key_flag_;
  std::vector<std::filesystem::path> plain_;  ///< the file itself, or its unpacked copy
  std::vector<int64_t> begins_;  ///< of each file, were all written one behind the other; and the end
  std::optional<FileReader> index_;
  int64_t num_documents_ = 0;
  uint64_t fingerprint_ = 0;
  std::vector<std::pair<size_t, FileReader>> open_;  ///< most recently used last
};

}  // namespace titan
