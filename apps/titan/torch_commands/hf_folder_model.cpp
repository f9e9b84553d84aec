#include "apps/titan/torch_commands/hf_folder_model.h"

#include "titan/base/error.h"
#include "titan/checkpoint/hf_import.h"
#include "titan/config/walk.h"
#include "titan/models/families.h"
#include "titan/ops/threads.h"
#include "titan/train/hf_model.h"

namespace titan {

namespace {

at::ScalarType parse_dtype(const std::string& name) {
  if (name == "float32") return at::kFloat;
  if (name == "bfloat16") return at::kBFloat16;
  throw ConfigError("--dtype must be float32 or bfloat16, got {}", name);
}

AttnMask parse_mask(const std::string& name) {
  for (const auto& [known, mask] : names<AttnMask>) {
    if (name == known) return mask;
  }
  throw ConfigError("--mask must be document or causal, got {}", name);
}

}  // namespace

HfFolderModel load_hf_folder(const std::filesystem::path& assets, const HfFolderOptions& options) {
  const at::ScalarType dtype = parse_dtype(options.dtype);
  const AttnMask mask = parse_mask(options.mask);
  set_up_threads();
  HfFolderModel loaded{spec_from_assets(assets.string()), nullptr};
  traverse<AttentionConfig>(*loaded.spec.model,
                            [&](const std::string&, AttentionConfig& attention) { attention.mask = mask; });
  loaded.model = build_model(loaded.spec.model);
  allocate(*loaded.model, at::kFloat, at::kCPU);
  hf_import(hf_model(*loaded.model, loaded.spec), assets, {.quantized = true});
  loaded.model->set_compute_dtype(dtype);
  return loaded;
}

}  // namespace titan
