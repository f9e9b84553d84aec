#include "titan/checkpoint/manager.h"

#include <ATen/ops/equal.h>
#include <doctest/doctest.h>

#include "tests/unit/checkpoint/checkpoint_files.h"
#include "tests/unit/checkpoint/hf_models.h"

using namespace titan;
using namespace titan::checkpoint_tests;

namespace {

CheckpointConfig saving_config() {
  CheckpointConfig config;
  config.enable = true;
  config.last_save_in_hf = true;
  return config;
}

CheckpointManager::Paths paths_in(const ScratchFolder& folder) {
  return {folder / "dump", folder / "assets"};
}

void save_assets(const ScratchFolder& folder, std::string_view name = "assets") {
  std::filesystem::create_directories(folder / name);
  save_safetensors(folder / name / "model.safetensors", small_weights());
}

}  // namespace

TEST_CASE("a run without a checkpoint is a fresh start") {
  const ScratchFolder folder;
  const HfModel model = small_model(false);
  CHECK_FALSE(CheckpointManager(saving_config(), paths_in(folder)).load(model).has_value());
  CHECK(std::filesystem::is_directory(folder / "dump" / "checkpoint"));
  const CheckpointManager off(CheckpointConfig{}, {folder / "other", {}});
  CHECK_FALSE(off.load(model).has_value());
  CHECK_FALSE(off.save_last(1, model));
  CHECK(off.folders_with_config().empty());
  CHECK_FALSE(std::filesystem::exists(folder / "other"));
}

TEST_CASE("an initial load takes the path, else the assets, and names what is not there") {
  const ScratchFolder folder;
  save_assets(folder, "given");
  auto config = saving_config();
  config.initial_load_in_hf = true;
  CHECK(contains(error_of([&] { CheckpointManager(config, paths_in(folder)).load(small_model(false)); }),
                 "--hf_assets_path " + (folder / "assets").string() + " does not exist"));

  save_assets(folder);
  const HfModel model = small_model(false);
  auto loaded = CheckpointManager(config, paths_in(folder)).load(model);
  REQUIRE(loaded.has_value());
  CHECK(loaded->step == 0);
  CHECK(loaded->path == folder / "assets");
  CHECK(at::equal(model.tensors[0].tensor, numbers({kVocab, kDim}, 1)));

  config.initial_load_path = (folder / "given").string();
  loaded = CheckpointManager(config, paths_in(folder)).load(model);
  CHECK(loaded->path == folder / "given");
  CHECK(CheckpointManager(config, paths_in(folder)).folders_with_config() ==
        std::vector<std::filesystem::path>{folder / "given", folder / "assets"});

  config.initial_load_path = (folder / "absent").string();
  CHECK(contains(error_of([&] { CheckpointManager(config, paths_in(folder)).load(model); }),
                 "--checkpoint.initial_load_path " + (folder / "absent").string() + " does not exist"));
}

TEST_CASE("a run that finds its own last step goes on from its weights and number") {
  const ScratchFolder folder;
  HfModel model = small_model(false);
  model.tensors[1].tensor.fill_(3);
  CHECK(CheckpointManager(saving_config(), paths_in(folder)).save_last(10, model));
  model.tensors[1].tensor.fill_(4);
  CHECK(CheckpointManager(saving_config(), paths_in(folder)).save_last(20, model));

  auto config = saving_config();
  config.initial_load_in_hf = true;
  const HfModel restarted = small_model(false);
  const CheckpointManager manager(config, paths_in(folder));
  const auto loaded = manager.load(restarted);
  REQUIRE(loaded.has_value());
  CHECK(loaded->step == 20);
  CHECK(at::equal(restarted.tensors[1].tensor, model.tensors[1].tensor));
  CHECK(manager.folders_with_config().front() == folder / "dump" / "checkpoint" / "step-20");
}

TEST_CASE("the last save writes step-N in the export dtype and load_only saves nothing") {
  const ScratchFolder folder;
  auto config = saving_config();
  config.export_dtype = ExportDtype::bfloat16;
  config.folder = "weights";
  CHECK(CheckpointManager(config, paths_in(folder)).save_last(7, small_model(true)));
  const auto written = load_safetensors(folder / "dump" / "weights" / "step-7" / "model.safetensors");
  CHECK((written.at("model.embed_tokens.weight").scalar_type() == at::kBFloat16));
  CHECK(written.size() == 2);

  config.export_tied_head = true;
  config.export_dtype = ExportDtype::float16;
  CHECK(CheckpointManager(config, paths_in(folder)).save_last(7, small_model(true)));
  const auto again = load_safetensors(folder / "dump" / "weights" / "step-7" / "model.safetensors");
  CHECK((again.at("lm_head.weight").scalar_type() == at::kHalf));

  config.load_only = true;
  config.folder = "nothing";
  CHECK_FALSE(CheckpointManager(config, paths_in(folder)).save_last(7, small_model(true)));
  CHECK_FALSE(std::filesystem::exists(folder / "dump" / "nothing"));
}

TEST_CASE("a native checkpoint in the run's folder is refused as not built yet") {
  const ScratchFolder folder;
  std::filesystem::create_directories(folder / "dump" / "checkpoint" / "step-5");
  write_file_atomic(folder / "dump" / "checkpoint" / "step-5" / ".metadata", "x");
  CHECK(contains(
      error_of([&] { CheckpointManager(saving_config(), paths_in(folder)).load(small_model(true)); }),
      "step-5 is a native checkpoint, which is not built yet"));
}

TEST_CASE("a folder that cannot be written is found before training") {
  const ScratchFolder folder;
  write_file_atomic(folder / "dump", "a file where a folder should be");
  const auto error = error_of([&] { CheckpointManager manager(saving_config(), paths_in(folder)); });
  CHECK(contains(error, "checkpoint.folder"));
  CHECK(contains(error, (folder / "dump").string()));
}
