#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "titan/models/common/language_model.h"
#include "titan/models/common/model_spec.h"

namespace titan {

/// A model built and filled from a folder of Hugging Face files alone.
struct HfFolderModel {
  ModelSpec spec;
  std::shared_ptr<LanguageModel> model;
};

struct HfFolderOptions {
  std::string dtype = "float32";  ///< float32 or bfloat16, for activations and matmuls
  std::string mask = "document";  ///< document or causal
};

/// Reads config.json for the architecture and the safetensors for the weights (kept in float32). Throws
/// ConfigError for an unknown option value, ValueError for anything wrong in the folder.
HfFolderModel load_hf_folder(const std::filesystem::path& assets, const HfFolderOptions& options = {});

}  // namespace titan
