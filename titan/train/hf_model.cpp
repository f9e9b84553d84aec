#include "titan/train/hf_model.h"

#include "titan/models/families.h"

namespace titan {

HfModel hf_model(const LanguageModel& model, const ModelSpec& spec) {
  HfModel hf;
  hf.tensors = sharded_state(model);
  hf.names = model.hf_names();
  hf.tied = spec.model->enable_weight_tying;
  hf.config = family_of(spec).hf_config(spec);
  hf.title = format("{} {}", spec.name, spec.flavor);
  return hf;
}

}  // namespace titan
