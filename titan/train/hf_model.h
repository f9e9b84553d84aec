#pragma once

#include "titan/checkpoint/hf_model.h"
#include "titan/models/common/language_model.h"
#include "titan/models/common/model_spec.h"

namespace titan {

/// The model as Hugging Face files see it: its live shards, their names, whether the head is tied, and its
/// config.json.
HfModel hf_model(const LanguageModel& model, const ModelSpec& spec);

}  // namespace titan
