#include "apps/titan/commands/arguments.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "titan/base/error.h"
#include "titan/base/number.h"
#include "titan/base/strings.h"

namespace titan {

Arguments::Arguments(std::string command, std::vector<Option> options, std::span<const std::string> args)
    : command_(std::move(command)), options_(std::move(options)) {
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& word = args[i];
    if (word == "--help" || word == "-h") {
      print_help();
      help_shown_ = true;
      return;
    }
    if (!word.starts_with("--")) {
      throw ConfigError("titan {}: {} is no flag; `titan {} --help` lists them", command_, word, command_);
    }
    const size_t equals = word.find('=');
    std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
    std::replace(name.begin(), name.end(), '_', '-');
    const Option& known = option(name);
    std::string value;
    if (known.value.empty()) {
      if (equals != std::string::npos) throw ConfigError("titan {}: --{} takes no value", command_, name);
    } else if (equals != std::string::npos) {
      value = word.substr(equals + 1);
    } else if (++i < args.size()) {
      value = args[i];
    } else {
      throw ConfigError("titan {}: --{} needs a value: --{} {}", command_, name, name, known.value);
    }
    if (!given_.emplace(name, value).second)
      throw ConfigError("titan {}: --{} is given twice", command_, name);
  }
}

const Arguments::Option& Arguments::option(const std::string& name) const {
  std::vector<std::string> names;
  for (const Option& known : options_) {
    if (known.name == name) return known;
    names.push_back("--" + known.name);
  }
  throw ConfigError("titan {}: there is no flag --{}{}", command_, name, did_you_mean("--" + name, names));
}

std::optional<std::string> Arguments::text(const std::string& name) const {
  const auto found = given_.find(name);
  if (found == given_.end()) return std::nullopt;
  return found->second;
}

std::string Arguments::required(const std::string& name) const {
  const auto value = text(name);
  if (value && !value->empty()) return *value;
  const Option& known = option(name);
  throw ConfigError("titan {}: --{} {} is required: {}", command_, name, known.value, known.help);
}

int64_t Arguments::integer(const std::string& name, int64_t fallback, int64_t least) const {
  const auto value = text(name);
  if (!value) return fallback;
  const auto number = parse_number<int64_t>(*value);
  if (!number || *number < least) {
    throw ConfigError("titan {}: --{} must be a whole number of at least {}, got {}", command_, name, least,
                      *value);
  }
  return *number;
}

double Arguments::number(const std::string& name, double fallback, double least) const {
  const auto value = text(name);
  if (!value) return fallback;
  const auto number = parse_number<double>(*value);
  if (!number || !std::isfinite(*number) || *number < least) {
    throw ConfigError("titan {}: --{} must be a number of at least {}, got {}", command_, name,
                      shortest(least), *value);
  }
  return *number;
}

void Arguments::print_help() const {
  std::printf("Usage: titan %s [FLAGS]\n\n", command_.c_str());
  for (const Option& known : options_) {
    const std::string flag = "--" + known.name + (known.value.empty() ? "" : " " + known.value);
    std::printf("  %-28s %s\n", flag.c_str(), known.help.c_str());
  }
}

}  // namespace titan
