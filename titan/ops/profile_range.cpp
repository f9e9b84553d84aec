#include "titan/ops/profile_range.h"

#include <ATen/record_function.h>

#include <utility>

namespace titan {

ProfileRange::ProfileRange(std::string_view name) {
  auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE);
  if (!callbacks) return;
  record_ = std::make_unique<at::RecordFunction>(std::move(*callbacks));
  record_->before(name);
}

ProfileRange::~ProfileRange() = default;

}  // namespace titan
