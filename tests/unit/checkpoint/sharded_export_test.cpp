#include <ATen/ops/equal.h>
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <atomic>
#include <csignal>

#include "tests/unit/checkpoint/checkpoint_files.h"
#include "tests/unit/checkpoint/shard_layouts.h"
#include "titan/checkpoint/hf_export.h"
#include "titan/checkpoint/hf_import.h"
#include "titan/checkpoint/manager.h"

using namespace titan;
using namespace titan::checkpoint_tests;

namespace {

HfModel numbered_model(bool tied, at::ScalarType dtype = at::kFloat) {
  HfModel model = small_model(tied, dtype);
  int64_t first = 1;
  for (ShardedTensor& part : model.tensors) part.tensor.copy_(numbers(part.shape, first += 50));
  return model;
}

/// Names and bytes of the files of a folder.
std::vector<std::pair<std::string, std::string>> content(const std::filesystem::path& folder) {
  std::vector<std::pair<std::string, std::string>> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files.emplace_back(entry.path().filename().string(), read_file(entry.path()));
  }
  std::ranges::sort(files);
  return files;
}

const std::vector<Grid> kGrids = {{2, 1}, {3, 1}, {7, 1}, {1, 2}, {1, 3}, {2, 2}, {3, 2}, {2, 2, 2}};

/// Limits the size of files for its lifetime: a disk that fills up.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small{bytes, before_.rlim_max};
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  SmallFiles(const SmallFiles&) = delete;
  SmallFiles& operator=(const SmallFiles&) = delete;
  ~SmallFiles() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

CheckpointConfig saving_and_loading() {
  CheckpointConfig config;
  config.enable = config.last_save_in_hf = config.initial_load_in_hf = true;
  return config;
}

}  // namespace

TEST_CASE("any layout writes the files of a single rank, byte by byte") {
  for (const auto training : {at::kFloat, at::kBFloat16}) {
    for (const bool tied : {false, true}) {
      const ScratchFolder folder;
      const HfModel model = numbered_model(tied, training);
      const ExportOptions options = {.dtype = at::kBFloat16, .max_shard_bytes = 50, .tied_head = true};
      hf_export(model, folder / "single", options);
      const auto expected = content(folder / "single");
      REQUIRE(expected.size() == 5);  // three shards, index, config.json
      for (const Grid& grid : kGrids) {
        CAPTURE(grid.shard);
        CAPTURE(grid.tensor);
        const auto several = folder / "several";
        run_grid(grid, [&](const ShardGroups& groups) {
          CHECK(hf_export(part_of(model, groups), several, options, groups) == 2 * (20 + 16 + 20));
        });
        CHECK((content(several) == expected));
      }
      CHECK(count_entries(folder.path()) == 2);
    }
  }
}

TEST_CASE("a matrix cut by columns that is larger than a transposed band is put together") {
  const ScratchFolder folder;
  HfModel model = numbered_model(false);
  model.tensors[1] = whole_tensor(model.tensors[1].name, numbers({2100, 2050}, 0));
  hf_export(model, folder / "single");
  run_grid({2, 3}, [&](const ShardGroups& groups) {
    hf_export(part_of(model, groups), folder / "several", {}, groups);
  });
  CHECK((content(folder / "several") == content(folder / "single")));
}

