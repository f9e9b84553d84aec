#include "titan/data/row_stream.h"

#include <doctest/doctest.h>

#include <array>
#include <memory>

#include "data_fixture.h"
#include "titan/base/error.h"

using namespace titan;
using titan::testing::DataFolder;

namespace {

constexpr int64_t kSeqLen = 24;

/// A data set and what one rank needs to read it.
class Reader {
 public:
  Reader(const std::string& path, int64_t num_lanes, LoaderOptions options, bool infinite = true)
      : source_{.name = "test",
                .corpus = Corpus(find_data_files(path), "text"),
                .encode = testing::byte_tokens,
                .num_lanes = num_lanes,
                .infinite = infinite},
        stream_(source_, options) {}
  RowStream& operator*() { return stream_; }
  RowStream* operator->() { return &stream_; }

 private:
  LaneSource source_;
  RowStream stream_;
};

std::string row_text(const Batch& batch, int64_t row) {
  const auto begin = batch.input_ids.begin() + row * batch.seq_len;
  return {begin, begin + batch.seq_len};
}

/// The first `count` global rows, read by `dp` ranks in batches of `local`, from `start` on.
std::vector<std::string> global_rows(const std::string& path, int64_t num_lanes, int64_t count, int64_t dp,
                                     int64_t local, const StreamPosition* start = nullptr,
                                     StreamPosition* end = nullptr) {
  std::vector<std::string> rows(static_cast<size_t>(count));
  for (int64_t rank = 0; rank < dp; ++rank) {
    Reader reader(path, num_lanes,
                  {.seq_len = kSeqLen, .local_batch_size = local, .dp_rank = rank, .dp_world = dp});
    if (start) reader->seek(*start);
    for (int64_t step = 0; step * local * dp < count; ++step) {
      const Batch batch = reader->next().value();
      for (int64_t i = 0; i < local; ++i) {
        const int64_t row = (step * local + i) * dp + rank;
        if (row < count) rows[static_cast<size_t>(row)] = row_text(batch, i);
      }
    }
    if (!end) continue;
    const StreamPosition position = reader->position();
    end->rows = position.rows;
    for (const auto& [lane, place] : position.lanes) {
      const auto [kept, added] = end->lanes.emplace(lane, place);
      CHECK((added || kept->second == place));
    }
  }
  return rows;
}

}  // namespace

TEST_CASE("the number of lanes follows the number of documents") {
  CHECK(default_lanes(0) == 1);
  CHECK(default_lanes(7) == 1);
  CHECK(default_lanes(8) == 2);
  CHECK(default_lanes(59) == 8);
  CHECK(default_lanes(255) == 32);
  CHECK(default_lanes(256) == 64);
  CHECK(default_lanes(1'000'000) == 64);
}

TEST_CASE("the rows of a run do not depend on the number of ranks or the batch size") {
  const DataFolder folder;
  const auto path = folder.write_lines("a.jsonl", testing::numbered_documents(300, 60));
  const auto expected = global_rows(path, 64, 1280, 1, 1);  // more than two epochs
  for (const auto& [dp, local] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 4}, {2, 1}, {2, 5}, {3, 1}, {5, 2}, {8, 1}, {64, 1}, {128, 1}, {96, 1}}) {
    CAPTURE(dp);
    CAPTURE(local);
    CHECK(global_rows(path, 64, 1280, dp, local) == expected);
  }
}

TEST_CASE("lanes without tokens are passed over alike on every layout") {
  const DataFolder folder;
  auto texts = testing::numbered_documents(64, 40);
  for (size_t i = 0; i < texts.size(); ++i)
    if (i % 16 == 3 || i % 16 == 4 || i % 16 == 15) texts[i] = i % 2 ? "" : "x";
  const auto path = folder.write_lines("a.jsonl", texts);
  const auto expected = global_rows(path, 16, 390, 1, 1);
  for (const int64_t dp : {2, 3, 5, 13, 26}) CHECK(global_rows(path, 16, 390, dp, 1) == expected);
  Reader reader(path, 16, {.seq_len = kSeqLen, .dp_rank = 0, .dp_world = 13});
  CHECK(reader->num_active_lanes() == 13);
  CHECK(reader->num_own_lanes() == 1);
}

TEST_CASE("a rank packs its own lanes where their number divides, and says what it costs elsewhere") {
  const DataFolder folder;
  const auto path = folder.write_lines("a.jsonl", testing::numbered_documents(64, 10));
  struct Case {
    int64_t dp, own, cost;
  };
  for (const auto& [dp, own, cost] :
       {Case{1, 16, 1}, Case{4, 4, 1}, Case{16, 1, 1}, Case{3, 16, 3}, Case{6, 8, 3}, Case{64, 1, 4}}) {
    CAPTURE(dp);
    Reader reader(path, 16, {.seq_len = kSeqLen, .dp_rank = 0, .dp_world = dp});
    CHECK(reader->num_own_lanes() == own);
    CHECK(reader->packing_cost() == cost);
  }
}

