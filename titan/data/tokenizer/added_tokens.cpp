#include "titan/data/tokenizer/added_tokens.h"

#include <algorithm>

#include "titan/base/log.h"
#include "titan/data/tokenizer/unicode.h"

namespace titan {

namespace {

/// Whether the token at [begin, end) stands alone: no word character touches it.
bool is_single_word(std::string_view text, size_t begin, size_t end) {
  if (begin > 0 && unicode::is_word(unicode::code_point_before(text, begin).value)) return false;
  return end == text.size() || !unicode::is_word(unicode::code_point_at(text, end).value);
}

AddedToken read_token(const Component& entry) {
  entry.require_known({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
  const int64_t id = entry.integer("id");
  if (id < 0 || id >= INT32_MAX) entry.fail(format("has the id {}; an id is an integer from 0", id));
  return {.id = static_cast<int32_t>(id),
          .content = entry.text("content"),
          .single_word = entry.flag("single_word"),
          .lstrip = entry.flag("lstrip"),
          .rstrip = entry.flag("rstrip"),
          .normalized = entry.flag("normalized"),
          .special = entry.flag("special")};
}

}  // namespace

void TokenFinder::add(const AddedToken& token) {
  const std::string& pattern = token.pattern;
  if (pattern.empty()) return;
  if (nodes_.empty()) nodes_.emplace_back();
  starts_[static_cast<unsigned char>(pattern[0])] = true;
  size_t node = 0;
  for (const char c : pattern) {
    const auto byte = static_cast<unsigned char>(c);
    const auto found = nodes_[node].next.find(byte);
    if (found != nodes_[node].next.end()) {
      node = found->second;
    } else {
      nodes_[node].next.emplace(byte, nodes_.size());
      node = nodes_.size();
      nodes_.emplace_back();
    }
  }
  nodes_[node].token = static_cast<int32_t>(tokens_.size());
  tokens_.push_back(token);
}

TokenFinder::Match TokenFinder::longest_at(std::string_view text, size_t begin) const {
  Match best{begin, -1};
  size_t node = 0;
  for (size_t at = begin; at < text.size();) {
    const auto found = nodes_[node].next.find(static_cast<unsigned char>(text[at]));
    if (found == nodes_[node].next.end()) break;
    node = found->second;
    ++at;
    if (nodes_[node].token >= 0) best = {at, nodes_[node].token};
  }
  return best;
}

void TokenFinder::split(std::string_view text, const std::function<void(std::string_view)>& gap,
                        const std::function<void(int32_t)>& found) const {
  size_t done = 0;
  size_t at = nodes_.empty() ? text.size() : 0;
  while (at < text.size()) {
    if (!starts_[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    const Match match = longest_at(text, at);
    if (match.token < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<size_t>(match.token)];
    size_t begin = at;
    size_t end = match.end;
    at = match.end;
    if (token.single_word && !is_single_word(text, begin, end)) continue;
    if (token.lstrip) begin = std::max(done, unicode::trailing_space(text.substr(0, begin)));
    if (token.rstrip) end += unicode::leading_space(text.substr(end));
    if (done < begin) gap(text.substr(done, begin - done));
    found(token.id);
    done = end;
  }
  if (done < text.size()) gap(text.substr(done));
}

AddedTokens::AddedTokens(const std::vector<Component>& entries, const Vocabulary& vocabulary,
                         const Normalizer& normalizer) {
  auto next_id = static_cast<int32_t>(vocabulary.size());
  for (const Component& entry : entries) {
    AddedToken token = read_token(entry);
    if (token.content.empty()) continue;
    const auto known = vocabulary.find(token.content);
    const auto earlier = std::find_if(tokens_.begin(), tokens_.end(), [&](const AddedToken& other) {
      return other.content == token.content;
    });
    const int32_t id = earlier != tokens_.end()    ? earlier->id
                       : known != vocabulary.end() ? known->second
                                                   : next_id++;
    if (id != token.id)
      log_warning("{} gives \"{}\" the id {}; it gets {}, as in `tokenizers`", entry.where(), token.content,
                  token.id, id);
    token.id = id;
    token.pattern = token.normalized ? normalizer(token.content) : token.content;
    (token.normalized ? normalized_ : plain_).add(token);
    if (token.special) special_.insert(token.content);
    if (earlier == tokens_.end()) tokens_.push_back(std::move(token));
  }
}

}  // namespace titan
