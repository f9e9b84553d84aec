#include "titan/data/tokenizer/bpe.h"

#include "titan/base/error.h"
#include "titan/data/tokenizer/byte_level.h"
#include "titan/data/tokenizer/unicode.h"

namespace titan {

namespace {

int32_t id_or_none(const Vocabulary& vocabulary, std::string_view token) {
  const auto found = vocabulary.find(token);
  return found == vocabulary.end() ? -1 : found->second;
}

/// The two sides of a merge: ["a", "b"] or "a b".
std::pair<std::string_view, std::string_view> sides_of(const Component& component, const Json& merge,
                                                       size_t index) {
  if (merge.is_array() && merge.size() == 2 && merge.at(0).is_string() && merge.at(1).is_string())
    return {merge.at(0).as_string(), merge.at(1).as_string()};
  if (merge.is_string()) {
    const std::string_view text = merge.as_string();
    const size_t space = text.find(' ');
    if (space != std::string_view::npos && text.find(' ', space + 1) == std::string_view::npos)
      return {text.substr(0, space), text.substr(space + 1)};
  }
  component.fail(format("has {} as merges[{}]; a merge is \"left right\" or [\"left\", \"right\"]",
                        merge.dump(), index));
}

}  // namespace

Bpe::Bpe(const Component& component, bool words_are_bytes)
    : where_(component.where()),
      prefix_(component.text_or("continuing_subword_prefix", "")),
      suffix_(component.text_or("end_of_word_suffix", "")),
      fuse_unknown_(component.flag_or("fuse_unk", false)),
      byte_fallback_(component.flag_or("byte_fallback", false)),
      ignore_merges_(component.flag_or("ignore_merges", false)),
      words_are_bytes_(words_are_bytes) {
  component.require_known({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                           "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
  if (const Json* dropout = component.find("dropout");
      dropout && !dropout->is_null() && !(dropout->is_number() && dropout->as_double() == 0.0))
    component.fail(
        format("has dropout {}: random merges are not supported; set it to null", dropout->dump()));
  if (const Json* unknown = component.find("unk_token"); unknown && !unknown->is_null())
    unknown_ = component.text("unk_token");
  read_vocabulary(component);
  read_merges(component);
  read_bytes();
}

void Bpe::read_vocabulary(const Component& component) {
  const Json& vocabulary = component.member("vocab");
  if (!vocabulary.is_object())
    component.fail(format("has {} as \"vocab\", not an object", vocabulary.kind()));
  vocabulary_.reserve(vocabulary.size());
  for (const auto& [token, id] : vocabulary.items()) {
    if (!id.is_int() || id.as_int() < 0 || id.as_int() >= INT32_MAX)
      component.fail(format("has {} as the id of \"{}\"; an id is an integer from 0", id.dump(), token));
    vocabulary_.emplace(token, static_cast<int32_t>(id.as_int()));
  }
}

void Bpe::read_merges(const Component& component) {
  const Json& merges = component.member("merges");
  if (!merges.is_array()) component.fail(format("has {} as \"merges\", not a list", merges.kind()));
  merges_.reserve(merges.size());
  std::string joined;
  for (size_t i = 0; i < merges.size(); ++i) {
    const auto [left, right] = sides_of(component, merges.at(i), i);
    const auto require = [&](std::string_view token) {
      const int32_t id = id_or_none(vocabulary_, token);
      if (id < 0)
        component.fail(format("has \"{} {}\" as merges[{}], but \"{}\" is not in the vocabulary", left, right,
                              i, token));
      return id;
    };
    if (right.size() < prefix_.size())
      component.fail(format("has a merges[{}] without the subword prefix", i));
    joined.assign(left).append(right.substr(prefix_.size()));
    const int32_t left_id = require(left);
    const int32_t right_id = require(right);
    merges_.insert(left_id, right_id, {static_cast<uint32_t>(i), require(joined)});
  }
}

void Bpe::read_bytes() {
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char one = static_cast<char>(byte);
    stand_ins_[byte] = id_or_none(vocabulary_, byte_level::encode({&one, 1}));
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    const std::string fallback{'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
    fallbacks_[byte] = id_or_none(vocabulary_, fallback);
  }
}

void Bpe::encode(std::string_view word, std::vector<int32_t>& ids) const {
  const bool is_cached = word.size() <= WordCache::kMaxWord;
  const uint64_t hash = is_cached ? WordCache::hash(word) : 0;
  if (is_cached && cache_.find(word, hash, ids)) return;
  std::vector<int32_t> symbols;
  int32_t whole = -1;
  if (ignore_merges_)
    whole = id_or_none(vocabulary_, words_are_bytes_ ? byte_level::encode(word) : std::string(word));
  if (whole >= 0) {
    symbols = {whole};
  } else {
    symbols = symbols_of(word);
    merges_.apply(symbols);
  }
  if (is_cached) cache_.insert(word, hash, symbols);
  ids.insert(ids.end(), symbols.begin(), symbols.end());
}

std::vector<int32_t> Bpe::symbols_of(std::string_view word) const {
  if (!words_are_bytes_) return symbols_of_characters(word);
  std::vector<int32_t> symbols;
  if (prefix_.empty() && suffix_.empty() && append_bytes(word, symbols)) return symbols;
  return symbols_of_characters(byte_level::encode(word));
}

/// False where the vocabulary lacks one of the bytes.
bool Bpe::append_bytes(std::string_view word, std::vector<int32_t>& symbols) const {
  symbols.resize(word.size());
  bool is_complete = true;
  for (size_t i = 0; i < word.size(); ++i) {
    symbols[i] = stand_ins_[static_cast<unsigned char>(word[i])];
    is_complete = is_complete && symbols[i] >= 0;
  }
  return is_complete;
}

bool Bpe::append_fallback(std::string_view symbol, std::vector<int32_t>& symbols) const {
  const size_t before = symbols.size();
  for (const char byte : symbol) {
    const int32_t id = fallbacks_[static_cast<unsigned char>(byte)];
    if (id < 0) {
      symbols.resize(before);
      return false;
    }
    symbols.push_back(id);
  }
  return true;
}

int32_t Bpe::unknown_id() const {
  const int32_t id = id_or_none(vocabulary_, *unknown_);
  if (id < 0) throw ValueError("{} has the unk_token \"{}\", which its vocabulary lacks", where_, *unknown_);
  return id;
}

std::vector<int32_t> Bpe::symbols_of_characters(std::string_view word) const {
  std::vector<int32_t> symbols;
  symbols.reserve(word.size());
  // An unknown token waits for the next known one, so that a run can be fused; a fallback in between goes
  // first.
  int32_t waiting = -1;
  std::string symbol;
  for (size_t at = 0; at < word.size();) {
    const auto size = static_cast<size_t>(unicode::code_point_at(word, at).size);
    symbol.assign(at > 0 ? prefix_ : std::string_view()).append(word, at, size);
    at += size;
    if (at == word.size()) symbol += suffix_;
    const int32_t id = id_or_none(vocabulary_, symbol);
    if (id >= 0) {
      if (waiting >= 0) symbols.push_back(waiting);
      waiting = -1;
      symbols.push_back(id);
    } else if (byte_fallback_ && append_fallback(symbol, symbols)) {
      continue;
    } else if (unknown_) {
      if (waiting >= 0 && !fuse_unknown_) symbols.push_back(waiting);
      waiting = unknown_id();
    }
  }
  if (waiting >= 0) symbols.push_back(waiting);
  return symbols;
}

}  // namespace titan
