#include "titan/data/datasets.h"

#include <doctest/doctest.h>

#include <unordered_set>

#include "data_fixture.h"
#include "titan/base/error.h"
#include "titan/data/corpus.h"

using namespace titan;
using titan::testing::DataFolder;

TEST_CASE("the bundled data sets are found from any folder and share no document") {
  const DataFolder folder;
  const auto here = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const auto documents_of = [](const char* name) {
    const Dataset dataset = find_dataset({.dataset = name});
    CHECK(dataset.shown_path.starts_with("tests/assets/c4_test"));
    CHECK_FALSE(dataset.about.empty());
    Corpus corpus(dataset.files, "text");
    std::unordered_set<std::string> texts;
    for (int64_t i = 0; i < corpus.num_documents(); ++i) texts.insert(corpus.text(i));
    return texts;
  };
  const auto train = documents_of("c4_test"), validation = documents_of("c4_test_validation");
  std::filesystem::current_path(here);
  CHECK(train.size() == 1130);
  CHECK(validation.size() == 59);
  for (const auto& text : validation) CHECK_FALSE(train.contains(text));
  CHECK(find_dataset({.dataset = "sample"}).files[0].path ==
        find_dataset({.dataset = "c4_test"}).files[0].path);
}

TEST_CASE("a path replaces the files of the name") {
  const DataFolder folder;
  const auto path = folder.write_lines("a.jsonl", {"one"});
  for (const char* name : {"c4_test", "c4", "my_books"}) {
    const Dataset dataset = find_dataset({.dataset = name, .dataset_path = path});
    CHECK(dataset.name == name);
    CHECK(dataset.files.size() == 1);
    CHECK(dataset.files[0].path == path);
    CHECK(dataset.about.empty());
  }
}

TEST_CASE("unknown names and names without files say what to do") {
  CHECK_THROWS_WITH_AS(find_dataset({.dataset = "c4_tset"}), doctest::Contains("did you mean c4_test"),
                       ConfigError);
  CHECK_THROWS_WITH_AS(find_dataset({.dataset = "pile"}),
                       doctest::Contains("known are c4_test, sample, c4_test_validation, c4, c4_validation"),
                       ConfigError);
  CHECK_THROWS_WITH_AS(find_dataset({.dataset = "c4"}), doctest::Contains("download en/c4-train.*.json.gz"),
                       ConfigError);
  CHECK_THROWS_WITH_AS(find_dataset({.dataset = "c4_validation"}),
                       doctest::Contains("or use the bundled c4_test_validation"), ConfigError);
}

TEST_CASE("settings of the data loader that mean nothing are refused by name") {
  CHECK_THROWS_WITH_AS(find_dataset({.text_key = ""}), doctest::Contains("dataloader.text_key"), ConfigError);
  CHECK_THROWS_WITH_AS(find_dataset({.dataset_path = ""}), doctest::Contains("dataloader.dataset_path"),
                       ConfigError);
  CHECK_THROWS_WITH_AS(find_dataset({.lanes = 0}), "dataloader.lanes 0 must be between 1 and 65536",
                       ConfigError);
  CHECK_THROWS_WITH_AS(find_dataset({.prefetch_factor = -1}),
                       "dataloader.prefetch_factor -1 must be between 0 and 1024", ConfigError);
}

TEST_CASE("messages name the section that the data set was set in") {
  CHECK_THROWS_WITH_AS(find_dataset({.dataset = "c4_validation"}, "validator.dataloader"),
                       doctest::Contains("validator.dataloader.dataset: c4_validation is not bundled"),
                       ConfigError);
  CHECK_THROWS_WITH_AS(find_dataset({.dataset_path = "/nowhere"}, "validator.dataloader"),
                       doctest::Contains("validator.dataloader.dataset_path: /nowhere"), ValueError);
}
