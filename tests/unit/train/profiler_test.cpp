#include "titan/train/profiler.h"

#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <doctest/doctest.h>

#include <cstdlib>
#include <map>

#include "tests/unit/checkpoint/checkpoint_files.h"
#include "tests/unit/distributed/thread_ranks.h"
#include "titan/base/json.h"
#include "titan/ops/autograd.h"
#include "titan/ops/profile_range.h"
#include "titan/ops/rms_norm.h"

using namespace titan;
using checkpoint_tests::contains;
using checkpoint_tests::ScratchFolder;

namespace {

ProfilerConfig tracing(int64_t freq, int64_t warmup, int64_t active) {
  ProfilerConfig config;
  config.enable_profiling = true;
  config.profile_freq = freq;
  config.profiler_warmup = warmup;
  config.profiler_active = active;
  return config;
}

/// A forward and a backward with named phases; `name` is the forward's.
void train_a_little(std::string_view name) {
  const at::Tensor weight = at::ones({64, 64}).set_requires_grad(true);
  at::Tensor loss;
  {
    const ProfileRange range(name);
    loss = rms_norm(at::ones({8, 64}).mm(weight), at::ones({64}), 1e-6).sum();
  }
  const ProfileRange range("backward");
  backward(loss);
}

struct Span {
  double begin = 0, end = 0;
  std::string category;
  bool inside(const Span& other) const { return begin >= other.begin && end <= other.end; }
};

/// The first span of each name in a trace.
std::map<std::string, Span> spans_of(const std::filesystem::path& file) {
  std::map<std::string, Span> spans;
  const Json trace = Json::parse_file(file);
  for (const Json& event : trace["traceEvents"].elements()) {
    if (!event.find("dur")) continue;
    const double begin = event["ts"].as_double(), duration = event["dur"].as_double();
    CHECK(duration >= 0);
    spans.emplace(event["name"].as_string(), Span{begin, begin + duration, event["cat"].as_string()});
  }
  return spans;
}

std::filesystem::path trace_of(const ScratchFolder& folder, int64_t step, int64_t rank = 0) {
  return folder / "profiling" / "traces" / format("iteration_{}", step) / format("rank{}_trace.json", rank);
}

}  // namespace

TEST_CASE("a trace names phases and operators, in time order and nested, with shapes") {
  const ScratchFolder folder;
  Profiler profiler(tracing(2, 1, 1), folder.path(), 3);
  train_a_little("forward of step 1");
  profiler.step(1);
  train_a_little("forward of step 2");
  profiler.step(2);
  profiler.finish();
  auto spans = spans_of(trace_of(folder, 2, 3));
  for (const char* name :
       {"ProfilerStep#1", "forward of step 2", "backward", "aten::mm", "titan::rms_norm"}) {
    CAPTURE(name);
    REQUIRE(spans.contains(name));
    CHECK(spans[name].end > spans[name].begin);
  }
  CHECK_FALSE(spans.contains("forward of step 1"));
  CHECK(spans["aten::mm"].inside(spans["forward of step 2"]));
  CHECK(spans["titan::rms_norm"].inside(spans["forward of step 2"]));
  CHECK(spans["forward of step 2"].inside(spans["ProfilerStep#1"]));
  CHECK(spans["backward"].inside(spans["ProfilerStep#1"]));
  CHECK(spans["backward"].begin >= spans["forward of step 2"].end);
  CHECK(spans["forward of step 2"].category == "user_annotation");
  CHECK(spans["titan::rms_norm"].category == "cpu_op");
  CHECK(contains(read_file(trace_of(folder, 2, 3)), R"("Input Dims": [[8, 64], [64, 64]])"));
  CHECK_FALSE(std::filesystem::exists(trace_of(folder, 1, 3).parent_path()));
}

TEST_CASE("a trace names collectives and their group, and how long they are waited for") {
  const ScratchFolder folder;
  Profiler profiler(tracing(1, 0, 1), folder.path(), 0);
  tests::ThreadGroup group(std::make_shared<tests::Meeting>(1), {0}, 0);
  const at::Tensor part = at::ones({4, 2}), whole = at::zeros({4, 2});
  group.all_gather({whole}, {part}).wait();
  group.barrier();
  profiler.step(1);
  const auto spans = spans_of(trace_of(folder, 1));
  for (const char* name :
       {"titan::all_gather (threads)", "titan::wait (threads)", "titan::barrier (threads)"})
    CHECK(spans.contains(name));
}

