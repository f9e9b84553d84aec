#pragma once

#include <cstdint>
#include <filesystem>

#include "titan/checkpoint/hf_model.h"
#include "titan/checkpoint/shard_groups.h"

namespace titan {

struct ExportOptions {
  at::ScalarType dtype = at::kFloat;
  int64_t max_shard_bytes = 5'000'000'000;
  /// Folder whose config.json, generation_config.json and tokenizer files are copied; may be empty.
  std::filesystem::path assets = {};
  /// Also write the head of a tied model.
  bool tied_head = false;
};

/// Writes `folder` for transformers: weights, index, config.json (the assets' one with its dtype mended, else
/// the model's own), generation_config.json and tokenizer files. The folder appears whole, by a rename, and
/// replaces one of the same name; on an error the old one stays. ValueError naming what could not be written.
/// Returns the bytes of weights.
///
/// All ranks of `groups` take part; one of them writes and holds one whole tensor at a time. The files are
/// the same, byte by byte, for every layout. An error of the writer is thrown on every rank.
int64_t hf_export(const HfModel& model, const std::filesystem::path& folder,
                  const ExportOptions& options = {}, const ShardGroups& groups = {});

}  // namespace titan
