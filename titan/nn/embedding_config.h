#pragma once

#include <cstdint>

#include "titan/config/fields.h"

namespace titan {

/// A table of num_embeddings rows of embedding_dim numbers, filled from normal(0, init_std).
struct EmbeddingConfig {
  int64_t num_embeddings = 0;
  int64_t embedding_dim = 0;
  double init_std = 0.02;

  void describe(Fields& f) {
    f("num_embeddings", num_embeddings, "Rows of the table (vocabulary size)");
    f("embedding_dim", embedding_dim, "Numbers a row");
    f("init_std", init_std, "Standard deviation of the normal distribution that fills the table");
  }
};

}  // namespace titan
