#include "titan/checkpoint/step_folders.h"

#include <doctest/doctest.h>

#include "tests/unit/checkpoint/checkpoint_files.h"

using namespace titan;
using namespace titan::checkpoint_tests;

namespace {

void make_step(const std::filesystem::path& path, std::string_view file) {
  std::filesystem::create_directories(path);
  write_file_atomic(path / file, "x");
}

}  // namespace

TEST_CASE("only folders named exactly step-N with an index or .metadata are steps, by number") {
  const ScratchFolder folder;
  for (const char* name : {"step-10", "step-9", "step-100", "step-10.bak", "old-step-99", "step-10.tmp",
                           "step-007", "step--1", "step-", ".step-11.incomplete"}) {
    make_step(folder / name, "model.safetensors.index.json");
  }
  make_step(folder / "step-50", ".metadata");
  make_step(folder / "step-60", "model.safetensors");
  write_file_atomic(folder / "step-70", "a file");
  const auto steps = find_steps(folder.path());
  REQUIRE(steps.size() == 4);
  CHECK(steps[0].step == 9);
  CHECK(steps[1].step == 10);
  CHECK(steps[2].step == 50);
  CHECK_FALSE(steps[2].in_hf);
  CHECK(steps[3].step == 100);
  CHECK(steps[3].in_hf);
  CHECK(find_steps(folder / "none").empty());
}

TEST_CASE("publishing renames the staged folder and replaces an old one") {
  const ScratchFolder folder;
  const auto step = folder / "step-5";
  CHECK(staging_folder(step) == folder / ".step-5.incomplete");
  make_step(staging_folder(step), "one");
  publish_folder(step);
  CHECK(std::filesystem::exists(step / "one"));
  make_step(staging_folder(step), "two");
  publish_folder(step);
  CHECK(std::filesystem::exists(step / "two"));
  CHECK_FALSE(std::filesystem::exists(step / "one"));
  CHECK(count_entries(folder.path()) == 1);
}

TEST_CASE("what a killed save left is removed and a moved step is restored") {
  const ScratchFolder folder;
  make_step(folder / ".step-5.incomplete", "half");
  make_step(folder / ".step-6.replaced", "old");
  make_step(folder / "step-6", "successor");
  make_step(folder / ".step-7.replaced", "old");
  make_step(folder / ".mine.incomplete", "user's");
  make_step(folder / "step-8.incomplete", "user's");
  clean_staging(folder.path());
  CHECK_FALSE(std::filesystem::exists(folder / ".step-5.incomplete"));
  CHECK_FALSE(std::filesystem::exists(folder / ".step-6.replaced"));
  CHECK(std::filesystem::exists(folder / "step-6" / "successor"));
  CHECK(std::filesystem::exists(folder / "step-7" / "old"));
  CHECK(std::filesystem::exists(folder / ".mine.incomplete"));
  CHECK(std::filesystem::exists(folder / "step-8.incomplete"));
  CHECK(count_entries(folder.path()) == 4);
}
