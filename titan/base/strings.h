#pragma once

#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace titan {

namespace detail {
/// Copies `fmt` up to the next "{}" into `out` and returns what follows it; without one, all of it.
std::string_view copy_to_placeholder(std::ostream& out, std::string_view fmt);
}  // namespace detail

/// Replaces each "{}" of `fmt`, in order, by the next argument as operator<< prints it.
template <class... Args>
std::string format(std::string_view fmt, const Args&... args) {
  std::ostringstream out;
  out << std::boolalpha;
  ((fmt = detail::copy_to_placeholder(out, fmt), out << args), ...);
  out << fmt;
  return std::move(out).str();
}

/// 4022468096 -> "4,022,468,096".
std::string with_commas(int64_t value);

/// `value` in fixed notation with `digits` digits after the point: fixed(1.5, 2) == "1.50".
std::string fixed(double value, int digits);

/// The shortest text that reads back as the same double: 0.1, 1e-08, 1000000.0 (always with a point or an
/// exponent).
std::string shortest(double value);

/// The pieces between separators; "a,,b" has three, "" has one.
std::vector<std::string> split(std::string_view text, char separator);

std::string join(const std::vector<std::string>& parts, std::string_view separator);

/// Without leading and trailing white space (ASCII).
std::string_view trim(std::string_view text);

/// Levenshtein distance in bytes.
size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate closest to `name`, if it is close enough to be a typing error of it.
std::optional<std::string> nearest(std::string_view name, const std::vector<std::string>& candidates);

/// "; did you mean X?" for the nearest candidate, or "".
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);

/// Python's fnmatch.fnmatchcase: `*`, `?`, `[abc]`, `[!abc]`, `[0-9]` over the whole of `text`.
bool glob_match(std::string_view pattern, std::string_view text);

/// Byte offset of the first sequence that is not UTF-8 (RFC 3629), or nothing.
std::optional<size_t> find_invalid_utf8(std::string_view text);

}  // namespace titan
