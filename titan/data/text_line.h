#pragma once

#include <string>
#include <string_view>

namespace titan {

/// The text under `key` in one JSON line. ValueError says what is wrong with the line (not where it is):
/// broken JSON or UTF-8, no such key (with the keys found), a value that is no string, chat messages.
/// `flag` is the setting that chose the key.
std::string text_of_line(std::string_view line, std::string_view key,
                         std::string_view flag = "dataloader.text_key");

/// `text` without a byte-order mark. ValueError with the byte at fault where it is not UTF-8.
std::string_view checked_utf8(std::string_view text);

}  // namespace titan
