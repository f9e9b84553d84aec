#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "titan/data/tokenizer/pre_tokenizer.h"
#include "titan/data/tokenizer/regex.h"

namespace titan {

/// What becomes of the delimiters that a pattern finds; the names are those of tokenizer.json.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

/// Member "behavior" of a component. Throws ValueError for an unknown one.
SplitBehavior split_behavior_of(const Component& component);

/// Cuts at the matches of `regex`; with `invert`, what lies between the matches are the delimiters.
std::unique_ptr<PreTokenizer::Step> split_at_matches(Regex regex, SplitBehavior behavior, bool invert);

/// Cuts at each code point for which `is_delimiter` holds.
std::unique_ptr<PreTokenizer::Step> split_at_code_points(std::function<bool(char32_t)> is_delimiter,
                                                         SplitBehavior behavior);

}  // namespace titan
