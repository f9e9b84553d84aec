#include "titan/data/loader.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "data_fixture.h"
#include "titan/base/error.h"

using namespace titan;
using titan::testing::DataFolder;

namespace {

DataLoaderConfig config_of(const DataFolder& folder, int64_t num_documents = 100) {
  return {.dataset_path = folder.write_lines("a.jsonl", testing::numbered_documents(num_documents, 60))};
}

LoaderOptions rank_of(int64_t rank, int64_t dp) {
  return {.seq_len = 32, .local_batch_size = 2, .dp_rank = rank, .dp_world = dp};
}

/// All ranks of a run, stepped together.
class Run {
 public:
  Run(const DataLoaderConfig& config, int64_t dp) {
    for (int64_t rank = 0; rank < dp; ++rank)
      loaders_.emplace_back(config, testing::byte_tokens, rank_of(rank, dp));
  }
  /// The ids of `steps` steps, in the order of the global rows.
  std::vector<int64_t> read(int64_t steps) {
    std::vector<int64_t> ids;
    for (int64_t step = 0; step < steps; ++step) {
      std::vector<Batch> batches;
      for (auto& loader : loaders_) batches.push_back(loader.next().value());
      for (int64_t row = 0; row < batches[0].rows; ++row)
        for (const auto& batch : batches)
          ids.insert(ids.end(), batch.input_ids.begin() + row * batch.seq_len,
                     batch.input_ids.begin() + (row + 1) * batch.seq_len);
    }
    return ids;
  }
  Json state() const {
    std::vector<Json> states;
    for (const auto& loader : loaders_) states.push_back(loader.state());
    // Through text, as a checkpoint does.
    return Json::parse(DataLoader::merge_states(states).dump(), "state");
  }
  void restore(const Json& state) {
    for (auto& loader : loaders_) loader.restore(state);
  }

 private:
  std::vector<DataLoader> loaders_;
};

}  // namespace

TEST_CASE("a resumed run reads what the whole run reads, twice in a row and on other numbers of ranks") {
  const DataFolder folder;
  const auto config = config_of(folder);
  Run whole(config, 4);
  whole.read(20);
  const auto second = whole.read(12), third = whole.read(12);
  Run first(config, 4);
  first.read(20);
  const Json state = first.state();
  CHECK(first.read(12) == second);  // taking the state disturbs nothing
  for (const int64_t dp : {1, 2, 3, 4, 6}) {
    CAPTURE(dp);
    // 12 steps of 4 ranks hold as many rows as 48 / dp steps of dp ranks.
    Run resumed(config, dp);
    resumed.restore(state);
    CHECK(resumed.state() == state);
    CHECK(resumed.read(48 / dp) == second);
    Run again(config, 4);
    again.restore(resumed.state());
    CHECK(again.read(12) == third);
  }
}

TEST_CASE("the state counts the batches that were taken, not those made ahead") {
  const DataFolder folder;
  auto config = config_of(folder);
  config.prefetch_factor = 8;
  DataLoader loader(config, testing::byte_tokens, rank_of(0, 1));
  CHECK(loader.state()["rows"].as_int() == 0);
  loader.next();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(loader.state()["rows"].as_int() == 2);
  const auto second = loader.next()->input_ids;
  loader.rewind();
  CHECK(loader.state()["rows"].as_int() == 0);
  loader.next();
  CHECK(loader.next()->input_ids == second);
}

