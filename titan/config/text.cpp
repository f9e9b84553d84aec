#include "titan/config/text.h"

#include <charconv>
#include <cmath>

#include "titan/base/error.h"
#include "titan/base/strings.h"

namespace titan {

namespace {

template <class T>
T& at(void* member) {
  return *static_cast<T*>(member);
}

template <class T>
const T& at(const void* member) {
  return *static_cast<const T*>(member);
}

using Texts = std::vector<std::string>;

Texts choices_of(const MemberType& type) {
  Texts words;
  for (size_t i = 0; i < type.num_choices; ++i) words.emplace_back(type.choice_name(i));
  return words;
}

std::string show_choice(const MemberType& type, int64_t value) {
  for (size_t i = 0; i < type.num_choices; ++i) {
    if (type.choice_value(i) == value) return std::string(type.choice_name(i));
  }
  return format("{} (not a named value)", value);
}

int64_t parse_choice(const MemberType& type, std::string_view text) {
  for (size_t i = 0; i < type.num_choices; ++i) {
    if (type.choice_name(i) == text) return type.choice_value(i);
  }
  throw ConfigError("expects one of {}; got '{}'{}", join(choices_of(type), ", "), text,
                    did_you_mean(text, choices_of(type)));
}

template <class T>
T parse_number(std::string_view text, std::string_view expected) {
  const std::string_view digits = text.starts_with('+') ? text.substr(1) : text;
  T value{};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool two_signs = text.starts_with('+') && (digits.starts_with('+') || digits.starts_with('-'));
  const bool whole = end == digits.data() + digits.size() && !two_signs;
  if (whole && error == std::errc::result_out_of_range) {
    throw ConfigError("expects {}; '{}' is out of range", expected, text);
  }
  if (!whole || error != std::errc{}) {
    throw ConfigError("expects {}; got '{}'", expected, text);
  }
  return value;
}

int64_t parse_integer(std::string_view text) { return parse_number<int64_t>(text, "an int"); }

double parse_double(std::string_view text) {
  const double value = parse_number<double>(text, "a float");
  if (std::isnan(value)) throw ConfigError("expects a float; got '{}'", text);
  return value;
}

std::string show_double(double value) {
  return std::isinf(value) ? (value < 0 ? "-inf" : "inf") : shortest(value);
}

bool parse_bool(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  throw ConfigError("expects true or false; got '{}'", text);
}

/// The pieces between commas; those of a JSON object divide nothing.
Texts split_list(std::string_view text) {
  Texts parts{""};
  int64_t depth = 0;  // of braces
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == ',' && depth == 0) {
      parts.emplace_back();
      continue;
    }
    parts.back() += c;
    if (c == '{') ++depth;
    if (c == '}' && depth > 0) --depth;
    if (c != '"' || depth == 0) continue;
    // A string of the object's, to its end.
    while (++i < text.size() && text[i] != '"') {
      parts.back() += text[i];
      if (text[i] == '\\' && i + 1 < text.size()) parts.back() += text[++i];
    }
    if (i < text.size()) parts.back() += '"';
  }
  return parts;
}

Texts parse_texts(std::string_view text) {
  Texts values;
  if (trim(text).empty()) return values;
  for (const std::string& part : split_list(text)) {
    values.emplace_back(trim(part));
    if (values.back().empty())
      throw ConfigError("expects words with commas between; '{}' has an empty one", text);
  }
  return values;
}

template <class T>
std::vector<T> parse_each(std::string_view text, T (*parse)(std::string_view)) {
  std::vector<T> values;
  for (const std::string& part : parse_texts(text)) values.push_back(parse(part));
  return values;
}

template <class T, class Show>
std::string show_each(const std::vector<T>& values, Show show) {
  Texts parts;
  for (const T& value : values) parts.push_back(show(value));
  return join(parts, ",");
}

std::vector<Texts> parse_text_lists(std::string_view text) {
  std::vector<Texts> lists;
  if (trim(text).empty()) return lists;
  for (const std::string& part : split(text, ';')) lists.push_back(parse_texts(part));
  return lists;
}

Json json_double(double value) { return std::isinf(value) ? Json(show_double(value)) : Json(value); }

double double_of(const Json& value) {
  if (value.is_string()) return parse_double(value.as_string());
  return value.as_double();
}

template <class T, class Convert>
Json json_list(const std::vector<T>& values, Convert convert) {
  Json list = Json::array();
  for (const T& value : values) list.push_back(convert(value));
  return list;
}

template <class T, class Convert>
std::vector<T> list_of(const Json& value, Convert convert) {
  std::vector<T> values;
  for (const Json& element : value.elements()) values.push_back(convert(element));
  return values;
}

std::string text_of(const Json& value) { return value.as_string(); }
Texts texts_of(const Json& value) { return list_of<std::string>(value, text_of); }

void set_json_checked(const MemberType& type, void* member, const Json& value) {
  switch (type.kind) {
    case Kind::boolean:
      at<bool>(member) = value.as_bool();
      break;
    case Kind::integer:
      at<int64_t>(member) = value.as_int();
      break;
    case Kind::number:
      at<double>(member) = double_of(value);
      break;
    case Kind::text:
      at<std::string>(member) = value.as_string();
      break;
    case Kind::texts:
      at<Texts>(member) = texts_of(value);
      break;
    case Kind::text_lists:
      at<std::vector<Texts>>(member) = list_of<Texts>(value, texts_of);
      break;
    case Kind::integers:
      at<std::vector<int64_t>>(member) = list_of<int64_t>(value, [](const Json& v) { return v.as_int(); });
      break;
    case Kind::numbers:
      at<std::vector<double>>(member) = list_of<double>(value, double_of);
      break;
    case Kind::choice:
      type.set_choice(member, parse_choice(type, value.as_string()));
      break;
    default:
      check(false, "only leaves are read from a JSON value");
  }
}

}  // namespace

