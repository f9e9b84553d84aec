#include "titan/nn/embedding.h"

#include "titan/ops/embedding.h"

namespace titan {

Embedding::Embedding(const EmbeddingConfig& config) {
  add_parameter("weight", weight, {config.num_embeddings, config.embedding_dim},
                {Init::Kind::normal, config.init_std});
}

at::Tensor Embedding::forward(const at::Tensor& ids, at::ScalarType dtype) const {
  return embedding(weight.value, ids, dtype, {weight.value_block.offset[0], weight.shape[0]});
}

template <>
ModulePtr build(const EmbeddingConfig& config) {
  return std::make_shared<Embedding>(config);
}

}  // namespace titan
