#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <regex>
#include <string>

#include "titan/base/file.h"
#include "titan/neuron/rt/cost.h"
#include "titan/neuron/rt/cost_classes.h"

using namespace titan;
namespace fs = std::filesystem;

namespace {

fs::path source_folder() { return std::getenv("TITAN_SOURCE_DIR"); }

/// The names in the m.def lines of one source, with their overloads.
std::vector<std::string> registered_in(const std::string& text) {
  static const std::regex definition(R"re(m\.def\(\s*"(\w+(?:\.\w+)?)\()re");
  std::vector<std::string> names;
  for (std::sregex_iterator match(text.begin(), text.end(), definition), end; match != end; ++match) {
    names.push_back("titan::" + (*match)[1].str());
  }
  return names;
}

}  // namespace

TEST_CASE("every operator that titan registers has a row of its own in the table") {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(source_folder() / "titan/ops")) {
    if (entry.path().extension() != ".cpp") continue;
    for (const std::string& name : registered_in(read_file(entry.path()))) {
      INFO(name << " of " << entry.path().filename().string());
      CHECK(neuron::find_operator_entry(name) != nullptr);
      ++count;
    }
  }
  CHECK(count >= 19);
}

TEST_CASE("docs/neuron.md shows the table of costs and names every operator of titan") {
  const std::string document = read_file(source_folder() / "docs/neuron.md");
  const std::string table = neuron::cost_table(2);
  INFO(table);
  CHECK(document.find("\n\n" + table + "\n") != std::string::npos);
  for (const auto& entry : fs::directory_iterator(source_folder() / "titan/ops")) {
    if (entry.path().extension() != ".cpp") continue;
    for (const std::string& name : registered_in(read_file(entry.path()))) {
      INFO(name);
      CHECK(document.find("`" + name.substr(7) + "`") != std::string::npos);
    }
  }
}

TEST_CASE("at LNC 1 the table has half of every rate") {
  const std::string one = neuron::cost_table(1), two = neuron::cost_table(2);
  CHECK(one.find("| matmul | bfloat16, float16 | 79.0 TFLOP/s | - | - | 362.5 GB/s |\n") !=
        std::string::npos);
  CHECK(two.find("| matmul | bfloat16, float16 | 158.0 TFLOP/s | - | - | 725.0 GB/s |\n") !=
        std::string::npos);
}
