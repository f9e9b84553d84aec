#pragma once

#include <ATen/Context.h>

namespace titan {

/// While it lives at::empty gives NaN (integers: the largest), so that what a kernel forgets to write shows.
class FilledEmpty {
 public:
  FilledEmpty()
      : was_on_(at::globalContext().deterministicAlgorithms()),
        warned_(at::globalContext().deterministicAlgorithmsWarnOnly()) {
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  }
  FilledEmpty(const FilledEmpty&) = delete;
  FilledEmpty& operator=(const FilledEmpty&) = delete;
  ~FilledEmpty() { at::globalContext().setDeterministicAlgorithms(was_on_, warned_); }

 private:
  bool was_on_, warned_;
};

}  // namespace titan
