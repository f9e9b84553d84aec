#include "titan/data/text_line.h"

#include <vector>

#include "titan/base/error.h"
#include "titan/base/json.h"
#include "titan/base/strings.h"

namespace titan {

std::string_view checked_utf8(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  if (const auto at = find_invalid_utf8(text))
    throw ValueError("invalid UTF-8 at byte {}; convert the file to UTF-8", *at);
  return text;
}

std::string text_of_line(std::string_view line, std::string_view key, std::string_view flag) {
  const Json value = Json::parse(checked_utf8(line), "the line");
  if (!value.is_object()) {
    throw ValueError("expected an object such as {\"{}\": ...}, found {}{}", key, value.kind(),
                     value.is_array() ? "; write one object a line, for example with jq -c '.[]'" : "");
  }
  const Json* text = value.find(key);
  if (text && text->is_string()) return text->as_string();
  if (text) throw ValueError("\"{}\" is {}, not a string", key, text->kind());
  if (value.find("messages")) {
    throw ValueError(
        "holds chat \"messages\", which titan does not read yet; docs/data.md shows the two lines that make "
        "text of them");
  }
  std::vector<std::string> keys;
  for (const auto& [name, unused] : value.items()) keys.push_back("\"" + name + "\"");
  throw ValueError("has no \"{}\"; keys found: {}; set {} to the one that holds the text", key,
                   keys.empty() ? "none" : join(keys, ", "), flag);
}

}  // namespace titan
