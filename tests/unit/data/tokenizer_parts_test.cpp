#include <doctest/doctest.h>

#include <random>

#include "titan/base/error.h"
#include "titan/data/tokenizer/byte_level.h"
#include "titan/data/tokenizer/decoder.h"
#include "titan/data/tokenizer/merge_table.h"
#include "titan/data/tokenizer/normalizer.h"
#include "titan/data/tokenizer/pre_tokenizer.h"
#include "titan/data/tokenizer/regex.h"
#include "titan/data/tokenizer/unicode.h"
#include "titan/data/tokenizer/word_cache.h"

using namespace titan;

namespace {

std::vector<std::string> matches(std::string_view pattern, std::string_view text) {
  const Regex regex(pattern, "test");
  std::vector<std::string> result;
  Regex::Matches found(regex, text);
  while (const auto match = found.next())
    result.emplace_back(text.substr(match->begin, match->end - match->begin));
  return result;
}

/// The words that a pre-tokenizer, given as JSON, makes of a text.
std::vector<std::string> words(const char* json, std::string_view text) {
  const Json component = Json::parse(json, "test");
  std::vector<std::string> result;
  PreTokenizer(Component(component, "test")).split(text, [&](std::string_view word) {
    result.emplace_back(word);
  });
  return result;
}

/// Lowest rank first, leftmost among equals, by looking at every pair each time.
std::vector<int32_t> merge_slowly(const MergeTable& table, std::vector<int32_t> symbols) {
  while (true) {
    size_t best = symbols.size();
    uint32_t rank = UINT32_MAX;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto merge = table.find(symbols[i], symbols[i + 1]);
      if (merge.exists() && merge.rank < rank) {
        rank = merge.rank;
        best = i;
      }
    }
    if (best == symbols.size()) return symbols;
    symbols[best] = table.find(symbols[best], symbols[best + 1]).id;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

}  // namespace

TEST_CASE("Expressions mean what they mean in Ruby's syntax") {
  using Found = std::vector<std::string>;
  CHECK(matches(R"(\s+)", "a \u00a0\u3000b\u180e") == Found{" \u00a0\u3000"});
  CHECK(matches(R"([^\s]+)", "a b\u180e") == Found{"a", "b\u180e"});
  CHECK(matches(R"(\S+)", "a b\u180e") == Found{"a", "b\u180e"});
  CHECK(matches(R"(\p{L}+)", "ab\U00010d4a1") == Found{"ab\U00010d4a"});
  CHECK(matches(R"(\p{N})", "\U0001d2c0x") == Found{"\U0001d2c0"});
  CHECK(matches(R"(\p{^L}+|\P{N})", "ab12") == Found{"a", "b", "12"});
  CHECK(matches(R"(\w+)", "x\u00b2\u0301_\u24b6-") == Found{"x\u00b2\u0301_\u24b6"});
  CHECK(matches(R"(\h+)", "xbeef") == Found{"beef"});
  CHECK(matches(R"([\u4e00-\u9fff]+)", "a\u4e2d\u6587b") == Found{"\u4e2d\u6587"});
  CHECK(matches(R"(\p{Han}+)", "\u4e2d\u3001\u6587") == Found{"\u4e2d", "\u6587"});
  CHECK(matches(R"((?i:'s|'ll))", "'S 'Ll '\u017f") == Found{"'S", "'Ll", "'\u017f"});
  CHECK(matches(R"((?m:a.b))", "a\nb") == Found{"a\nb"});
  CHECK(matches(R"(^b$)", "a\nb\nc") == Found{"b"});
  CHECK(matches(R"(x*)", "axb") == Found{"", "x", ""});
  CHECK(matches(R"(\s+(?!\S)|\s+)", "  x") == Found{" ", " "});
  for (const char* pattern : {"[a[b]]", "[a&&b]", "a{1,2}+", "[[:alpha:]]", "[a", "a\\", R"([\S])", R"(\pL)"})
    CHECK_THROWS_WITH_AS(Regex(pattern, "where"), doctest::Contains("where: the expression"), ValueError);
}

TEST_CASE("Delimiters are kept, dropped or joined as the behavior says") {
  using Words = std::vector<std::string>;
  const auto split = [](const std::string& behavior, bool invert = false) {
    const std::string json = R"({"type": "Split", "pattern": {"String": "-"}, "behavior": ")" + behavior +
                             R"(", "invert": )" + (invert ? "true" : "false") + "}";
    return words(json.c_str(), "the-final--countdown");
  };
  CHECK(split("Removed") == Words{"the", "final", "countdown"});
  CHECK(split("Removed", true) == Words{"-", "-", "-"});
  CHECK(split("Isolated") == Words{"the", "-", "final", "-", "-", "countdown"});
  CHECK(split("MergedWithPrevious") == Words{"the-", "final-", "-", "countdown"});
  CHECK(split("MergedWithNext") == Words{"the", "-final", "-", "-countdown"});
  CHECK(split("Contiguous") == Words{"the", "-", "final", "--", "countdown"});
  CHECK(split("MergedWithNext", true) == Words{"the-", "final-", "-", "countdown"});
}

