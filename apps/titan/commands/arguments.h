#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace titan {

/// The options of a command that takes a handful of flags: `--name value`, `--name=value`, or `--name` for a
/// switch.
/// `-` and `_` inside a name are alike.
class Arguments {
 public:
  struct Option {
    std::string name;   ///< without the dashes
    std::string value;  ///< what stands for the value in the help, "" for a switch
    std::string help;
  };

  /// Throws ConfigError for an unknown flag (with the nearest one), a missing value, a repeated flag, or a
  /// word that is no flag.
  Arguments(std::string command, std::vector<Option> options, std::span<const std::string> args);

  /// True when --help was given; the help text is then printed already.
  bool help_shown() const { return help_shown_; }

  bool has(const std::string& name) const { return given_.contains(name); }
  std::optional<std::string> text(const std::string& name) const;
  /// Throws ConfigError that says what the flag is for.
  std::string required(const std::string& name) const;
  /// Throw ConfigError naming the flag when the value is no number or less than `least`.
  int64_t integer(const std::string& name, int64_t fallback, int64_t least) const;
  double number(const std::string& name, double fallback, double least) const;

 private:
  const Option& option(const std::string& name) const;
  void print_help() const;

  std::string command_;
  std::vector<Option> options_;
  std::map<std::string, std::string> given_;
  bool help_shown_ = false;
};

}  // namespace titan