TEST_CASE("a run continues with the same rows on another number of ranks") {
  const DataFolder folder;
  const auto path = folder.write_lines("a.jsonl", testing::numbered_documents(100, 60));
  const auto expected = global_rows(path, 16, 960, 1, 1);
  const std::vector<std::string> tail(expected.begin() + 480, expected.end());
  for (const int64_t before : {1, 3, 4, 32}) {
    StreamPosition position;
    global_rows(path, 16, 480, before, 1, nullptr, &position);
    REQUIRE(position.rows == 480);
    REQUIRE(position.lanes.size() == 16);
    for (const int64_t after : {1, 2, 3, 5, 16, 32}) {
      CAPTURE(before);
      CAPTURE(after);
      CHECK(global_rows(path, 16, 480, after, 1, &position) == tail);
    }
  }
}

TEST_CASE("a run continues at a row that its ranks do not divide") {
  const DataFolder folder;
  const auto path = folder.write_lines("a.jsonl", testing::numbered_documents(100, 60));
  const auto expected = global_rows(path, 16, 300, 1, 1);
  StreamPosition position;
  global_rows(path, 16, 57, 3, 1, nullptr, &position);
  for (const int64_t after : {2, 4, 16}) {
    CAPTURE(after);
    CHECK(global_rows(path, 16, 240, after, 1, &position) ==
          std::vector<std::string>(expected.begin() + 57, expected.begin() + 297));
  }
}

TEST_CASE("a position that lacks one of a rank's lanes is refused") {
  const DataFolder folder;
  const auto path = folder.write_lines("a.jsonl", testing::numbered_documents(64, 10));
  Reader half(path, 16, {.seq_len = kSeqLen, .dp_rank = 0, .dp_world = 2});
  half->next();
  Reader whole(path, 16, {.seq_len = kSeqLen});
  CHECK_THROWS_WITH_AS(whole->seek(half->position()), doctest::Contains("lacks lane 1"), ValueError);
}

TEST_CASE("one epoch returns every token exactly once over all ranks") {
  const DataFolder folder;
  const auto texts = testing::numbered_documents(50, 60);
  const auto path = folder.write_lines("a.jsonl", texts);
  std::array<int64_t, 256> expected{};
  for (const auto& text : texts)
    for (size_t i = 1; i < text.size(); ++i) ++expected[static_cast<unsigned char>(text[i])];
  for (const int64_t dp : {1, 2, 3, 8, 16}) {
    CAPTURE(dp);
    std::array<int64_t, 256> seen{};
    for (int64_t rank = 0; rank < dp; ++rank) {
      Reader reader(path, 8, {.seq_len = kSeqLen, .local_batch_size = 2, .dp_rank = rank, .dp_world = dp},
                    false);
      while (const auto batch = reader->next())
        for (const int64_t label : batch->labels)
          if (label != kIgnoredLabel) ++seen[static_cast<size_t>(label)];
      CHECK_FALSE(reader->next());
    }
    CHECK(seen == expected);
  }
}

TEST_CASE("ranks whose data ended stay in step with the others") {
  const DataFolder folder;
  std::vector<std::string> texts(8, "ab");
  texts[1] = std::string(500, 'x');
  const auto path = folder.write_lines("a.jsonl", texts);
  Reader first(path, 2, {.seq_len = kSeqLen, .dp_rank = 0, .dp_world = 2}, false);
  Reader second(path, 2, {.seq_len = kSeqLen, .dp_rank = 1, .dp_world = 2}, false);
  int64_t ended_before = 0;
  while (second->next()) ended_before += !first->next();
  CHECK(ended_before > 10);
  first->next();
  CHECK(first->position().rows == second->position().rows);
}

TEST_CASE("a data set without a usable token is refused by every rank") {
  const DataFolder folder;
  const auto path = folder.write_lines("a.jsonl", {"", "x", ""});
  for (const int64_t rank : {0, 1, 2, 3})
    CHECK_THROWS_WITH_AS(Reader(path, 4, {.seq_len = kSeqLen, .dp_rank = rank, .dp_world = 4}),
                         "test has no usable token: it holds 3 documents, none with two tokens or more",
                         ValueError);
  const auto nothing = folder.write("b.jsonl", "\n\n");
  CHECK_THROWS_WITH_AS(Reader(nothing, 1, {.seq_len = kSeqLen}), doctest::Contains("holds 0 documents"),
                       ValueError);
}

TEST_CASE("three documents feed four ranks for ever") {
  const DataFolder folder;
  const auto path = folder.write_lines("a.jsonl", {"abc", "", "xyz"});
  const auto expected = global_rows(path, 1, 40, 1, 1);
  CHECK(global_rows(path, 1, 40, 4, 1) == expected);
  CHECK(global_rows(path, 3, 40, 4, 2) == global_rows(path, 3, 40, 1, 1));
}
