#include "titan/data/tokenizer.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "data_fixture.h"
#include "titan/base/error.h"
#include "titan/base/file.h"

using namespace titan;
using titan::testing::DataFolder;

namespace {

std::filesystem::path bundled() {
  return std::filesystem::path(std::getenv("TITAN_SOURCE_DIR")) / "tests/assets/tokenizer";
}

/// A tokenizer.json over the letters a, b and c, with members replaced.
Json small(std::initializer_list<std::pair<const char*, Json>> changes = {}) {
  Json json = Json::parse(
      R"({"version": "1.0",
          "added_tokens": [{"id": 4, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
                            "normalized": false, "special": true},
                           {"id": 5, "content": "</s>", "single_word": false, "lstrip": false, "rstrip": false,
                            "normalized": false, "special": true}],
          "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": {"type": "Fuse"},
          "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3}, "merges": ["a b"]}})",
      "small");
  for (const auto& [key, value] : changes) json.set(key, value);
  return json;
}

Json parse(const char* text) { return Json::parse(text, "test"); }

/// What loading the folder says, "" where it succeeds.
std::string complaint(const std::filesystem::path& assets) {
  try {
    Tokenizer::load(assets);
  } catch (const ValueError& error) {
    return error.what();
  }
  return "";
}

std::string complaint_about(const Json& tokenizer) {
  const DataFolder folder;
  folder.write("tokenizer.json", tokenizer.dump());
  return complaint(folder.path());
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("A component that is not supported is named with its file and place") {
  CHECK(complaint_about(small()).empty());
  const auto check_names = [](const char* key, const char* component, const char* place, const char* type) {
    const std::string message = complaint_about(small({{key, parse(component)}}));
    CAPTURE(message);
    CHECK(contains(message, std::string("tokenizer.json: ") + place));
    CHECK(contains(message, type));
  };
  check_names("normalizer", R"({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Nmt"}]})",
              "normalizer.normalizers[1]", "\"Nmt\", which is not supported; supported are NFC");
  check_names("pre_tokenizer", R"({"type": "Metaspace", "replacement": "_"})", "pre_tokenizer", "Metaspace");
  check_names("post_processor", R"({"type": "BertProcessing"})", "post_processor", "BertProcessing");
  check_names("decoder", R"({"type": "Sequence", "decoders": [{"type": "CTC"}]})", "decoder.decoders[0]",
              "CTC");
  check_names("model", R"({"type": "Unigram", "vocab": []})", "model", "Unigram");
  check_names("normalizer", R"({"type": "NFC", "strength": 2})", "normalizer", "\"strength\"");
  check_names("pre_tokenizer", R"({"type": "Split", "pattern": {"Regex": "(a"}, "behavior": "Isolated"})",
              "pre_tokenizer.pattern", "(a");
  check_names("pre_tokenizer", R"({"type": "Split", "pattern": {"Regex": "[a[b]]"}, "behavior": "Isolated"})",
              "pre_tokenizer.pattern", "a class inside a class");
  check_names("pre_tokenizer", R"({"type": "Split", "pattern": {"String": "a"}, "behavior": "Sideways"})",
              "pre_tokenizer", "Sideways");
  check_names("post_processor",
              R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<x>", "type_id": 0}},
                  {"Sequence": {"id": "A", "type_id": 0}}], "pair": [], "special_tokens": {}})",
              "post_processor", "<x>");
}

TEST_CASE("A model that contradicts itself says where") {
  const auto model = [](const char* text) { return complaint_about(small({{"model", parse(text)}})); };
  CHECK(contains(model(R"({"vocab": {"a": 0, "b": 1}, "merges": ["a b"]})"),
                 "\"ab\" is not in the vocabulary"));
  CHECK(contains(model(R"({"vocab": {"a": 0}, "merges": [["a", "x"]]})"), "merges[0], but \"x\""));
  CHECK(contains(model(R"({"vocab": {"a": 0}, "merges": ["a b c"]})"), "merges[0]"));
  CHECK(contains(model(R"({"vocab": {"a": -1}, "merges": []})"), "\"a\""));
  CHECK(contains(model(R"({"vocab": {"a": "0"}, "merges": []})"), "\"a\""));
  CHECK(contains(model(R"({"vocab": {"a": 0}})"), "has no \"merges\""));
  CHECK(contains(model(R"({"vocab": {"a": 0}, "merges": [], "dropout": 0.1})"), "dropout"));
  CHECK(contains(model("[]"), "model is a list, not an object"));
  CHECK(contains(model("null"), "has no \"model\""));
}

