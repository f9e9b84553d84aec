// The config module of bench/training.py: hidden 256, 8 layers, 16 heads of 32, 8 kv heads, batch 4 x 512,
// float32.
#include <titan/recipes.h>

using namespace titan;

TrainerConfig speed_floor() {
  auto config = qwen3::qwen3_demo();
  config.model_spec.model = qwen3::make_model({.vocab_size = 2048,
                                               .dim = 256,
                                               .n_layers = 8,
                                               .n_heads = 16,
                                               .n_kv_heads = 8,
                                               .head_dim = 32,
                                               .hidden_dim = 768,
                                               .max_seq_len = 2048,
                                               .tied = true},
                                              {.mask = AttnMask::causal});
  config.training.local_batch_size = 4;
  config.training.seq_len = 512;
  config.training.steps = 13;
  config.checkpoint.enable = false;
  config.metrics.log_freq = 1;
  config.metrics.enable_jsonl = true;
  return config;
}
