#include <doctest/doctest.h>

#include <cstdlib>

#include "data_fixture.h"
#include "titan/base/file.h"
#include "titan/base/json.h"
#include "titan/data/tokenizer.h"

using namespace titan;
using titan::testing::DataFolder;

namespace {

std::vector<int32_t> ids_of(const Json& list) {
  std::vector<int32_t> ids;
  for (const Json& id : list.elements()) ids.push_back(static_cast<int32_t>(id.as_int()));
  return ids;
}

Json golden() {
  return Json::parse_file(std::filesystem::path(std::getenv("TITAN_SOURCE_DIR")) /
                          "tests/unit/data/tokenizer_golden.json");
}

}  // namespace

TEST_CASE(
    "Ids and decoded text are those of tokenizers, for a small tokenizer of each family and component") {
  const Json file = golden();
  const auto& texts = file["texts"].elements();
  REQUIRE(file["cases"].size() >= 20);
  for (const Json& test : file["cases"].elements()) {
    CAPTURE(test["name"].as_string());
    Json parts = test["parts"];
    parts.set("model", file["models"].at(static_cast<size_t>(test["model"].as_int())));
    const DataFolder folder;
    folder.write("tokenizer.json", parts.dump());
    const Tokenizer tokenizer = Tokenizer::load(folder.path());
    REQUIRE(test["ids"].size() == texts.size());
    for (size_t i = 0; i < texts.size(); ++i) {
      CAPTURE(texts[i].as_string());
      const auto ids = ids_of(test["ids"].at(i));
      CHECK(tokenizer.encode(texts[i].as_string()) == ids);
      CHECK(tokenizer.decode(ids) == test["decoded"].at(i).as_string());
    }
  }
}
