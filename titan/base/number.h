#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace titan {

/// The number that `text` is, all of it; nothing where it is none, or none that a Number holds.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace titan