TEST_CASE("A file that is missing, of another kind or broken is named") {
  const DataFolder folder;
  CHECK(contains(complaint(folder.path()), "has no tokenizer.json"));
  CHECK(contains(complaint(folder.path() / "nothing"), "does not exist"));
  CHECK(contains(complaint(folder.path() / "tokenizer.model"), "SentencePiece"));
  folder.write("tokenizer.model", "x");
  CHECK(contains(complaint(folder.path()), "has tokenizer.model but no tokenizer.json"));
  const std::string whole = small().dump();
  folder.write("tokenizer.json", whole.substr(0, whole.size() / 2));
  CHECK(contains(complaint(folder.path()), "tokenizer.json is not valid JSON"));
  folder.write("tokenizer.json", "[1]");
  CHECK(contains(complaint(folder.path()), "not an object"));
  folder.write("tokenizer.json", whole);
  CHECK(complaint(folder.path()).empty());
  CHECK(complaint(folder.path() / "tokenizer.json").empty());
}

TEST_CASE("bos and eos come from the first file that has the answer") {
  const DataFolder folder;
  folder.write("tokenizer.json", small().dump());
  const auto ids = [&] {
    const Tokenizer tokenizer = Tokenizer::load(folder.path());
    return std::pair(tokenizer.bos_id().value_or(-1), tokenizer.eos_id().value_or(-1));
  };
  CHECK(ids() == std::pair(-1, -1));
  folder.write("config.json", R"({"bos_token_id": 0, "eos_token_id": 1})");
  CHECK(ids() == std::pair(0, 1));
  folder.write("generation_config.json", R"({"eos_token_id": [2, 1]})");
  CHECK(ids() == std::pair(0, 2));
  folder.write("special_tokens_map.json", R"({"eos_token": {"content": "</s>", "lstrip": false}})");
  CHECK(ids() == std::pair(0, 5));
  folder.write("tokenizer_config.json", R"({"bos_token": null, "eos_token": "<s>"})");
  CHECK(ids() == std::pair(-1, 4));
  folder.write("tokenizer_config.json", R"({"eos_token": "<gone>"})");
  CHECK(contains(complaint(folder.path()),
                 "tokenizer_config.json: eos_token is \"<gone>\", which is not in the"));
  folder.write("tokenizer_config.json", "{}");
  folder.write("special_tokens_map.json", "{}");
  folder.write("generation_config.json", R"({"eos_token_id": 77})");
  CHECK(contains(complaint(folder.path()), "eos_token_id is 77"));
}

TEST_CASE("bos and eos are added once, also where the template adds them") {
  const DataFolder folder;
  folder.write("tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": "</s>"})");
  folder.write("tokenizer.json", small().dump());
  using Ids = std::vector<int32_t>;
  const Tokenizer plain = Tokenizer::load(folder.path());
  CHECK(plain.encode("abc") == Ids{3, 2});
  CHECK(plain.encode("abc", {.add_bos = true, .add_eos = true}) == Ids{4, 3, 2, 5});
  CHECK(plain.encode("", {.add_eos = true}) == Ids{5});
  CHECK(plain.encode("<s>a", {.add_bos = true}) == Ids{4, 4, 0});
  folder.write("tokenizer.json", small({{"post_processor", parse(R"({"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
      "special_tokens": {"<s>": {"id": "<s>", "ids": [4], "tokens": ["<s>"]}}})")}})
                                     .dump());
  const Tokenizer with_template = Tokenizer::load(folder.path());
  CHECK(with_template.encode("abc") == Ids{4, 3, 2});
  CHECK(with_template.encode("abc", {.add_bos = true, .add_eos = true}) == Ids{4, 3, 2, 5});
  CHECK(with_template.encode("abc", {.add_special_tokens = false}) == Ids{3, 2});
  CHECK(with_template.encode("abc", {.add_special_tokens = false, .add_bos = true}) == Ids{4, 3, 2});
}

TEST_CASE("With ignore_merges a word of the vocabulary is one token") {
  const DataFolder folder;
  const auto ids = [&](bool ignore_merges) {
    Json model = parse(R"({"vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 6}, "merges": ["a b"]})");
    model.set("ignore_merges", ignore_merges);
    folder.write("tokenizer.json", small({{"added_tokens", Json::array()}, {"model", model}}).dump());
    return Tokenizer::load(folder.path()).encode("abc");
  };
  CHECK(ids(false) == std::vector<int32_t>{3, 2});
  CHECK(ids(true) == std::vector<int32_t>{6});
}