TEST_CASE("Digits stand alone or together") {
  using Words = std::vector<std::string>;
  CHECK(words(R"({"type": "Digits", "individual_digits": true})", "a12\u0663b") ==
        Words{"a", "1", "2", "\u0663", "b"});
  CHECK(words(R"({"type": "Digits", "individual_digits": false})", "a12\u0663b\u00bd") ==
        Words{"a", "12\u0663", "b", "\u00bd"});
}

TEST_CASE("Words, punctuation and white space are told apart") {
  using Words = std::vector<std::string>;
  CHECK(words(R"({"type": "Whitespace"})", " x\u00b2 it's--\u3000_a\u200db") ==
        Words{"x", "\u00b2", "it", "'", "s", "--", "_a\u200db"});
  CHECK(words(R"({"type": "WhitespaceSplit"})", " a\u00a0b-c\n") == Words{"a", "b-c"});
  CHECK(words(R"({"type": "Punctuation", "behavior": "Isolated"})", "a,$\u3002") ==
        Words{"a", ",", "$", "\u3002"});
}

TEST_CASE("Merges give the same for short and long words as looking at every pair") {
  std::mt19937 source(7);
  MergeTable table;
  table.reserve(300);
  for (int32_t id = 4; id < 304; ++id) {
    const auto side = [&] {
      return static_cast<int32_t>(source() % static_cast<uint32_t>(std::min(id, 40)));
    };
    const int32_t left = side();
    const int32_t right = side();
    if (!table.find(left, right).exists())
      table.insert(left, right, {static_cast<uint32_t>(source() % 200), id});
  }
  for (const size_t length : {0, 1, 2, 7, 47, 48, 49, 50, 200, 999}) {
    CAPTURE(length);
    std::vector<int32_t> symbols(length);
    for (int32_t& symbol : symbols) symbol = static_cast<int32_t>(source() % 4);
    const auto expected = merge_slowly(table, symbols);
    table.apply(symbols);
    CHECK(symbols == expected);
  }
}

TEST_CASE("A repeated merge takes the later rank") {
  MergeTable table;
  table.reserve(2);
  table.insert(1, 2, {0, 7});
  table.insert(1, 2, {5, 8});
  CHECK(table.find(1, 2).rank == 5);
  CHECK_FALSE(table.find(2, 1).exists());
}

TEST_CASE("Every byte has a stand-in of its own") {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  const std::string text = byte_level::encode(bytes);
  CHECK(byte_level::decode(text) == bytes);
  CHECK(byte_level::encode(" \n\xAD") == "\u0120\u010a\u0143");
  CHECK_FALSE(byte_level::decode("a b"));
}

TEST_CASE("Normal forms keep what later Unicode versions and utf8proc would change") {
  using unicode::Form;
  CHECK(unicode::normalize("cafe\u0301 \u1112\u1161\u11ab", Form::nfc) == "caf\u00e9 \ud55c");
  CHECK(unicode::normalize("\u00e9", Form::nfd) == "e\u0301");
  CHECK(unicode::normalize("\ufb01\u00b2", Form::nfkc) == "fi2");
  CHECK(unicode::normalize("a\u0301\u0323", Form::nfc) == "\u1ea1\u0301");
  CHECK(unicode::normalize("\u1100\u1161\u11a7\u0301", Form::nfc) == "\uac00\u11a7\u0301");
  CHECK(unicode::normalize("a\u0898\u0323", Form::nfc) == "a\u0898\u0323");
  CHECK(unicode::normalize("\U00011935\U00011930", Form::nfc) == "\U00011935\U00011930");
  CHECK(unicode::normalize("\u304b\u3099\u4e00", Form::nfc) == "\u304c\u4e00");
}