TEST_CASE("traces follow one another at the reference's steps, and the last may be a part") {
  const ScratchFolder folder;
  Profiler profiler(tracing(4, 1, 2), folder.path(), 0);
  for (int64_t step = 1; step <= 11; ++step) {
    train_a_little(format("forward of step {}", step));
    profiler.step(step);
  }
  profiler.finish();
  profiler.finish();
  const auto traces = folder / "profiling" / "traces";
  CHECK(checkpoint_tests::count_entries(traces) == 3);
  for (const int64_t step : {4, 8}) {
    const auto spans = spans_of(trace_of(folder, step));
    CHECK_FALSE(spans.contains(format("forward of step {}", step - 2)));
    CHECK(spans.contains(format("forward of step {}", step - 1)));
    CHECK(spans.contains(format("forward of step {}", step)));
  }
  const auto part = spans_of(trace_of(folder, 11));
  CHECK(part.contains("forward of step 11"));
  CHECK_FALSE(part.contains("forward of step 10"));
}

TEST_CASE("a run that goes on counts its steps from where it was") {
  const ScratchFolder folder;
  Profiler profiler(tracing(5, 0, 1), folder.path(), 0, 4);
  train_a_little("forward");
  profiler.step(5);
  CHECK(spans_of(trace_of(folder, 5)).contains("forward"));
}

TEST_CASE("a profiler that ends while it warms up or records nothing leaves no trace") {
  const ScratchFolder folder;
  {
    Profiler warming(tracing(3, 2, 1), folder.path(), 0, 1);
  }
  Profiler every_step(tracing(1, 0, 1), folder.path(), 0);
  train_a_little("forward");
  every_step.step(1);
  every_step.finish();
  CHECK(checkpoint_tests::count_entries(folder / "profiling" / "traces") == 1);
  CHECK(spans_of(trace_of(folder, 1)).contains("forward"));
}

TEST_CASE("a profiler that is off does nothing and a folder that cannot be written is named") {
  const ScratchFolder folder;
  ProfilerConfig off = tracing(1, 0, 1);
  off.enable_profiling = false;
  Profiler profiler(off, folder.path(), 0);
  profiler.step(1);
  profiler.finish();
  CHECK(checkpoint_tests::count_entries(folder.path()) == 0);
  write_file_atomic(folder / "file", "x");
  const auto error = checkpoint_tests::error_of([&] { Profiler(tracing(1, 0, 1), folder / "file", 0); });
  CHECK(contains(error, "profiler.save_traces_folder"));
}

TEST_CASE("settings that make no schedule are refused by name, and only while profiling") {
  const auto refusal = [](ProfilerConfig config) -> std::string {
    try {
      config.validate();
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(refusal(tracing(4, 3, 1)) == "");
  const auto error = refusal(tracing(3, 3, 1));
  CHECK(contains(error, "profiler.profile_freq 3"));
  CHECK(contains(error, "profiler.profiler_warmup 3"));
  CHECK(contains(error, "profiler.profiler_active 1"));
  CHECK(contains(refusal(tracing(4, -1, 1)), "profiler.profiler_warmup must be 0 or more (given: -1)"));
  CHECK(contains(refusal(tracing(4, 1, 0)), "profiler.profiler_active must be 1 or more"));
  ProfilerConfig config = tracing(4, 1, 1);
  config.profiler_repeat = -2;
  CHECK(contains(refusal(config), "profiler.profiler_repeat"));
  config.profiler_repeat = {};
  config.profiler_skip_first = -1;
  CHECK(contains(refusal(config), "profiler.profiler_skip_first"));
  config.enable_profiling = false;
  CHECK(refusal(config) == "");
}

// Driven by tests/oracle/profiler_test.py: the settings come from schedules.json, the actions go to
// actions.json.
TEST_CASE("schedules pass through" * doctest::skip()) {
  const char* folder = std::getenv("TITAN_EXCHANGE_FOLDER");
  REQUIRE(folder != nullptr);
  const auto path = std::filesystem::path(folder);
  const Json schedules = Json::parse_file(path / "schedules.json");
  Json all = Json::array();
  for (const Json& row : schedules.elements()) {
    ProfilerConfig config = tracing(row["profile_freq"].as_int(), row["profiler_warmup"].as_int(),
                                    row["profiler_active"].as_int());
    if (const Json* value = row.find("profiler_repeat")) config.profiler_repeat = value->as_int();
    if (const Json* value = row.find("profiler_skip_first")) config.profiler_skip_first = value->as_int();
    if (const Json* value = row.find("profiler_skip_first_wait"))
      config.profiler_skip_first_wait = value->as_int();
    config.validate();
    Json actions = Json::array();
    for (int64_t step = 0; step < 60; ++step) {
      actions.push_back(static_cast<int64_t>(profiler_action(config, step)));
    }
    all.push_back(std::move(actions));
  }
  write_file_atomic(path / "actions.json", all.dump());
}
