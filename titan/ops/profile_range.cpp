#include "titan/ops/profile_range.h"

#include <ATen/record_function.h>

#include <utility>

#include "titan/base/strings.h"

namespace titan {

ProfileRange::ProfileRange(std::string_view name, std::string_view detail) {
  auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE);
  if (!callbacks) return;
  record_ = std::make_unique<at::RecordFunction>(std::move(*callbacks));
  record_->before(detail.empty() ? std::string(name) : format("{} ({})", name, detail));
}

ProfileRange::~ProfileRange() = default;

}  // namespace titan
