#include "titan/data/lane.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "data_fixture.h"
#include "titan/base/error.h"

using namespace titan;
using titan::testing::DataFolder;

namespace {

struct Row {
  std::vector<int64_t> ids, labels, positions;
};

Row next_row(Lane& lane, size_t seq_len) {
  Row row{std::vector<int64_t>(seq_len, 7777), std::vector<int64_t>(seq_len, 7777),
          std::vector<int64_t>(seq_len, 7777)};
  lane.fill({row.ids, row.labels, row.positions});
  return row;
}

std::string text_of(const std::vector<int64_t>& ids) { return {ids.begin(), ids.end()}; }

LaneSource source_of(const DataFolder& folder, const std::vector<std::string>& texts, bool infinite = true) {
  const auto path = folder.write_lines("data-" + std::to_string(texts.size()) + ".jsonl", texts);
  return {.name = "test",
          .corpus = Corpus(find_data_files(path), "text"),
          .encode = testing::byte_tokens,
          .num_lanes = 1,
          .infinite = infinite};
}

}  // namespace

TEST_CASE("two documents in a row are shifted each on its own, and positions begin again") {
  const DataFolder folder;
  LaneSource source = source_of(folder, {"abcd", "wxyz"});
  Lane lane(source, 0);
  const Row row = next_row(lane, 6);
  CHECK(text_of(row.ids) == "abcwxy");
  CHECK(text_of(row.labels) == "bcdxyz");
  CHECK(row.positions == std::vector<int64_t>{0, 1, 2, 0, 1, 2});
}

TEST_CASE("a row that begins inside a document counts its positions from 0") {
  const DataFolder folder;
  LaneSource source = source_of(folder, {"abcdefg", "wxyz"});
  Lane lane(source, 0);
  const Row first = next_row(lane, 4), second = next_row(lane, 4);
  CHECK(text_of(first.ids) == "abcd");
  CHECK(text_of(first.labels) == "bcde");
  CHECK(text_of(second.ids) == "efwx");
  CHECK(text_of(second.labels) == "fgxy");
  CHECK(second.positions == std::vector<int64_t>{0, 1, 0, 1});
}

TEST_CASE("a document that fills a row exactly is kept whole") {
  const DataFolder folder;
  LaneSource source = source_of(folder, {"abcde", "vwxyz"});
  Lane lane(source, 0);
  CHECK(text_of(next_row(lane, 4).labels) == "bcde");
  const Row second = next_row(lane, 4);
  CHECK(text_of(second.ids) == "vwxy");
  CHECK(second.positions == std::vector<int64_t>{0, 1, 2, 3});
}

TEST_CASE("documents of no or one token give nothing") {
  const DataFolder folder;
  LaneSource source = source_of(folder, {"", "x", "ab", "", "y", "cd", "z"});
  Lane lane(source, 0);
  CHECK(text_of(next_row(lane, 2).labels) == "bd");
  CHECK(lane.position().epoch == 1);
}

TEST_CASE("one epoch ends in padding whose labels do not count") {
  const DataFolder folder;
  LaneSource source = source_of(folder, {"abc", "xyz"}, false);
  Lane lane(source, 0);
  CHECK_FALSE(lane.at_end());
  next_row(lane, 3);
  CHECK_FALSE(lane.at_end());
  const Row row = next_row(lane, 3);
  CHECK(row.ids == std::vector<int64_t>{'y', 0, 0});
  CHECK(row.labels == std::vector<int64_t>{'z', kIgnoredLabel, kIgnoredLabel});
  CHECK(row.positions == std::vector<int64_t>{0, 0, 1});
  CHECK(lane.at_end());
  CHECK(next_row(lane, 3).labels == std::vector<int64_t>(3, kIgnoredLabel));
}

