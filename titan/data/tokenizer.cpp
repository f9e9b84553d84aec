#include "titan/data/tokenizer.h"

#include <algorithm>

#include "titan/base/error.h"
#include "titan/base/file.h"
#include "titan/base/json.h"
#include "titan/base/log.h"
#include "titan/data/tokenizer/added_tokens.h"
#include "titan/data/tokenizer/bpe.h"
#include "titan/data/tokenizer/decoder.h"
#include "titan/data/tokenizer/normalizer.h"
#include "titan/data/tokenizer/post_processor.h"
#include "titan/data/tokenizer/pre_tokenizer.h"
#include "titan/data/tokenizer/special_ids.h"

namespace titan {

namespace {

/// A token as decoding spells it.
struct TokenText {
  std::string text;
  bool exists = false;
  bool is_special = false;
};

std::filesystem::path find_file(const std::filesystem::path& assets) {
  if (assets.filename() == "tokenizer.model")
    throw ValueError(
        "{} is a SentencePiece model, which is not supported; give the folder that holds tokenizer.json "
        "(transformers' AutoTokenizer.from_pretrained(...).save_pretrained(FOLDER) writes one)",
        assets.string());
  if (std::filesystem::is_regular_file(assets)) return assets;
  const auto path = assets / "tokenizer.json";
  if (std::filesystem::exists(path)) return path;
  if (!std::filesystem::exists(assets))
    throw ValueError("{} does not exist; it should be a folder with tokenizer.json", assets.string());
  for (const char* other : {"tokenizer.model", "vocab.json"}) {
    if (std::filesystem::exists(assets / other))
      throw ValueError(
          "{} has {} but no tokenizer.json; transformers' "
          "AutoTokenizer.from_pretrained({}).save_pretrained({}) "
          "writes one",
          assets.string(), other, assets.string(), assets.string());
  }
  throw ValueError("{} has no tokenizer.json", assets.string());
}

bool is_present(const Component& root, std::string_view key) {
  const Json* found = root.find(key);
  return found && !found->is_null();
}

/// A component as tokenizer.json names it: "assets/tokenizer.json: normalizer".
template <class Part>
Part read_part(const Component& root, std::string_view file, std::string_view key) {
  if (!is_present(root, key)) return Part();
  return Part(Component(root.member(key), format("{}: {}", file, key)));
}

}  // namespace

struct Tokenizer::Parts {
  std::filesystem::path path;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Bpe model;
  AddedTokens added;
  PostProcessor post_processor;
  Decoder decoder;
  std::vector<TokenText> tokens;  // by id
  std::optional<int32_t> bos;
  std::optional<int32_t> eos;

  Parts(std::filesystem::path file, const Component& root, const std::string& name)
      : path(std::move(file)),
        normalizer(read_part<Normalizer>(root, name, "normalizer")),
        pre_tokenizer(read_part<PreTokenizer>(root, name, "pre_tokenizer")),
        model(read_model(root, name), pre_tokenizer.words_are_bytes()),
        post_processor(read_part<PostProcessor>(root, name, "post_processor")),
        decoder(read_part<Decoder>(root, name, "decoder")) {
    std::vector<Component> entries;
    if (is_present(root, "added_tokens")) {
      const Json& list = root.member("added_tokens");
      for (size_t i = 0; i < list.size(); ++i)
        entries.emplace_back(list.at(i), format("{}: added_tokens[{}]", name, i));
    }
    added = AddedTokens(entries, model.vocabulary(), normalizer);
    fill_tokens();
  }

  static Component read_model(const Component& root, const std::string& name) {
    if (!is_present(root, "model")) throw ValueError("{} has no \"model\"", name);
    Component model(root.member("model"), format("{}: model", name));
    // Early files leave the type out.
    if (model.find("type") && model.type() != "BPE") model.refuse_type("BPE");
    return model;
  }

