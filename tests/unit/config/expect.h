#pragma once

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "titan/base/error.h"

/// The message of the ConfigError that `action` throws; a failed check when it throws none.
template <class Action>
std::string config_error(Action action) {
  try {
    action();
  } catch (const titan::ConfigError& error) {
    return error.what();
  }
  FAIL_CHECK("no ConfigError was thrown");
  return "";
}

inline void check_contains(const std::string& text, std::string_view part) {
  INFO("expected '" << std::string(part) << "' in: " << text);
  CHECK(text.find(part) != std::string::npos);
}
