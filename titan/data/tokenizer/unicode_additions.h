#pragma once

#include <span>
#include <string_view>

namespace titan::unicode {

/// Code points [first, last] of one general category.
struct CategoryRange {
  char32_t first;
  char32_t last;
  std::string_view category;
};

/// What Unicode 15 and 16 assigned. `tokenizers` cuts text by Unicode 16; the libraries of the supported
/// systems know 14 or later, so that these ranges, added to their classes, give the same classes everywhere.
std::span<const CategoryRange> category_additions();

/// The category of `value` if it is of these ranges, or "".
std::string_view added_category(char32_t value);

/// Whether a code point of these ranges occurs in a UTF-8 text.
bool has_category_addition(std::string_view text);

}  // namespace titan::unicode
