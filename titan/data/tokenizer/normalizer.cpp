#include "titan/data/tokenizer/normalizer.h"

#include "titan/data/tokenizer/pattern.h"
#include "titan/data/tokenizer/unicode.h"

namespace titan {

namespace {

std::string strip(std::string_view text, bool left, bool right) {
  if (left) text.remove_prefix(unicode::leading_space(text));
  if (right) text = text.substr(0, unicode::trailing_space(text));
  return std::string(text);
}

}  // namespace

Normalizer::Normalizer(const Component& component) { add(component); }

void Normalizer::add(const Component& component) {
  const std::string& type = component.type();
  const auto add_form = [&](unicode::Form form) {
    component.require_known({"type"});
    steps_.push_back([form](std::string_view text) { return unicode::normalize(text, form); });
  };
  if (type == "Sequence") {
    component.require_known({"type", "normalizers"});
    for (const Component& child : component.children("normalizers")) add(child);
  } else if (type == "NFC") {
    add_form(unicode::Form::nfc);
  } else if (type == "NFD") {
    add_form(unicode::Form::nfd);
  } else if (type == "NFKC") {
    add_form(unicode::Form::nfkc);
  } else if (type == "NFKD") {
    add_form(unicode::Form::nfkd);
  } else if (type == "Lowercase") {
    component.require_known({"type"});
    steps_.push_back(unicode::lowercase);
  } else if (type == "Strip") {
    component.require_known({"type", "strip_left", "strip_right"});
    const bool left = component.flag("strip_left");
    const bool right = component.flag("strip_right");
    steps_.push_back([left, right](std::string_view text) { return strip(text, left, right); });
  } else if (type == "Prepend") {
    component.require_known({"type", "prepend"});
    steps_.push_back([prefix = component.text("prepend")](std::string_view text) {
      return text.empty() ? std::string() : std::string(prefix).append(text);
    });
  } else if (type == "Replace") {
    component.require_known({"type", "pattern", "content"});
    steps_.push_back([regex = pattern_of(component), content = component.text("content")](
                         std::string_view text) { return replace_all(regex, text, content); });
  } else {
    component.refuse_type(kSupportedNormalizers);
  }
}

std::string Normalizer::operator()(std::string_view text) const {
  std::string result(text);
  for (const auto& step : steps_) result = step(result);
  return result;
}

}  // namespace titan