TEST_CASE(
    "epoch 0 keeps the order of the files, later ones have each their own, again the same in every run") {
  const DataFolder folder;
  std::vector<std::string> texts;
  for (char c = 'A'; c <= 'Z'; ++c) texts.push_back({c, '.'});
  LaneSource source = source_of(folder, texts);
  const auto epochs_of = [&](int64_t seed) {
    source.seed = seed;
    Lane lane(source, 0);
    std::vector<std::string> epochs;
    for (int epoch = 0; epoch < 3; ++epoch) epochs.push_back(text_of(next_row(lane, 26).ids));
    return epochs;
  };
  const auto epochs = epochs_of(42);
  CHECK(epochs[0] == "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
  for (auto epoch : epochs) {
    std::sort(epoch.begin(), epoch.end());
    CHECK(epoch == epochs[0]);
  }
  CHECK(epochs[1] != epochs[0]);
  CHECK(epochs[2] != epochs[0]);
  CHECK(epochs[2] != epochs[1]);
  CHECK(epochs_of(42) == epochs);
  CHECK(epochs_of(7)[0] == epochs[0]);
  CHECK(epochs_of(7)[1] != epochs[1]);
  CHECK(epochs_of(43)[1] == epochs[2]);  // epoch e is shuffled with seed + e
}

TEST_CASE("lanes share the documents out, one by one, in every epoch") {
  const DataFolder folder;
  std::vector<std::string> texts;
  for (char c = 'A'; c <= 'Z'; ++c) texts.push_back({c, '.'});
  LaneSource source = source_of(folder, texts);
  source.num_lanes = 4;
  for (const int64_t number : {0, 1, 2, 3}) {
    Lane lane(source, number);
    std::string mine;
    for (auto c = static_cast<char>('A' + number); c <= 'Z'; c = static_cast<char>(c + 4)) mine += c;
    CHECK(lane.num_documents() == static_cast<int64_t>(mine.size()));
    CHECK(text_of(next_row(lane, mine.size()).ids) == mine);
    std::string second = text_of(next_row(lane, mine.size()).ids);
    std::sort(second.begin(), second.end());
    CHECK(second == mine);
  }
}

TEST_CASE("documents sorted by length are shared out evenly") {
  const DataFolder folder;
  std::vector<std::string> texts;
  for (size_t i = 1; i <= 200; ++i) texts.push_back(std::string(i * 3, 'a'));
  LaneSource source = source_of(folder, texts, false);
  source.num_lanes = 2;
  std::vector<int64_t> tokens;
  for (const int64_t number : {0, 1}) {
    Lane lane(source, number);
    int64_t count = 0;
    while (!lane.at_end()) {
      const Row row = next_row(lane, 64);
      count += std::count_if(row.labels.begin(), row.labels.end(),
                             [](int64_t label) { return label != kIgnoredLabel; });
    }
    tokens.push_back(count);
  }
  CHECK(tokens[0] + tokens[1] == 3 * 200 * 201 / 2 - 200);
  CHECK(std::abs(tokens[0] - tokens[1]) <= 3 * 100);
}

TEST_CASE("skipping a row leads to the same place as writing it") {
  const DataFolder folder;
  LaneSource source = source_of(folder, testing::numbered_documents(20, 30));
  Lane written(source, 0), skipped(source, 0);
  for (int i = 0; i < 100; ++i) {
    next_row(written, 16);
    skipped.skip(16);
    REQUIRE(written.position() == skipped.position());
  }
  CHECK(next_row(written, 16).ids == next_row(skipped, 16).ids);
}

TEST_CASE("a lane continues from a position inside a document") {
  const DataFolder folder;
  LaneSource source = source_of(folder, testing::numbered_documents(20, 30));
  Lane lane(source, 0);
  for (int i = 0; i < 90; ++i) {
    Lane other(source, 0);
    other.seek(lane.position());
    // A row length of its own: positions do not depend on it.
    const Row expected = next_row(lane, 7);
    CHECK(next_row(other, 7).ids == expected.ids);
  }
  CHECK(lane.position().epoch > 0);
}

TEST_CASE("positions that cannot be are refused") {
  const DataFolder folder;
  LaneSource source = source_of(folder, {"abcdef", "uvwxyz"});
  Lane lane(source, 0);
  CHECK_THROWS_WITH_AS(lane.seek({.document = 3}), doctest::Contains("damaged"), ValueError);
  CHECK_THROWS_WITH_AS(lane.seek({.epoch = -1}), doctest::Contains("damaged"), ValueError);
  CHECK_THROWS_WITH_AS(lane.seek({.token = 5, .document_tokens = 6}), doctest::Contains("damaged"),
                       ValueError);
  lane.seek({.token = 4, .document_tokens = 7});
  CHECK_THROWS_WITH_AS(lane.skip(1), doctest::Contains("another tokenizer"), ValueError);
}

TEST_CASE("a lane knows whether it holds a token, also behind a long document cut for the look") {
  const DataFolder folder;
  LaneSource empty = source_of(folder, {"", "x", ""});
  CHECK_FALSE(Lane(empty, 0).has_tokens());
  LaneSource full = source_of(folder, {"", "xy"});
  CHECK(Lane(full, 0).has_tokens());
  CHECK_FALSE(Lane(full, 2).has_tokens());
  for (const char* start :
       {"", "x", "xx"}) {  // three bytes a character: two of the three cuts fall inside one
    std::string text = start;
    for (int i = 0; i < 5000; ++i) text += "\u20ac";
    LaneSource wide = source_of(folder, {text});
    wide.encode = [](std::string_view piece) {
      CHECK(piece.size() > 4000);
      CHECK(piece.size() <= 4096);
      CHECK_FALSE(find_invalid_utf8(piece));
      return testing::byte_tokens(piece);
    };
    CHECK(Lane(wide, 0).has_tokens());
  }
}