TEST_CASE("Tokens become text step by step") {
  const auto decode = [](const char* json, std::vector<std::string> tokens) {
    const Json component = Json::parse(json, "test");
    return Decoder(Component(component, "test"))(std::move(tokens));
  };
  constexpr const char* kFallback = R"({"type": "ByteFallback"})";
  CHECK(decode(kFallback, {"<0xE4>", "<0xb8>", "<0xAD>", "a"}) == "\u4e2da");
  CHECK(decode(kFallback, {"<0xE4>", "<0xB8>", "a", "<0x0A>"}) == "\uFFFD\uFFFDa\n");
  CHECK(decode(kFallback, {"<0xZZ>", "<0x1>"}) == "<0xZZ><0x1>");
  constexpr const char* kStrip = R"({"type": "Strip", "content": "_", "start": 2, "stop": 1})";
  CHECK(decode(kStrip, {"___a__", "_", "b"}) == "_a_b");
  CHECK(decode(R"({"type": "Replace", "pattern": {"String": "_"}, "content": " "})", {"_a_", "_"}) == " a  ");
  CHECK(decode(R"({"type": "ByteLevel"})", {"\u0120a", "\u00e4", "\u00b8\u0143", "\u4e2d"}) ==
        " a\u4e2d\u4e2d");
  CHECK(Decoder()({"a", "b"}) == "a b");
}

TEST_CASE("Texts are normalized step by step") {
  const auto normalize = [](const char* json, std::string_view text) {
    const Json component = Json::parse(json, "test");
    return Normalizer(Component(component, "test"))(text);
  };
  constexpr const char* kStripThenPrepend = R"({"type": "Sequence", "normalizers": [
      {"type": "Strip", "strip_left": true, "strip_right": false}, {"type": "Prepend", "prepend": "_"}]})";
  CHECK(normalize(kStripThenPrepend, " \u3000a ") == "_a ");
  CHECK(normalize(kStripThenPrepend, "  ") == "");
  CHECK(normalize(R"({"type": "Lowercase"})", "\u0130\u01c5\u03a3A") == "i\u0307\u01c6\u03c3a");
  CHECK(normalize(R"({"type": "Replace", "pattern": {"Regex": "a+"}, "content": "b"})", "aaxa") == "bxb");
}

TEST_CASE("Ill-formed bytes become one U+FFFD per maximal part") {
  const std::string bad = "\uFFFD";
  CHECK(unicode::replace_invalid_utf8("ab\xFFz") == "ab" + bad + "z");
  CHECK(unicode::replace_invalid_utf8("\xE4\xB8") == bad);
  CHECK(unicode::replace_invalid_utf8("\xE4\xB8\x41") == bad + "A");
  CHECK(unicode::replace_invalid_utf8("\xF0\x9F\x98\xF0\x9F\x98\x80") == bad + "\U0001F600");
  CHECK(unicode::replace_invalid_utf8("\xED\xA0\x80") == bad + bad + bad);
  CHECK(unicode::replace_invalid_utf8("\xC0\x80") == bad + bad);
  CHECK(unicode::replace_invalid_utf8("\xE0\x80") == bad + bad);
  CHECK(unicode::replace_invalid_utf8("\xF4\x90\x80") == bad + bad + bad);
  CHECK(unicode::replace_invalid_utf8("\xF5\x80") == bad + bad);
}

TEST_CASE("The cache gives words back and keeps words of one hash apart") {
  WordCache cache;
  const std::vector<int32_t> first{1, 2}, second{3};
  cache.insert("the", 5, first);
  cache.insert("and", 5, second);
  std::vector<int32_t> ids;
  CHECK(cache.find("and", 5, ids));
  CHECK(cache.find("the", 5, ids));
  CHECK(ids == std::vector<int32_t>{3, 1, 2});
  CHECK_FALSE(cache.find("an", 5, ids));
  for (int32_t i = 0; i < 100; ++i) cache.insert(std::to_string(i), 5, first);
  CHECK_FALSE(cache.find("99", 5, ids));
}
