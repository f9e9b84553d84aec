#pragma once

#include "titan/nn/embedding_config.h"
#include "titan/nn/module.h"

namespace titan {

/// A table of vectors, one a token id.
class Embedding : public Module {
 public:
  explicit Embedding(const EmbeddingConfig& config);

  /// ids [...] -> [..., embedding_dim] in `dtype`. Throws ValueError for an id outside the table.
  /// Where the weight is cut by rows, this rank's summand: zeros for ids of other ranks' rows.
  virtual at::Tensor forward(const at::Tensor& ids, at::ScalarType dtype) const;

  Parameter weight;  ///< [num_embeddings, embedding_dim]
};

}  // namespace titan
