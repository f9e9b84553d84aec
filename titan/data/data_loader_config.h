#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "titan/config/fields.h"

namespace titan {

/// Where training text comes from and how it is read; see docs/data.md.
struct DataLoaderConfig {
  std::string dataset = "c4_test";
  std::optional<std::string> dataset_path = {};
  std::string text_key = "text";
  bool infinite = true;
  std::optional<int64_t> lanes = {};
  int64_t seed = 42;
  std::optional<int64_t> prefetch_factor = {};
  int64_t num_workers = 0;
  bool persistent_workers = false;
  bool pin_memory = false;

  /// Throws ConfigError for values that mean nothing.
  void validate() const;

  void describe(auto& f) {
    f("dataset", dataset,
      "Name in the table of data sets (c4_test, sample, c4_test_validation, c4, c4_validation)");
    f("dataset_path", dataset_path,
      "File, folder or glob of JSON lines (.jsonl, .json; plain, .gz, .zst) or .txt files, read instead of "
      "the named files");
    f("text_key", text_key, "Key of a JSON line that holds the text of the document");
    f("infinite", infinite, "Start another epoch at the end of the data; otherwise stop after one");
    f("lanes", lanes,
      "Streams the documents are dealt to, fixed for the life of a run; default 64, or the largest power of "
      "two not "
      "above a quarter of the documents");
    f("seed", seed, "Epoch 0 keeps the order of the files, epoch e > 0 is shuffled with seed + e");
    f("prefetch_factor", prefetch_factor,
      "Batches prepared ahead by the loader's thread; default 2; 0 reads on the training thread");
    f("num_workers", num_workers, "Worker processes; one thread does their work here", Status::no_meaning);
    f("persistent_workers", persistent_workers, "Keep worker processes between epochs", Status::no_meaning);
    f("pin_memory", pin_memory, "Page-locked batches", Status::no_meaning);
  }
};

}  // namespace titan