TEST_CASE("Text that is not UTF-8 and ids without a token are refused with their place") {
  const Tokenizer tokenizer = Tokenizer::load(bundled());
  CHECK_THROWS_WITH_AS(tokenizer.encode("abc\xFF"), doctest::Contains("offset 3"), ValueError);
  CHECK_THROWS_WITH_AS(tokenizer.encode("a\xED\xA0\x80"), doctest::Contains("offset 1"), ValueError);
  const std::vector<int32_t> beyond{1, 2048};
  CHECK_THROWS_WITH_AS(tokenizer.decode(beyond),
                       doctest::Contains("the id 2048 (position 1); its ids end at 2047"), ValueError);
  const std::vector<int32_t> negative{-1};
  CHECK_THROWS_AS(tokenizer.decode(negative), ValueError);
  CHECK(tokenizer.decode(beyond, {.skip_unknown_ids = true}) == "\"");
}

TEST_CASE("The bundled tokenizer has 2048 ids and cuts as Qwen3 does") {
  const Tokenizer tokenizer = Tokenizer::load(bundled());
  CHECK(tokenizer.vocab_size() == 2048);
  CHECK(tokenizer.eos_id() == 2045);
  CHECK_FALSE(tokenizer.bos_id());
  CHECK(tokenizer.token_to_id("<|im_end|>") == 2047);
  CHECK_FALSE(tokenizer.token_to_id("no such token"));
  const auto words = [&](std::string_view text) {
    std::vector<std::string> result;
    for (const int32_t id : tokenizer.encode(text)) result.push_back(tokenizer.decode(std::span(&id, 1)));
    return result;
  };
  using Words = std::vector<std::string>;
  CHECK(words("12345") == Words{"1", "2", "3", "4", "5"});
  CHECK(words("X.<|im_end|>") == Words{"X", ".", "<|im_end|>"});
  CHECK(words("  x") == Words{" ", " ", "x"});
  CHECK(tokenizer.encode("cafe\u0301") == tokenizer.encode("caf\u00e9"));
  CHECK(tokenizer.decode(tokenizer.encode("(x):\n\n  -> y\t")) == "(x):\n\n  -> y\t");
  CHECK(tokenizer.decode(tokenizer.encode("Lord<|im_end|>"), {.skip_special_tokens = true}) == "Lord");
  CHECK(tokenizer.encode("").empty());
}

TEST_CASE("A million letters without a border take no quadratic time") {
  const Tokenizer tokenizer = Tokenizer::load(bundled());
  std::string letters;
  for (size_t i = 0; i < 1'000'000; ++i) letters += static_cast<char>('a' + i * i % 26);
  CHECK(tokenizer.decode(tokenizer.encode(letters)) == letters);
  CHECK(tokenizer.decode(tokenizer.encode(std::string(1'000'000, ' '))).size() == 1'000'000);
}

TEST_CASE("Threads share one tokenizer") {
  const Tokenizer tokenizer = Tokenizer::load(bundled());
  std::vector<std::string> texts;
  for (int i = 0; i < 200; ++i)
    texts.push_back("word" + std::to_string(i * 7919) + " spoke unto the " + std::to_string(i));
  std::vector<std::vector<int32_t>> expected;
  const Tokenizer other = Tokenizer::load(bundled());
  for (const auto& text : texts) expected.push_back(other.encode(text));
  std::atomic<int> differences = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < 5; ++round) {
        for (size_t i = 0; i < texts.size(); ++i) differences += tokenizer.encode(texts[i]) != expected[i];
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(differences == 0);
}
