#include "titan/train/validate.h"

#include "titan/base/error.h"
#include "titan/ops/autograd.h"

namespace titan {

ValidationResult validate(const std::function<std::optional<Batch>()>& next, const LossFunction& loss,
                          int64_t max_batches) {
  const NoGrad no_grad;
  ValidationResult result;
  double sum = 0;
  for (int64_t batches = 0; batches != max_batches; ++batches) {
    const std::optional<Batch> batch = next();
    if (!batch) break;
    result.num_tokens += batch->rows * batch->seq_len;
    const int64_t valid = batch->valid_tokens();
    if (valid == 0) continue;
    result.valid_tokens += valid;
    sum += loss(*batch, static_cast<double>(valid)).item().toDouble() * static_cast<double>(valid);
  }
  if (result.valid_tokens == 0)
    throw ValueError("validator.dataloader: the validation set has no token to predict");
  result.loss = sum / static_cast<double>(result.valid_tokens);
  return result;
}

namespace {
LoaderOptions in_validator(LoaderOptions options) {
  options.section = "validator.dataloader";
  return options;
}
}  // namespace

Validator::Validator(const ValidatorConfig& config, std::shared_ptr<const Tokenizer> tokenizer,
                     const LoaderOptions& options)
    : config_(config), loader_(config.dataloader, std::move(tokenizer), in_validator(options)) {}

ValidationResult Validator::run(const LossFunction& loss) {
  loader_.rewind();
  return validate([this] { return loader_.next(); }, loss, config_.steps);
}

}  // namespace titan