  void fill_tokens() {
    int32_t largest = -1;
    for (const auto& [token, id] : model.vocabulary()) largest = std::max(largest, id);
    for (const AddedToken& token : added.tokens()) largest = std::max(largest, token.id);
    tokens.resize(static_cast<size_t>(largest) + 1);
    for (const auto& [token, id] : model.vocabulary()) tokens[static_cast<size_t>(id)] = {token, true, false};
    for (const AddedToken& token : added.tokens())
      tokens[static_cast<size_t>(token.id)] = {token.pattern, true, false};
    for (TokenText& token : tokens) token.is_special = added.is_special(token.text);
  }

  std::optional<int32_t> id_of(std::string_view token) const {
    for (const AddedToken& known : added.tokens()) {
      if (known.content == token) return known.id;
    }
    const auto found = model.vocabulary().find(token);
    if (found == model.vocabulary().end()) return std::nullopt;
    return found->second;
  }

  /// Ids of `text` without the post-processor's.
  void encode(std::string_view text, std::vector<int32_t>& ids) const {
    const auto found = [&](int32_t id) { ids.push_back(id); };
    const PieceSink word = [&](std::string_view piece) { model.encode(piece, ids); };
    const auto words = [&](std::string_view piece) { pre_tokenizer.split(piece, word); };
    added.plain().split(
        text,
        [&](std::string_view gap) {
          if (normalizer.empty()) return added.normalized().split(gap, words, found);
          added.normalized().split(normalizer(gap), words, found);
        },
        found);
  }
};

Tokenizer::Tokenizer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::load(const std::filesystem::path& assets) {
  const auto path = find_file(assets);
  const Json json = Json::parse_file(path);
  const std::string name = path.string();
  const Component root(json, name);
  for (const char* key : {"truncation", "padding"}) {
    if (is_present(root, key))
      log_warning("{} asks for {}, which has no effect here: whole texts are encoded", name, key);
  }
  Tokenizer result(std::make_unique<Parts>(path, root, name));
  const auto id_of = [&](std::string_view token) { return result.token_to_id(token); };
  result.parts_->bos = special_id(path.parent_path(), "bos", id_of, result.vocab_size());
  result.parts_->eos = special_id(path.parent_path(), "eos", id_of, result.vocab_size());
  return result;
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  if (const auto bad = find_invalid_utf8(text))
    throw ValueError("the text is not UTF-8: the byte at offset {} does not belong there", *bad);
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 4 + 16);
  const auto& before = parts_->post_processor.before();
  const auto& after = parts_->post_processor.after();
  const auto has = [&](const std::vector<int32_t>& list, int32_t id) {
    return options.add_special_tokens && std::find(list.begin(), list.end(), id) != list.end();
  };
  if (options.add_bos && parts_->bos && !has(before, *parts_->bos)) ids.push_back(*parts_->bos);
  if (options.add_special_tokens) ids.insert(ids.end(), before.begin(), before.end());
  parts_->encode(text, ids);
  if (options.add_special_tokens) ids.insert(ids.end(), after.begin(), after.end());
  if (options.add_eos && parts_->eos && !has(after, *parts_->eos)) ids.push_back(*parts_->eos);
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, DecodeOptions options) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto id = static_cast<size_t>(ids[i]);
    if (ids[i] < 0 || id >= parts_->tokens.size() || !parts_->tokens[id].exists) {
      if (options.skip_unknown_ids) continue;
      throw ValueError("{} has no token with the id {} (position {}); its ids end at {}",
                       parts_->path.string(), ids[i], i, vocab_size() - 1);
    }
    const TokenText& token = parts_->tokens[id];
    if (!(options.skip_special_tokens && token.is_special)) tokens.push_back(token.text);
  }
  return parts_->decoder(std::move(tokens));
}

int64_t Tokenizer::vocab_size() const { return static_cast<int64_t>(parts_->tokens.size()); }
std::optional<int32_t> Tokenizer::bos_id() const { return parts_->bos; }
std::optional<int32_t> Tokenizer::eos_id() const { return parts_->eos; }
std::optional<int32_t> Tokenizer::token_to_id(std::string_view token) const { return parts_->id_of(token); }
const std::filesystem::path& Tokenizer::path() const { return parts_->path; }

}  // namespace titan
