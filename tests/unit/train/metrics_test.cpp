#include "titan/train/metrics.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "titan/base/error.h"
#include "titan/base/file.h"
#include "titan/base/json.h"
#include "titan/base/strings.h"

namespace titan {
namespace {

namespace fs = std::filesystem;

struct Folder {
  fs::path path;
  explicit Folder(const std::string& name) : path(fs::temp_directory_path() / ("titan_metrics_" + name)) {
    fs::remove_all(path);
  }
  ~Folder() { fs::remove_all(path); }
};

World& alone() {
  static World world(Launch{}, ParallelDims{}, std::chrono::seconds(1));
  return world;
}

MetricsContext context(const fs::path& folder) {
  return {.dump_folder = folder,
          .device = device_info("cpu"),
          .peak = {.flops = 1e12, .source = "test"},
          .flops_per_token = 1000,
          .world = &alone()};
}

std::vector<Json> lines_of(const fs::path& path) {
  std::vector<Json> lines;
  for (const std::string& line : split(read_file(path), '\n')) {
    if (!line.empty()) lines.push_back(Json::parse(line, path.string()));
  }
  return lines;
}

MetricsConfig config() {
  MetricsConfig config;
  config.enable_jsonl = true;
  return config;
}

StepResult result(int64_t step) {
  return {.step = step, .avg_loss = 2.5, .max_loss = 2.75, .grad_norm = 1.25, .tokens_seen = 100 * step};
}

}  // namespace

TEST_CASE("Step 1 and the multiples of log_freq are logged") {
  const Folder folder("freq");
  MetricsConfig every_three;
  every_three.log_freq = 3;
  const MetricsProcessor metrics(every_three, context(folder.path));
  std::vector<int64_t> logged;
  for (int64_t step = 1; step <= 9; ++step) {
    if (metrics.should_log(step)) logged.push_back(step);
  }
  CHECK(logged == std::vector<int64_t>{1, 3, 6, 9});
}

TEST_CASE("Nothing is written that is not asked for") {
  const Folder folder("quiet");
  MetricsProcessor metrics(MetricsConfig{}, context(folder.path));
  metrics.add_batch(0.0, 10);
  metrics.count_step(1);
  metrics.log_step(result(1), {});
  CHECK_FALSE(fs::exists(folder.path));
}

TEST_CASE("The JSON-lines file has one object a logged step with every tag of the reference") {
  const Folder folder("tags");
  MetricsProcessor metrics(config(), context(folder.path));
  const std::vector<Scalar> rates = {{"lr/AdamW", 1e-3}};
  for (const int64_t step : {1, 10}) {
    metrics.add_batch(0.001, 50);
    metrics.count_step(step);
    metrics.log_step(result(step), rates);
  }
  const auto lines = lines_of(folder.path / "metrics.jsonl");
  REQUIRE(lines.size() == 2);
  CHECK(lines[0]["step"].as_int() == 1);
  CHECK(lines[1]["step"].as_int() == 10);
  CHECK(lines[1]["time"].as_double() > 1.6e9);
  for (const char* tag :
       {"loss_metrics/global_avg_loss", "loss_metrics/global_max_loss", "grad_norm", "throughput(tps)",
        "tflops", "mfu(%)", "time_metrics/end_to_end(s)", "time_metrics/data_loading(s)",
        "time_metrics/data_loading(%)", "memory/max_active(GiB)", "memory/max_active(%)",
        "memory/max_reserved(GiB)", "memory/max_reserved(%)", "memory/num_alloc_retries", "memory/num_ooms",
        "n_tokens_seen", "lr/AdamW"}) {
    CHECK_MESSAGE(lines[1].find(tag) != nullptr, tag);
  }
  CHECK(lines[1]["loss_metrics/global_avg_loss"].as_double() == 2.5);
  CHECK(lines[1]["loss_metrics/global_max_loss"].as_double() == 2.75);
  CHECK(lines[1]["n_tokens_seen"].as_double() == 1000);
  CHECK(lines[1]["lr/AdamW"].as_double() == 1e-3);
}

TEST_CASE("Rates follow the reference's formulas over the steps that the window really holds") {
  const Folder folder("rates");
  MetricsProcessor metrics(config(), context(folder.path));
  metrics.add_batch(0.0, 1);
  metrics.count_step(1);
  metrics.log_step(result(1), {});
  for (int i = 0; i < 2; ++i) {
    metrics.add_batch(0.01, 500);
    metrics.add_batch(0.03, 500);
    metrics.count_step(1);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  metrics.log_step(result(10), {});
  const Json line = lines_of(folder.path / "metrics.jsonl").at(1);
  const double step_seconds = line["time_metrics/end_to_end(s)"].as_double();
  const double tps = line["throughput(tps)"].as_double();
  CHECK(step_seconds >= 0.05);
  CHECK(tps == doctest::Approx(2000 / (2 * step_seconds)));
  CHECK(line["tflops"].as_double() == doctest::Approx(1000 * tps / 1e12));
  CHECK(line["mfu(%)"].as_double() == doctest::Approx(100 * 1000 * tps / 1e12));
  CHECK(line["time_metrics/data_loading(s)"].as_double() == doctest::Approx(0.02));
  CHECK(line["time_metrics/data_loading(%)"].as_double() == doctest::Approx(100 * 0.08 / (2 * step_seconds)));
}

TEST_CASE("Validation writes its own tags, and its time is not training's") {
  const Folder folder("validation");
  const auto start = std::chrono::steady_clock::now();
  MetricsProcessor metrics(config(), context(folder.path));
  metrics.add_batch(0.0, 1000);
  metrics.count_step(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  metrics.log_validation(1, 3.5, 200, 0.05);
  metrics.log_step(result(1), {});
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  const auto lines = lines_of(folder.path / "metrics.jsonl");
  REQUIRE(lines.size() == 2);
  CHECK(lines[0]["validation_metrics/loss"].as_double() == 3.5);
  CHECK(lines[0]["validation_metrics/throughput(tps)"].as_double() == doctest::Approx(4000));
  CHECK(lines[0].find("validation_metrics/memory/max_reserved(GiB)") != nullptr);
  CHECK(lines[0].find("grad_norm") == nullptr);
  const double window = 1000 / lines[1]["throughput(tps)"].as_double();
  CHECK(window <= elapsed.count() - 0.05 + 1e-6);
}

TEST_CASE("A second run appends to the JSON-lines file") {
  const Folder folder("append");
  for (int run = 0; run < 2; ++run) {
    MetricsProcessor metrics(config(), context(folder.path));
    metrics.log_step(result(1), {});
  }
  CHECK(lines_of(folder.path / "metrics.jsonl").size() == 2);
}

TEST_CASE("The TensorBoard folder is tb/YYYYMMDD-HHMM under dump_folder") {
  const Folder folder("tb");
  MetricsConfig with_tensorboard;
  with_tensorboard.enable_tensorboard = true;
  MetricsProcessor metrics(with_tensorboard, context(folder.path));
  std::vector<std::string> runs;
  for (const auto& entry : fs::directory_iterator(folder.path / "tb"))
    runs.push_back(entry.path().filename());
  REQUIRE(runs.size() == 1);
  CHECK(std::regex_match(runs[0], std::regex("\\d{8}-\\d{4}")));
}

TEST_CASE("A file in the way of the metrics is an error that names it") {
  const Folder folder("blocked");
  fs::create_directories(folder.path);
  write_file_atomic(folder.path / "out", "in the way");
  CHECK_THROWS_WITH_AS(MetricsProcessor(config(), context(folder.path / "out")),
                       doctest::Contains("--dump_folder"), ValueError);
}

}  // namespace titan
