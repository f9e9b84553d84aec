#pragma once

#include <string>
#include <string_view>

#include "titan/data/tokenizer/component.h"
#include "titan/data/tokenizer/regex.h"

namespace titan {

/// The "pattern" member of a component: {"String": text} or {"Regex": expression}.
inline Regex pattern_of(const Component& component) {
  const Component pattern = component.child("pattern");
  pattern.require_known({"String", "Regex"});
  if (const Json* text = component.member("pattern").find("String"))
    return Regex::literal(text->as_string(), pattern.where());
  return Regex(pattern.text("Regex"), pattern.where());
}

/// `text` with every match of `regex` replaced by `content`.
inline std::string replace_all(const Regex& regex, std::string_view text, std::string_view content) {
  std::string out;
  size_t copied = 0;
  Regex::Matches matches(regex, text);
  while (const auto match = matches.next()) {
    out.append(text, copied, match->begin - copied).append(content);
    copied = match->end;
  }
  return out.append(text, copied);
}

}  // namespace titan
