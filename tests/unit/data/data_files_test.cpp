#include "titan/data/data_files.h"

#include <doctest/doctest.h>

#include "data_fixture.h"
#include "titan/base/error.h"

using namespace titan;
using titan::testing::DataFolder;

namespace {
std::vector<std::string> names_of(const std::vector<DataFile>& files) {
  std::vector<std::string> names;
  for (const auto& file : files) names.push_back(file.path.filename().string());
  return names;
}
}  // namespace

TEST_CASE("a file's name tells its format and its compression") {
  CHECK(classify_data_file("a.jsonl").format == DataFormat::json_lines);
  CHECK(classify_data_file("a.json").compression == Compression::none);
  CHECK(classify_data_file("c4-train.00000-of-01024.json.gz").compression == Compression::gzip);
  CHECK(classify_data_file("a.jsonl.zst").compression == Compression::zstd);
  CHECK(classify_data_file("a.txt").format == DataFormat::text);
}

TEST_CASE("files that cannot be read are refused by name") {
  CHECK_THROWS_WITH_AS(
      classify_data_file("x/a.parquet"),
      doctest::Contains("x/a.parquet is a Parquet file, which titan does not read; docs/data.md"),
      ValueError);
  for (const char* name : {"a.csv", "a.txt.gz", "a.gz", "README.md", "jsonl"})
    CHECK_THROWS_WITH_AS(classify_data_file(name), doctest::Contains(name), ValueError);
}

TEST_CASE("a folder and a glob give their files sorted by name") {
  const DataFolder folder;
  for (const char* name : {"b.jsonl", "a.jsonl.gz", "c.json", "README.md", ".hidden.jsonl", "sub/d.jsonl"})
    folder.write(name, "");
  CHECK(names_of(find_data_files(folder.path().string())) ==
        std::vector<std::string>{"a.jsonl.gz", "b.jsonl", "c.json"});
  CHECK(names_of(find_data_files(folder.path().string() + "/*.jsonl")) ==
        std::vector<std::string>{"b.jsonl"});
  CHECK(names_of(find_data_files(folder.path().string() + "/*/*.jsonl")) ==
        std::vector<std::string>{"d.jsonl"});
  CHECK(names_of(find_data_files(folder.path().string() + "/c.json")) == std::vector<std::string>{"c.json"});
}

TEST_CASE("a file whose name looks like a glob is that file") {
  const DataFolder folder;
  folder.write("a[1].jsonl", "");
  CHECK(names_of(find_data_files((folder.path() / "a[1].jsonl").string())) ==
        std::vector<std::string>{"a[1].jsonl"});
}

TEST_CASE("paths without data say what was looked for") {
  const DataFolder folder;
  const std::string base = folder.path().string();
  CHECK_THROWS_WITH_AS(
      find_data_files(base + "/none.jsonl"),
      doctest::Contains(("dataloader.dataset_path: " + base + "/none.jsonl does not exist").c_str()),
      ValueError);
  CHECK_THROWS_WITH_AS(find_data_files(base + "/*.jsonl"), doctest::Contains("no file matches"), ValueError);
  CHECK_THROWS_WITH_AS(find_data_files(base), doctest::Contains("no data file in"), ValueError);
  CHECK_THROWS_WITH_AS(find_data_files(base + "/" + std::string(300, 'x')),
                       doctest::Contains("File name too long"), ValueError);
  folder.write("sub/a.jsonl", "");
  CHECK_THROWS_WITH_AS(find_data_files(base),
                       doctest::Contains(("give a glob such as " + base + "/*/*.jsonl").c_str()), ValueError);
  CHECK_THROWS_WITH_AS(find_data_files(base + "/s*"), doctest::Contains("matches folders only"), ValueError);
}

TEST_CASE("a folder that mixes kinds or holds Parquet is refused") {
  const DataFolder folder;
  folder.write("a.jsonl", "");
  folder.write("LICENSE.txt", "");
  CHECK_THROWS_WITH_AS(find_data_files(folder.path().string()),
                       doctest::Contains("both JSON lines (a.jsonl) and text (LICENSE.txt)"), ValueError);
  folder.write("b/train.parquet", "");
  CHECK_THROWS_WITH_AS(find_data_files((folder.path() / "b").string()), doctest::Contains("Parquet"),
                       ValueError);
}
