#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace titan {

/// A flag of torchrun.
struct TorchrunFlag {
  std::string_view name;   ///< with dashes: "nproc-per-node"
  std::string_view value;  ///< what stands for its value in the help; "" for a switch
  std::string_view help;
  char letter = 0;  ///< its short form: -t
};

std::span<const TorchrunFlag> torchrun_flags();

/// The words of a torchrun command line: flags up to the first word that is none, then the program and its
/// arguments. Flags that are not given take the value of PET_<NAME>.
class TorchrunWords {
 public:
  /// Throws ConfigError for an unknown flag (with the nearest), a missing or a superfluous value.
  explicit TorchrunWords(std::span<const std::string> args);

  bool help() const { return help_; }
  const std::vector<std::string>& program() const { return program_; }
  /// What the user wrote the flag as, for messages: "--tee" or "PET_TEE".
  std::string shown(std::string_view name) const;

  bool has(std::string_view name) const { return text(name).has_value(); }
  std::optional<std::string> text(std::string_view name) const;
  std::string text_or(std::string_view name, std::string_view fallback) const;
  bool is_on(std::string_view name) const;
  /// Throw ConfigError naming the flag when the value is no number or less than `least`.
  int64_t integer(std::string_view name, int64_t fallback, int64_t least) const;
  double number(std::string_view name, double fallback) const;

 private:
  void take_flag(std::span<const std::string> args, size_t& at);

  std::map<std::string, std::string, std::less<>> given_;
  std::vector<std::string> program_;
  bool help_ = false;
};

/// A whole number of at least `least`. Throws ConfigError naming `flag`.
int64_t whole_number(std::string_view text, std::string_view flag, int64_t least);

}  // namespace titan
