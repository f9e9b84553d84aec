#pragma once

#include "titan/config/fields.h"

namespace titan {

/// The tokenizer is what hf_assets_path holds; there is nothing to set.
struct TokenizerConfig {
  void describe(Fields&) {}
};

}  // namespace titan
