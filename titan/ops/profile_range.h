#pragma once

#include <memory>
#include <string_view>

namespace at {
struct RecordFunction;
}

namespace titan {

/// Names a stretch of time in traces, from construction to destruction, on this thread: a phase of a step, a
/// collective. Costs a few nanoseconds while nothing records. Ranges of a thread are nested.
class ProfileRange {
 public:
  /// The name is "name", or "name (detail)"; it is only made while something records.
  explicit ProfileRange(std::string_view name, std::string_view detail = {});
  ProfileRange(const ProfileRange&) = delete;
  ProfileRange& operator=(const ProfileRange&) = delete;
  ~ProfileRange();

 private:
  std::unique_ptr<at::RecordFunction> record_;
};

}  // namespace titan
