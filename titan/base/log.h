#pragma once

#include <string_view>

#include "titan/base/strings.h"

namespace titan {

enum class LogLevel { info, warning, error };

/// Writes one whole line to stderr: `[titan] 2026-07-20 17:33:50,431 - root - INFO - message`
/// (the reference's format, so that its readers read ours). Safe from several threads.
void log(LogLevel level, std::string_view message);

template <class... Args>
void log_info(std::string_view fmt, const Args&... args) {
  log(LogLevel::info, format(fmt, args...));
}

template <class... Args>
void log_warning(std::string_view fmt, const Args&... args) {
  log(LogLevel::warning, format(fmt, args...));
}

/// Warns only the first time that this very message comes up in the process.
void warn_once(std::string_view message);

}  // namespace titan
