#include "titan/train/validate.h"

#include <algorithm>

#include "titan/base/error.h"
#include "titan/ops/autograd.h"

namespace titan {

ValidationResult validate(const ValidationRows& rows, const LossFunction& loss, int64_t max_batches,
                          World& world) {
  const NoGrad no_grad;
  ValidationResult result;
  double sum = 0;
  int64_t valid_tokens = 0;
  for (int64_t batches = 0; batches != max_batches; ++batches) {
    std::optional<Batch> batch = rows.next();
    if (!agree_on_step(world, {.has_data = batch.has_value()}).has_data) break;
    if (!batch) batch = rows.padding();
    const int64_t valid = batch->valid_tokens();
    // Also without a label that counts: other ranks may need this one's weights.
    const double mean = loss(*batch, static_cast<double>(std::max<int64_t>(valid, 1))).item().toDouble();
    sum += mean * static_cast<double>(valid);
    valid_tokens += valid;
    result.num_tokens += batch->rows * batch->seq_len;
  }
  result.valid_tokens = agree_on_step(world, {.valid_tokens = valid_tokens}).valid_tokens;
  if (result.valid_tokens == 0)
    throw CommonError("validator.dataloader: the validation set has no token to predict");
  const double share = sum / static_cast<double>(result.valid_tokens);
  result.loss = agree_on_loss(world, {.share = share}).avg_loss;
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

ValidationResult Validator::run(const LossFunction& loss, World& world) {
  loader_.rewind();
  const ValidationRows rows{.next = [this] { return loader_.next(); },
                            .padding = [this] { return loader_.padding_batch(); }};
  return validate(rows, loss, config_.steps, world);
}

}  // namespace titan
