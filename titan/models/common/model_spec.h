#pragma once

#include <string>

#include "titan/config/fields.h"
#include "titan/models/common/model_config.h"

namespace titan {

/// What is trained: the family ("qwen3"), the flavor ("4B") and the model's tree.
struct ModelSpec {
  std::string name = {};
  std::string flavor = {};
  Poly<ModelConfig> model = {};

  void describe(Fields& f) {
    f("name", name, "Model family");
    f("flavor", flavor, "Size of the family");
    f("model", model, "The model's tree");
  }
};

}  // namespace titan
