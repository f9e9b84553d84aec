#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "titan/checkpoint/hf_model.h"

namespace titan {

struct ImportOptions {
  /// FP8 weights with block scales are expected; without it they are an error that names the setting.
  bool quantized = false;
};

/// What an import did.
struct ImportReport {
  int64_t tensors = 0;
  /// Bytes read from the files: those of this rank's blocks.
  int64_t bytes = 0;
  int64_t dequantized = 0;
  /// Hugging Face names passed over because nothing needs them (rotary_emb.inv_freq, the second copy of a
  /// tied head).
  std::vector<std::string> ignored;
  /// Sentences for the log: which tensor stood in for a tied one, and the like.
  std::vector<std::string> notes;
};

/// Fills the model's tensors from a folder of safetensors (or one file). Any of F64, F32, F16, BF16 goes into
/// any float tensor, band by band; of each tensor only the block that this rank holds is read. Names are also
/// accepted with or without a leading "model.". Nothing is written before everything fits: ValueError naming
/// tensors, files and both shapes when a tensor is missing (an untied head included; nothing is ever left at
/// random), unexpected, of another shape, or of a type that cannot be a weight.
ImportReport hf_import(const HfModel& model, const std::filesystem::path& path,
                       const ImportOptions& options = {});

}  // namespace titan