TEST_CASE("prefetch_factor says how many batches are made ahead, and changes none") {
  const DataFolder folder;
  std::vector<std::string> texts;
  for (char c = 'a'; c <= 'z'; ++c) texts.push_back(std::string(65, c));  // 64 pairs: a batch
  DataLoaderConfig config{.dataset_path = folder.write_lines("a.jsonl", texts), .lanes = 1};
  for (const int64_t factor : {0, 1, 5}) {
    CAPTURE(factor);
    config.prefetch_factor = factor;
    std::atomic<int64_t> calls = 0;
    std::atomic<bool> here = false;
    DataLoader loader(
        config,
        [&, caller = std::this_thread::get_id()](std::string_view text) {
          ++calls;
          here = std::this_thread::get_id() == caller;
          return testing::byte_tokens(text);
        },
        rank_of(0, 1));
    CHECK(calls == 1);  // the look for a usable document
    CHECK(loader.next()->input_ids == std::vector<int64_t>(64, 'a'));
    // The batch taken, those ahead, and the document at which the next begins.
    const int64_t expected = 1 + 1 + factor + 1;
    for (int i = 0; i < 500 && calls < expected; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    CHECK(calls == expected);
    CHECK(here == (factor == 0));
    for (char c = 'b'; c <= 'j'; ++c) CHECK(loader.next()->input_ids == std::vector<int64_t>(64, c));
  }
}

TEST_CASE("an error of the reading thread reaches the caller and stays") {
  const DataFolder folder;
  std::atomic<int> calls = 0;
  DataLoader loader(
      config_of(folder),
      [&](std::string_view text) {
        if (++calls > 60) throw ValueError("no more");
        return testing::byte_tokens(text);
      },
      rank_of(0, 1));
  const auto read_all = [&] {
    for (int i = 0; i < 1000; ++i) loader.next();
  };
  CHECK_THROWS_WITH_AS(read_all(), "no more", ValueError);
  CHECK_THROWS_WITH_AS(loader.next(), "no more", ValueError);
}

TEST_CASE("other data, lanes or seed are refused by name when a run resumes") {
  const DataFolder folder;
  auto config = config_of(folder);
  Run run(config, 1);
  run.read(3);
  const Json state = run.state();
  const auto refused = [&](const DataLoaderConfig& other, const char* what) {
    CHECK_THROWS_WITH_AS(Run(other, 1).restore(state), doctest::Contains(what), ValueError);
  };
  auto other = config;
  other.lanes = 8;
  refused(other, "dataloader.lanes 16, this run has 8");
  other = config;
  other.seed = 1;
  refused(other, "dataloader.seed 42, this run has 1");
  other = config;
  other.dataset_path = folder.write_lines("b.jsonl", testing::numbered_documents(101, 60));
  refused(other, "the data set c4_test (100 documents");
  auto texts = testing::numbered_documents(100, 60);
  texts[50] += "!";
  other.dataset_path = folder.write_lines("d.jsonl", texts);
  refused(other, "the data set c4_test (100 documents");
  // The same content elsewhere is the same data.
  other.dataset_path = folder.write_lines("c.jsonl", testing::numbered_documents(100, 60));
  CHECK_NOTHROW(Run(other, 1).restore(state));
}

TEST_CASE("damaged states are refused") {
  const DataFolder folder;
  Run run(config_of(folder), 1);
  Json state = run.state();
  CHECK_THROWS_WITH_AS(run.restore(Json::object()), doctest::Contains("damaged"), ValueError);
  state.set("fingerprint", "xyz");
  CHECK_THROWS_WITH_AS(run.restore(state), doctest::Contains("fingerprint \"xyz\" is not a number"),
                       ValueError);
  state = run.state();
  Json positions = state["positions"];
  positions.set("0", Json::Array{0, 1});
  state.set("positions", positions);
  CHECK_THROWS_WITH_AS(run.restore(state), doctest::Contains("damaged"), ValueError);
}

TEST_CASE("states of different steps do not merge") {
  const DataFolder folder;
  const auto config = config_of(folder);
  DataLoader first(config, testing::byte_tokens, rank_of(0, 2)),
      second(config, testing::byte_tokens, rank_of(1, 2));
  first.next();
  const std::vector<Json> states{first.state(), second.state()};
  CHECK_THROWS_WITH_AS(DataLoader::merge_states(states), doctest::Contains("different rows, 4 and 0"),
                       ValueError);
}

TEST_CASE("lanes, text_key and infinite change what is read") {
  const DataFolder folder;
  auto config = config_of(folder);
  DataLoader by_default(config, testing::byte_tokens, rank_of(0, 1));
  CHECK(by_default.state()["lanes"].as_int() == 16);
  config.lanes = 3;
  DataLoader three(config, testing::byte_tokens, rank_of(0, 1));
  CHECK(three.state()["lanes"].as_int() == 3);
  CHECK(three.num_documents() == 100);
  config.infinite = false;
  DataLoader finite(config, testing::byte_tokens, rank_of(0, 1));
  int64_t tokens = 0, expected = 0;
  while (const auto batch = finite.next()) tokens += batch->valid_tokens();
  for (const auto& text : testing::numbered_documents(100, 60))
    expected += static_cast<int64_t>(text.size()) - 1;
  CHECK(tokens == expected);
  finite.rewind();
  CHECK(finite.next());
  config.dataset_path = folder.write("b.jsonl", "{\"content\": \"abc\"}\n");
  CHECK_THROWS_WITH_AS(DataLoader(config, testing::byte_tokens, rank_of(0, 1)),
                       doctest::Contains("keys found: \"content\""), ValueError);
  CHECK_THROWS_WITH_AS(DataLoader(config, testing::byte_tokens, {.section = "validator.dataloader"}),
                       doctest::Contains("set validator.dataloader.text_key"), ValueError);
  config.text_key = "content";
  CHECK(DataLoader(config, testing::byte_tokens, rank_of(0, 1)).next()->valid_tokens() == 2);
}

TEST_CASE("a padding batch holds no valid token") {
  const DataFolder folder;
  const Batch batch = DataLoader(config_of(folder), testing::byte_tokens, rank_of(0, 1)).padding_batch();
  CHECK(batch.valid_tokens() == 0);
  CHECK(batch.input_ids == std::vector<int64_t>(64, 0));
  CHECK(batch.positions[31] == 31);
  CHECK(batch.positions[32] == 0);
}

TEST_CASE("shapes that mean nothing are refused by name") {
  const DataFolder folder;
  CHECK_THROWS_WITH_AS(DataLoader(config_of(folder), testing::byte_tokens, {.seq_len = 0}),
                       doctest::Contains("training.seq_len 0"), ConfigError);
  CHECK_THROWS_WITH_AS(DataLoader(config_of(folder), testing::byte_tokens, {.local_batch_size = 0}),
                       doctest::Contains("training.local_batch_size 0"), ConfigError);
}