bool is_leaf(const MemberType& type) { return type.kind <= Kind::optional; }

std::string kind_name(const MemberType& type) {
  switch (type.kind) {
    case Kind::boolean:
      return "bool";
    case Kind::integer:
      return "int";
    case Kind::number:
      return "float";
    case Kind::text:
      return "str";
    case Kind::texts:
      return "list of str";
    case Kind::text_lists:
      return "lists of str";
    case Kind::integers:
      return "list of int";
    case Kind::numbers:
      return "list of float";
    case Kind::choice:
      return join(choices_of(type), "|");
    case Kind::optional:
      return kind_name(*type.inner) + " or none";
    case Kind::node:
      return type_name(*type.type);
    case Kind::slot:
      return type_name(*type.type) + " or derived";
    case Kind::nodes:
    case Kind::slots:
      return "list of " + type_name(*type.type);
  }
  check(false, "every kind has a name");
  return "";
}

std::string to_text(const MemberType& type, const void* member) {
  switch (type.kind) {
    case Kind::boolean:
      return at<bool>(member) ? "true" : "false";
    case Kind::integer:
      return std::to_string(at<int64_t>(member));
    case Kind::number:
      return show_double(at<double>(member));
    case Kind::text:
      return at<std::string>(member);
    case Kind::texts:
      return join(at<Texts>(member), ",");
    case Kind::text_lists: {
      Texts lists;
      for (const Texts& list : at<std::vector<Texts>>(member)) lists.push_back(join(list, ","));
      return join(lists, ";");
    }
    case Kind::integers:
      return show_each(at<std::vector<int64_t>>(member), [](int64_t v) { return std::to_string(v); });
    case Kind::numbers:
      return show_each(at<std::vector<double>>(member), show_double);
    case Kind::choice:
      return show_choice(type, type.get_choice(member));
    case Kind::optional: {
      const void* value = type.value(const_cast<void*>(member));
      return value == nullptr ? "none" : to_text(*type.inner, value);
    }
    default:
      check(false, "only leaves have a text");
      return "";
  }
}

void set_text(const MemberType& type, void* member, std::string_view text) {
  switch (type.kind) {
    case Kind::boolean:
      at<bool>(member) = parse_bool(text);
      break;
    case Kind::integer:
      at<int64_t>(member) = parse_integer(text);
      break;
    case Kind::number:
      at<double>(member) = parse_double(text);
      break;
    case Kind::text:
      at<std::string>(member) = text;
      break;
    case Kind::texts:
      at<Texts>(member) = parse_texts(text);
      break;
    case Kind::text_lists:
      at<std::vector<Texts>>(member) = parse_text_lists(text);
      break;
    case Kind::integers:
      at<std::vector<int64_t>>(member) = parse_each(text, parse_integer);
      break;
    case Kind::numbers:
      at<std::vector<double>>(member) = parse_each(text, parse_double);
      break;
    case Kind::choice:
      type.set_choice(member, parse_choice(type, text));
      break;
    case Kind::optional:
      if (text == "none" || text == "None") return type.reset(member);
      if (void* value = type.value(member)) return set_text(*type.inner, value, text);
      try {
        set_text(*type.inner, type.emplace(member), text);
      } catch (const ConfigError&) {
        type.reset(member);
        throw;
      }
      break;
    default:
      check(false, "only leaves are read from text");
  }
}

Json to_json(const MemberType& type, const void* member) {
  switch (type.kind) {
    case Kind::boolean:
      return at<bool>(member);
    case Kind::integer:
      return at<int64_t>(member);
    case Kind::number:
      return json_double(at<double>(member));
    case Kind::texts:
      return json_list(at<Texts>(member), [](const std::string& v) { return Json(v); });
    case Kind::text_lists:
      return json_list(at<std::vector<Texts>>(member), [](const Texts& list) {
        return json_list(list, [](const std::string& v) { return Json(v); });
      });
    case Kind::integers:
      return json_list(at<std::vector<int64_t>>(member), [](int64_t v) { return Json(v); });
    case Kind::numbers:
      return json_list(at<std::vector<double>>(member), json_double);
    case Kind::optional: {
      const void* value = type.value(const_cast<void*>(member));
      return value == nullptr ? Json() : to_json(*type.inner, value);
    }
    default:
      return to_text(type, member);
  }
}

void set_json(const MemberType& type, void* member, const Json& value) {
  if (type.kind == Kind::optional) {
    if (value.is_null()) return type.reset(member);
    if (void* inner = type.value(member)) return set_json(*type.inner, inner, value);
    try {
      return set_json(*type.inner, type.emplace(member), value);
    } catch (const ConfigError&) {
      type.reset(member);
      throw;
    }
  }
  try {
    set_json_checked(type, member, value);
  } catch (const ConfigError&) {
    throw;
  } catch (const ValueError&) {
    throw ConfigError("expects {}, found {}", kind_name(type), value.kind());
  }
}

}  // namespace titan
