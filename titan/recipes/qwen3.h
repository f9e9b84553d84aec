#pragma once

#include "titan/models/qwen3/qwen3_config.h"
#include "titan/train/trainer_config.h"

/// The config functions of the built-in module `qwen3`: the reference's, with its values, and qwen3_demo.
namespace titan::qwen3 {

/// Trains on the bundled text in about a minute on two cores and exports Hugging Face files.
TrainerConfig qwen3_demo();

TrainerConfig qwen3_debugmodel();
TrainerConfig qwen3_debugmodel_non_fused_qkv();
TrainerConfig qwen3_debugmodel_moe_param_groups();
TrainerConfig qwen3_moe_debug();
TrainerConfig qwen3_0_6b();
TrainerConfig qwen3_1_7b();
TrainerConfig qwen3_14b();
TrainerConfig qwen3_32b();
TrainerConfig qwen3_30b_a3b();

}  // namespace titan::qwen3
