#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>

namespace titan {

/// Finds the id of the "bos" or "eos" token of the assets in `folder`. The first file that has the answer
/// gives it: tokenizer_config.json and special_tokens_map.json by name (null means none), then
/// generation_config.json and config.json by id. Throws ValueError that names the file where the token is not
/// in the vocabulary.
std::optional<int32_t> special_id(const std::filesystem::path& folder, std::string_view kind,
                                  const std::function<std::optional<int32_t>(std::string_view)>& token_to_id,
                                  int64_t num_ids);

}  // namespace titan
