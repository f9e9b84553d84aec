#include "titan/config/cli.h"

#include <algorithm>

#include "titan/base/error.h"
#include "titan/base/strings.h"
#include "titan/config/locate.h"
#include "titan/config/text.h"
#include "titan/config/walk.h"

namespace titan {

namespace {

bool is_option(std::string_view word) { return word.starts_with("--") && word.size() > 2; }

/// `--name=value` taken apart.
struct Option {
  std::string name;
  std::optional<std::string> value;
};

Option parse_option(std::string_view word) {
  word.remove_prefix(2);
  const size_t equals = word.find('=');
  if (equals == word.npos) return {std::string(word), std::nullopt};
  return {std::string(word.substr(0, equals)), std::string(word.substr(equals + 1))};
}

const MemberType& value_type(const MemberType& type) {
  return type.kind == Kind::optional ? *type.inner : type;
}

/// The places an option names, and whether it names them with a `no`.
struct Target {
  std::vector<Located> places;
  bool negated = false;
};

bool all_bools(const std::vector<Located>& places) {
  return !places.empty() && std::ranges::all_of(places, [](const Located& place) {
    return place.is_leaf() && value_type(*place.type).kind == Kind::boolean;
  });
}

Target find_target(Node root, std::string_view name) {
  if (auto places = locate(root, name); !places.empty()) return {std::move(places)};
  const size_t dot = name.rfind('.');
  const size_t last = dot == name.npos ? 0 : dot + 1;
  std::vector<std::string> positive;
  for (const std::string_view prefix : {"no_", "no-"}) {
    if (name.substr(last).starts_with(prefix)) {
      positive.push_back(std::string(name.substr(0, last)) + std::string(name.substr(last + prefix.size())));
    }
    if (last > 0 && name.starts_with(prefix)) positive.emplace_back(name.substr(prefix.size()));
  }
  for (const std::string& candidate : positive) {
    auto places = locate(root, candidate);
    if (all_bools(places)) return {std::move(places), true};
  }
  return {};
}

std::string negative_of(std::string_view fqn) {
  const size_t dot = fqn.rfind('.');
  return dot == fqn.npos ? format("no_{}", fqn) : format("{}.no_{}", fqn.substr(0, dot), fqn.substr(dot + 1));
}

[[noreturn]] void throw_flag_with_value(std::string_view fqn) {
  throw ConfigError("--{} is a flag and takes no value: type --{} for true, --{} for false", fqn, fqn,
                    negative_of(fqn));
}

[[noreturn]] void throw_section(const Located& place) {
  std::vector<std::string> options;
  for (const Alternative& alternative : place.type->alternatives) {
    options.push_back(format("{}:{}", place.fqn, alternative.name));
  }
  if (place.section) {
    for (const Located& leaf : leaves_of(place.section, 1))
      options.push_back(format("--{}.{}", place.fqn, leaf.fqn));
  }
  if (options.empty())
    throw ConfigError("--{} ({}) cannot be set on the command line", place.fqn, kind_name(*place.type));
  throw ConfigError("--{} is a section; set what is in it: {}", place.fqn, join(options, ", "));
}

[[noreturn]] void throw_unknown(Node root, std::string_view name) {
  std::vector<std::string> known, same_field;
  const std::string last = "." + split(name, '.').back();
  std::string spelled = last;
  std::ranges::replace(spelled, '-', '_');
  for (const Located& leaf : leaves_of(root, 1)) {
    known.push_back("--" + leaf.fqn);
    if (leaf.fqn.ends_with(spelled) && !leaf.fqn.starts_with("model_spec."))
      same_field.push_back("--" + leaf.fqn);
  }
  for (const Place& place : places_of(root)) {
    if (!place.fqn.empty() && place.fqn.find('.') == std::string::npos) known.push_back("--" + place.fqn);
  }
  std::string hint = did_you_mean(format("--{}", name), known);
  constexpr size_t kMostNames = 3;
  if (hint.empty() && !same_field.empty() && same_field.size() <= kMostNames) {
    hint = format("; did you mean {}?", join(same_field, " or "));
  }
  throw ConfigError("unknown option --{}{} (--help lists all)", name, hint);
}

const Alternative& find_alternative(const Located& place, std::string_view name) {
  std::vector<std::string> names;
  for (const Alternative& alternative : place.type->alternatives) {
    if (alternative.name == name) return alternative;
    names.emplace_back(alternative.name);
  }
  throw ConfigError("{} can be {}; got '{}'{}", place.fqn, join(names, ", "), name,
                    did_you_mean(name, names));
}

bool is_choosable(const std::vector<Located>& places) {
  return !places.empty() && std::ranges::all_of(places, [](const Located& place) {
    return !place.is_leaf() && !place.type->alternatives.empty() && place.type->size == nullptr;
  });
}

void choose(const std::vector<Located>& places, std::string_view name) {
  for (const Located& place : places) {
    const Alternative& alternative = find_alternative(place, name);
    if (alternative.status == Status::refused) throw ConfigError("{}:{} is not built yet", place.fqn, name);
    if (place.section && same_type(*place.section.type, *alternative.type)) continue;
    static_cast<Slot*>(place.member)->assign(AnyNode(*alternative.type).node());
  }
}

/// `section:name`; empty places when `word` is something else.
struct Choice {
  std::vector<Located> places;
  std::string_view name;
};

Choice parse_choice(Node root, std::string_view word) {
  const size_t colon = word.find(':');
  if (is_option(word) || colon == word.npos) return {};
  auto places = locate(root, word.substr(0, colon));
  if (!is_choosable(places)) return {};
  return {std::move(places), word.substr(colon + 1)};
}

/// Chooses alternatives and returns the words that are left.
std::vector<std::string> choose_alternatives(Node root, std::span<const std::string> words) {
  std::vector<std::string> rest;
  for (size_t i = 0; i < words.size(); ++i) {
    if (const Choice choice = parse_choice(root, words[i]); !choice.places.empty()) {
      choose(choice.places, choice.name);
      continue;
    }
    rest.push_back(words[i]);
    if (!is_option(words[i])) continue;
    const Option option = parse_option(words[i]);
    const Target target = find_target(root, option.name);
    const bool has_next = i + 1 < words.size() && !is_option(words[i + 1]);
    if (is_choosable(target.places) && (option.value || has_next)) {
      rest.pop_back();
      choose(target.places, option.value ? *option.value : words[++i]);
    } else if (!target.places.empty() && !all_bools(target.places) && !option.value && has_next) {
      rest.push_back(words[++i]);  // a value, whatever it looks like
    }
  }
  return rest;
}

void set_value(const Located& place, std::string_view text) {
  try {
    set_text(*place.type, place.member, text);
  } catch (const ConfigError& error) {
    throw ConfigError("--{} {}", place.fqn, error.what());
  }
}

/// Sets what `words[i]` names and returns how many words that took.
size_t set_one(Node root, std::span<const std::string> words, size_t i) {
  const Option option = parse_option(words[i]);
  const Target target = find_target(root, option.name);
  if (target.places.empty()) throw_unknown(root, option.name);
  if (all_bools(target.places)) {
    const Located& first = target.places.front();
    const bool to_none = first.type->kind == Kind::optional && option.value == "none";
    if (option.value && !to_none) throw_flag_with_value(first.fqn);
    for (const Located& place : target.places)
      set_value(place, to_none ? "none" : target.negated ? "false" : "true");
    return 1;
  }
  for (const Located& place : target.places) {
    if (!place.is_leaf()) throw_section(place);
  }
  if (!option.value && i + 1 == words.size()) {
    throw ConfigError("--{} needs a value ({})", option.name, kind_name(*target.places.front().type));
  }
  if (!option.value && is_option(words[i + 1])) {
    throw ConfigError(
        "--{} needs a value ({}), but {} follows; a value that begins with -- is written --{}={}",
        option.name, kind_name(*target.places.front().type), words[i + 1], option.name, words[i + 1]);
  }
  for (const Located& place : target.places) set_value(place, option.value ? *option.value : words[i + 1]);
  return option.value ? 1 : 2;
}

[[noreturn]] void throw_stray(Node root, std::span<const std::string> words, size_t i) {
  if (i > 0 && is_option(words[i - 1])) {
    const Target before = find_target(root, parse_option(words[i - 1]).name);
    if (all_bools(before.places)) throw_flag_with_value(before.places.front().fqn);
  }
  if (const size_t colon = words[i].find(':'); colon != std::string::npos) {
    const std::string section = words[i].substr(0, colon);
    if (locate(root, section).empty()) {
      std::vector<std::string> sections;
      for (const Place& place : places_of(root)) sections.push_back(place.fqn);
      throw ConfigError("unknown section '{}' in '{}'{}", section, words[i], did_you_mean(section, sections));
    }
    throw ConfigError("'{}': {} offers no alternatives", words[i], section);
  }
  const std::string option = "--" + words[i];
  const bool is_name = !find_target(root, words[i].substr(0, words[i].find('='))).places.empty();
  throw ConfigError("unexpected '{}'{}", words[i],
                    is_name ? format("; did you mean {}?", option) : ": options begin with --");
}

}  // namespace

void set_from_command_line(Node root, std::span<const std::string> words) {
  const std::vector<std::string> rest = choose_alternatives(root, words);
  for (size_t i = 0; i < rest.size();) {
    if (!is_option(rest[i])) throw_stray(root, rest, i);
    i += set_one(root, rest, i);
  }
}

std::optional<std::string> take_option(std::vector<std::string>& words, std::string_view name) {
  std::optional<std::string> value;
  for (size_t i = 0; i < words.size();) {
    const Option option = is_option(words[i]) ? parse_option(words[i]) : Option{};
    if (option.name != name) {
      ++i;
      continue;
    }
    const bool inline_value = option.value.has_value();
    if (!inline_value && (i + 1 == words.size() || is_option(words[i + 1]))) {
      throw ConfigError("--{} needs a value", name);
    }
    value = inline_value ? *option.value : words[i + 1];
    words.erase(words.begin() + i, words.begin() + i + (inline_value ? 1 : 2));
  }
  return value;
}

bool take_flag(std::vector<std::string>& words, std::string_view name) {
  return std::erase(words, format("--{}", name)) > 0;
}

}  // namespace titan
