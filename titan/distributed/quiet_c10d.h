#pragma once

#include <c10/util/Logging.h>

#include <algorithm>

#include "titan/base/env.h"

namespace titan {

/// While it lives, c10d does not log what, with stacks, precedes the errors which we say in our
/// own words; unless the user asked for them by TORCH_CPP_LOG_LEVEL.
class QuietC10d {
 public:
  QuietC10d() : level_(FLAGS_caffe2_log_level) {
    if (!env("TORCH_CPP_LOG_LEVEL")) FLAGS_caffe2_log_level = std::max(level_, c10::GLOG_FATAL);
  }
  ~QuietC10d() { FLAGS_caffe2_log_level = level_; }
  QuietC10d(const QuietC10d&) = delete;
  QuietC10d& operator=(const QuietC10d&) = delete;

 private:
  int level_;
};

}  // namespace titan
