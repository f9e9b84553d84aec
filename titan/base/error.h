#pragma once

#include <source_location>
#include <stdexcept>
#include <string_view>

#include "titan/base/strings.h"

namespace titan {

/// A mistake of the user's: the message names the flag, file or tensor, what was given and what to do.
/// Programs print it and exit with 1.
struct ValueError : std::runtime_error {
  template <class... Args>
  explicit ValueError(std::string_view fmt, const Args&... args) : std::runtime_error(format(fmt, args...)) {}
};

/// A fault that every rank of a job meets alike, so that one of them says it for all.
struct CommonError : ValueError {
  using ValueError::ValueError;
};

/// What ranks meet when another one is gone or late: not the fault itself, which the launcher looks for
/// elsewhere.
struct PeerError : CommonError {
  using CommonError::CommonError;
};

/// A mistake in the command line or the configuration. Programs print it and exit with 2.
struct ConfigError : CommonError {
  using CommonError::CommonError;
};

/// Throws std::logic_error naming `fact` and the place: for facts that hold unless our own code is wrong.
void check(bool condition, std::string_view fact,
           const std::source_location& place = std::source_location::current());

}  // namespace titan
