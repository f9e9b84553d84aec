// `titan tokenize`: text from stdin to token ids, and back.

#include <iostream>

#include "apps/titan/commands.h"
#include "apps/titan/commands/arguments.h"
#include "titan/base/error.h"
#include "titan/base/json.h"
#include "titan/data/text_line.h"
#include "titan/data/tokenizer.h"

namespace titan {
namespace {

/// [1, 2, 3], as Python's json writes it.
std::string to_json(const std::vector<int32_t>& ids) {
  std::string out = "[";
  for (const int32_t id : ids) out.append(out.size() > 1 ? ", " : "").append(std::to_string(id));
  return out + "]";
}

std::vector<int32_t> ids_of(const Json& list) {
  if (!list.is_array()) throw ValueError("{} is not a JSON list of ids", list.kind());
  std::vector<int32_t> ids;
  ids.reserve(list.size());
  for (const Json& id : list.elements()) {
    if (!id.is_int() || id.as_int() < 0 || id.as_int() > INT32_MAX)
      throw ValueError("{} is not an id; a list of ids looks like [9906, 11]", id.dump());
    ids.push_back(static_cast<int32_t>(id.as_int()));
  }
  return ids;
}

std::string read_stdin() {
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

/// Calls `use` with each line of stdin that is not blank; errors name the line.
template <class Use>
void for_each_line(const Use& use) {
  std::string line;
  for (int64_t number = 1; std::getline(std::cin, line); ++number) {
    if (trim(line).empty()) continue;
    try {
      use(line);
    } catch (const ValueError& error) {
      std::cout.flush();
      throw ValueError("stdin, line {}: {}", number, error.what());
    }
  }
}

void encode(const Tokenizer& tokenizer, const Arguments& arguments) {
  const EncodeOptions options{.add_special_tokens = !arguments.has("no-special-tokens"),
                              .add_bos = arguments.has("add-bos"),
                              .add_eos = arguments.has("add-eos")};
  if (!arguments.has("jsonl")) {
    const std::string text = read_stdin();
    try {
      std::cout << to_json(tokenizer.encode(text, options)) << "\n";
    } catch (const ValueError& error) {
      throw ValueError("stdin: {}", error.what());
    }
    return;
  }
  const std::string key = arguments.text("text-key").value_or("text");
  for_each_line([&](const std::string& line) {
    std::cout << to_json(tokenizer.encode(text_of_line(line, key), options)) << "\n";
  });
}

void decode(const Tokenizer& tokenizer, const Arguments& arguments) {
  const DecodeOptions options{.skip_special_tokens = arguments.has("skip-special-tokens")};
  const bool as_lines = arguments.has("jsonl");
  const std::string key = arguments.text("text-key").value_or("text");
  bool is_first = true;
  for_each_line([&](const std::string& line) {
    if (!as_lines && !is_first)
      throw ValueError("a second list: add --jsonl, which prints one {\"{}\": ...} a line", key);
    is_first = false;
    const std::string text = tokenizer.decode(ids_of(Json::parse(line, "the list")), options);
    if (as_lines)
      std::cout << Json(Json::Object{{key, text}}).dump() << "\n";
    else
      std::cout << text;
  });
}

/// Flags that say something only in the other direction or form.
void refuse_flags_without_effect(const Arguments& arguments) {
  const bool decodes = arguments.has("decode");
  for (const char* flag : {"no-special-tokens", "add-bos", "add-eos"}) {
    if (decodes && arguments.has(flag))
      throw ConfigError("titan tokenize: --{} has no meaning with --decode", flag);
  }
  if (!decodes && arguments.has("skip-special-tokens"))
    throw ConfigError("titan tokenize: --skip-special-tokens needs --decode");
  if (!arguments.has("jsonl") && arguments.has("text-key"))
    throw ConfigError("titan tokenize: --text-key needs --jsonl");
}

}  // namespace

int tokenize_command(std::span<const std::string> args) {
  const Arguments arguments(
      "tokenize",
      {{"assets", "DIR", "folder with tokenizer.json (or the file itself)"},
       {"jsonl", "", "one JSON object a line instead of one text"},
       {"text-key", "KEY", "where --jsonl finds the text (text)"},
       {"no-special-tokens", "", "leave out what the post-processor adds"},
       {"add-bos", "", "begin each text with the bos token, unless it is there already"},
       {"add-eos", "", "end each text with the eos token, unless it is there already"},
       {"decode", "", "lists of ids to text"},
       {"skip-special-tokens", "", "with --decode: leave special tokens out"}},
      args);
  if (arguments.help_shown()) return 0;
  refuse_flags_without_effect(arguments);
  const Tokenizer tokenizer = Tokenizer::load(arguments.required("assets"));
  std::ios::sync_with_stdio(false);
  if (arguments.has("decode"))
    decode(tokenizer, arguments);
  else
    encode(tokenizer, arguments);
  std::cout.flush();
  if (!std::cout) throw ValueError("writing to stdout failed");
  return 0;
}

}  // namespace titan
