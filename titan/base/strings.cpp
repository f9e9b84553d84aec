#include "titan/base/strings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

namespace titan {

std::string_view detail::copy_to_placeholder(std::ostream& out, std::string_view fmt) {
  const size_t at = fmt.find("{}");
  if (at == std::string_view::npos) {
    out << fmt;
    return {};
  }
  out << fmt.substr(0, at);
  return fmt.substr(at + 2);
}

std::string with_commas(int64_t value) {
  std::string digits = std::to_string(value);
  const size_t first = digits.starts_with('-') ? 1 : 0;
  for (size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

std::string fixed(double value, int digits) {
  std::string text(512, '\0');
  const int size = std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  text.resize(static_cast<size_t>(size));
  return text;
}

std::string shortest(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char text[40];
  const auto [end, error] = std::to_chars(text, text + sizeof text, value);
  std::string result(text, end);
  if (result.find_first_of(".e") == std::string::npos) result += ".0";
  return result;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t at = text.find(separator); at != std::string_view::npos; at = text.find(separator)) {
    parts.emplace_back(text.substr(0, at));
    text.remove_prefix(at + 1);
  }
  parts.emplace_back(text);
  return parts;
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += separator;
    text += parts[i];
  }
  return text;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\r\f\v";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row.back();
}

std::optional<std::string> nearest(std::string_view name, const std::vector<std::string>& candidates) {
  std::optional<std::string> best;
  size_t best_distance = std::max<size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates) {
  const auto found = nearest(name, candidates);
  return found ? format("; did you mean {}?", *found) : "";
}

namespace {

/// Matches one `[...]` class at the start of `pattern`; sets `length` to its size, 0 where it is not closed.
bool class_matches(std::string_view pattern, char c, size_t& length) {
  size_t at = 1;
  const bool negated = at < pattern.size() && pattern[at] == '!';
  if (negated) ++at;
  const size_t first = at;
  bool found = false;
  for (; at < pattern.size() && (pattern[at] != ']' || at == first); ++at) {
    if (at + 2 < pattern.size() && pattern[at + 1] == '-' && pattern[at + 2] != ']') {
      found = found || (pattern[at] <= c && c <= pattern[at + 2]);
      at += 2;
    } else {
      found = found || pattern[at] == c;
    }
  }
  length = at < pattern.size() ? at + 1 : 0;
  return found != negated;
}

}  // namespace

bool glob_match(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, star_text = 0;
  while (t < text.size()) {
    size_t length = 1;
    bool matches = false;
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_text = t;
      continue;
    }
    if (p < pattern.size()) {
      if (pattern[p] == '[') {
        matches = class_matches(pattern.substr(p), text[t], length);
        if (length == 0) {
          length = 1;
          matches = text[t] == '[';
        }
      } else {
        matches = pattern[p] == '?' || pattern[p] == text[t];
      }
    }
    if (matches) {
      p += length;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

std::optional<size_t> find_invalid_utf8(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  for (size_t i = 0; i < text.size();) {
    const unsigned char lead = byte(i);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    const size_t length = lead >= 0xC2 && lead < 0xE0   ? 2
                          : lead >= 0xE0 && lead < 0xF0 ? 3
                          : lead >= 0xF0 && lead < 0xF5 ? 4
                                                        : 0;
    if (length == 0 || i + length > text.size()) return i;
    // The second byte excludes overlong forms, surrogates and code points above 10FFFF (RFC 3629, section 4).
    const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (byte(i + 1) < low || byte(i + 1) > high) return i;
    for (size_t k = 2; k < length; ++k) {
      if ((byte(i + k) & 0xC0) != 0x80) return i;
    }
    i += length;
  }
  return std::nullopt;
}

}  // namespace titan
