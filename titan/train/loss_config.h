#pragma once

#include <cstdint>
#include <optional>

#include "titan/config/fields.h"

namespace titan {

/// Cross-entropy over the vocabulary, computed with the head a chunk of tokens at a time: logits are never
/// whole.
struct LossConfig {
  int64_t num_chunks = 8;
  std::optional<int64_t> global_vocab_size = {};

  void describe(Fields& f) {
    f("num_chunks", num_chunks, "Chunks of the head's output; titan chooses their size itself",
      Status::no_meaning);
    f("global_vocab_size", global_vocab_size, "The reference's hint to a sharded loss", Status::no_meaning);
  }
};

}  // namespace titan