TEST_CASE("a writer that fails ends all ranks with its message and leaves the old folder") {
  for (const Grid& grid : kGrids) {
    CAPTURE(grid.size());
    const ScratchFolder folder;
    hf_export(numbered_model(false), folder / "step-3");
    HfModel larger = numbered_model(false);
    larger.tensors[1] = whole_tensor(larger.tensors[1].name, at::zeros({500, 500}, at::kFloat));
    std::atomic<int64_t> ended = 0;
    {
      const SmallFiles limit(100'000);
      run_grid(grid, [&](const ShardGroups& groups) {
        const auto error =
            error_of([&] { hf_export(part_of(larger, groups), folder / "step-3", {}, groups); });
        if (contains(error, "cannot write") && contains(error, "File too large")) ++ended;
      });
    }
    CHECK(ended == grid.size());
    CHECK(count_entries(folder.path()) == 1);
    hf_import(small_model(false), folder / "step-3");
  }
}

TEST_CASE("a place that cannot be written ends all ranks before weights are sent") {
  const ScratchFolder folder;
  write_file_atomic(folder / "file", "x");
  std::atomic<int64_t> ended = 0;
  run_grid({2, 2, 2}, [&](const ShardGroups& groups) {
    const HfModel part = part_of(numbered_model(false), groups);
    const auto error = error_of([&] { hf_export(part, folder / "file" / "step-1", {}, groups); });
    if (contains(error, "cannot make the folder")) ++ended;
  });
  CHECK(ended == 8);
}

TEST_CASE("values that float16 cannot hold are saved as infinity whatever the layout") {
  const ScratchFolder folder;
  HfModel model = numbered_model(false);
  model.tensors[0].tensor[2][3] = 1e6;
  hf_export(model, folder / "single", {.dtype = at::kHalf});
  run_grid({2, 2}, [&](const ShardGroups& groups) {
    hf_export(part_of(model, groups), folder / "several", {.dtype = at::kHalf}, groups);
  });
  CHECK((content(folder / "several") == content(folder / "single")));
}

TEST_CASE("ranks save together and a run of another layout goes on from there") {
  const ScratchFolder folder;
  const HfModel model = numbered_model(false);
  const CheckpointManager::Paths paths = {folder / "dump", {}};
  auto config = saving_and_loading();
  config.initial_load_in_hf = false;
  run_grid({3, 2, 2}, [&](const ShardGroups& groups) {
    const CheckpointManager manager(config, paths, groups);
    HfModel part = part_of(model, groups);
    CHECK_FALSE(manager.load(part).has_value());
    CHECK(manager.save_last(10, part));
  });
  std::atomic<int64_t> right = 0;
  run_grid({2, 3}, [&](const ShardGroups& groups) {
    const HfModel part = part_of(small_model(false), groups), expected = part_of(model, groups);
    const auto loaded = CheckpointManager(config, paths, groups).load(part);
    bool same = loaded && loaded->step == 10;
    for (size_t i = 0; i < 3; ++i) same &= at::equal(part.tensors[i].tensor, expected.tensors[i].tensor);
    if (same) ++right;
  });
  CHECK(right == 6);
}

TEST_CASE("a checkpoint folder that cannot be written ends all ranks") {
  const ScratchFolder folder;
  write_file_atomic(folder / "dump", "a file where a folder should be");
  std::atomic<int64_t> ended = 0;
  run_grid({2, 2}, [&](const ShardGroups& groups) {
    const auto error =
        error_of([&] { CheckpointManager(saving_and_loading(), {folder / "dump", {}}, groups); });
    if (contains(error, "checkpoint.folder")) ++ended;
  });
  CHECK(ended == 4);
}

TEST_CASE("a rank that cannot read its weights ends all ranks with its message") {
  const ScratchFolder folder;
  std::filesystem::create_directory(folder / "given");
  save_safetensors(folder / "given" / "model.safetensors", small_weights());
  std::atomic<int64_t> ended = 0;
  run_grid({2, 2}, [&](const ShardGroups& groups) {
    auto config = saving_and_loading();
    const bool lacks_files = groups.shard->index() == 1 && groups.tensor->index() == 1;
    config.initial_load_path = (folder / (lacks_files ? "absent" : "given")).string();
    const CheckpointManager manager(config, {folder / "dump", {}}, groups);
    const HfModel part = part_of(small_model(false), groups);
    if (contains(error_of([&] { manager.load(part); }), (folder / "absent").string() + " does not exist"))
      ++ended;
  });
  CHECK(ended == 4);
}

TEST_CASE(
    "ranks that see different steps of the run are told so, and only the one that writes makes folders") {
  const ScratchFolder folder;
  hf_export(numbered_model(false), folder / "dump" / "checkpoint" / "step-4");
  std::atomic<int64_t> ended = 0;
  run_grid({3, 1}, [&](const ShardGroups& groups) {
    auto config = saving_and_loading();
    config.initial_load_in_hf = false;
    const CheckpointManager::Paths here = {folder / "dump", {}}, elsewhere = {folder / "other", {}};
    const CheckpointManager manager(config, groups.shard->index() == 1 ? elsewhere : here, groups);
    const HfModel part = part_of(small_model(false), groups);
    if (contains(error_of([&] { manager.load(part); }), "see different steps")) ++ended;
  });
  CHECK(ended == 3);
  CHECK_FALSE(std::filesystem::exists(folder / "other"));
}
