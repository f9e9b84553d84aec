#include "titan/data/tokenizer/special_ids.h"

#include "titan/base/error.h"
#include "titan/base/json.h"

namespace titan {

std::optional<int32_t> special_id(const std::filesystem::path& folder, std::string_view kind,
                                  const std::function<std::optional<int32_t>(std::string_view)>& token_to_id,
                                  int64_t num_ids) {
  const std::string by_name = format("{}_token", kind);
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const auto path = folder / name;
    if (!std::filesystem::exists(path)) continue;
    const Json config = Json::parse_file(path);
    const Json* token = config.find(by_name);
    if (!token) continue;
    if (token->is_null()) return std::nullopt;
    if (token->is_object()) token = &(*token)["content"];
    if (!token->is_string())
      throw ValueError("{}: {} is {}, not a token", path.string(), by_name, token->kind());
    const auto id = token_to_id(token->as_string());
    if (!id)
      throw ValueError("{}: {} is \"{}\", which is not in the vocabulary of tokenizer.json", path.string(),
                       by_name, token->as_string());
    return id;
  }
  const std::string by_id = format("{}_token_id", kind);
  for (const char* name : {"generation_config.json", "config.json"}) {
    const auto path = folder / name;
    if (!std::filesystem::exists(path)) continue;
    const Json config = Json::parse_file(path);
    const Json* id = config.find(by_id);
    if (id && id->is_array() && id->size() > 0) id = &id->at(0);
    if (!id || !id->is_int()) continue;
    if (id->as_int() < 0 || id->as_int() >= num_ids)
      throw ValueError("{}: {} is {}, but the ids of tokenizer.json end at {}", path.string(), by_id,
                       id->as_int(), num_ids - 1);
    return static_cast<int32_t>(id->as_int());
  }
  return std::nullopt;
}

}  // namespace titan
