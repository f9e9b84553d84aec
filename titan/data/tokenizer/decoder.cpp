#include "titan/data/tokenizer/decoder.h"

#include <algorithm>

#include "titan/base/strings.h"
#include "titan/data/tokenizer/byte_level.h"
#include "titan/data/tokenizer/pattern.h"
#include "titan/data/tokenizer/unicode.h"

namespace titan {

namespace {

using Tokens = std::vector<std::string>;

Tokens fuse(Tokens tokens) { return {join(tokens, "")}; }

Tokens from_byte_level(Tokens tokens) {
  std::string bytes;
  for (const std::string& token : tokens) {
    const auto decoded = byte_level::decode(token);
    bytes += decoded ? *decoded : token;
  }
  return {unicode::replace_invalid_utf8(bytes)};
}

/// The byte of a token like <0x0A>, or -1.
int fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return -1;
  int value = 0;
  for (const char c : token.substr(3, 2)) {
    const bool is_digit = c >= '0' && c <= '9';
    const char upper = is_digit ? c : static_cast<char>(c & ~0x20);
    if (!is_digit && (upper < 'A' || upper > 'F')) return -1;
    value = value * 16 + (is_digit ? c - '0' : upper - 'A' + 10);
  }
  return value;
}

/// Runs of byte tokens become text; in a run that is not UTF-8 each byte becomes U+FFFD.
Tokens from_byte_fallback(Tokens tokens) {
  Tokens result;
  std::string run;
  const auto flush = [&] {
    if (run.empty()) return;
    if (find_invalid_utf8(run))
      result.insert(result.end(), run.size(), "\xEF\xBF\xBD");
    else
      result.push_back(run);
    run.clear();
  };
  for (std::string& token : tokens) {
    const int byte = fallback_byte(token);
    if (byte >= 0) {
      run.push_back(static_cast<char>(byte));
    } else {
      flush();
      result.push_back(std::move(token));
    }
  }
  flush();
  return result;
}

/// `token` without up to `start` leading and `stop` trailing copies of `content`.
std::string strip(std::string_view token, std::string_view content, int64_t start, int64_t stop) {
  for (; start > 0 && token.starts_with(content); --start) token.remove_prefix(content.size());
  for (; stop > 0 && token.ends_with(content); --stop) token.remove_suffix(content.size());
  return std::string(token);
}

}  // namespace

Decoder::Decoder(const Component& component) : joins_by_space_(false) { add(component); }

void Decoder::add(const Component& component) {
  const std::string& type = component.type();
  const auto add_to_each = [&](std::function<std::string(std::string_view)> change) {
    steps_.push_back([change = std::move(change)](Tokens tokens) {
      std::transform(tokens.begin(), tokens.end(), tokens.begin(), change);
      return tokens;
    });
  };
  if (type == "Sequence") {
    component.require_known({"type", "decoders"});
    for (const Component& child : component.children("decoders")) add(child);
  } else if (type == "ByteLevel") {
    component.require_known({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    steps_.push_back(from_byte_level);
  } else if (type == "ByteFallback") {
    component.require_known({"type"});
    steps_.push_back(from_byte_fallback);
  } else if (type == "Fuse") {
    component.require_known({"type"});
    steps_.push_back(fuse);
  } else if (type == "Replace") {
    component.require_known({"type", "pattern", "content"});
    add_to_each([regex = pattern_of(component), content = component.text("content")](std::string_view token) {
      return replace_all(regex, token, content);
    });
  } else if (type == "Strip") {
    component.require_known({"type", "content", "start", "stop"});
    const int64_t start = component.integer("start");
    const int64_t stop = component.integer("stop");
    if (component.text("content").empty()) component.fail("has an empty \"content\"");
    add_to_each([content = component.text("content"), start, stop](std::string_view token) {
      return strip(token, content, start, stop);
    });
  } else {
    component.refuse_type(kSupportedDecoders);
  }
}

std::string Decoder::operator()(std::vector<std::string> tokens) const {
  for (const auto& step : steps_) tokens = step(std::move(tokens));
  return join(tokens, joins_by_space_ ? " " : "");
}

}  // namespace titan
