#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/unit/nki/hand_made.h"
#include "titan/base/json.h"
#include "titan/nki/cost.h"

namespace titan::nki {
namespace {

using namespace titan::nki::testing;
using enum Dtype;

/// Microseconds, relative.
doctest::Approx about(double time) { return doctest::Approx(time).epsilon(1e-9).scale(0); }

KernelRun small_run() {
  const Tensor data = hbm(128, 960, float32);
  const Tensor a = sbuf(128, 960, float32), b = sbuf(128, 960, float32, {0, 8192});
  const std::vector<Instruction> program = {make(Engine::dma, a, {data}, DmaCopy{}),
                                            make(Engine::vector, b, {a}, TensorCopy{}),
                                            make(Engine::gpsimd, {}, {data}, CoreBarrier{})};
  std::vector<Instruction> later = program;  // core 0 waits at the barrier for another load of core 1
  later.insert(later.begin() + 2, make(Engine::dma, sbuf(128, 960, float32, {0, 16384}), {data}, DmaCopy{}));
  KernelRun run = run_of({program, later});
  run.cores[0].peak_sbuf_bytes = 12032;
  run.cores[1].peak_psum_bytes = 2048;
  return run;
}

TEST_CASE("the trace is JSON with a process per core, a thread per engine and queue, and microseconds") {
  const KernelRun run = small_run();
  const Prediction prediction = predict(run);
  const Json trace = Json::parse(chrome_trace(run, prediction), "trace");
  std::map<std::pair<int64_t, int64_t>, std::string> threads;
  std::map<int64_t, std::string> processes;
  std::set<std::pair<int64_t, int64_t>> queues;
  int64_t spans = 0;
  for (const Json& event : trace["traceEvents"].elements()) {
    const int64_t process = event["pid"].as_int(), thread = event["tid"].as_int();
    if (event["ph"].as_string() == "M") {
      const std::string name = event["args"]["name"].as_string();
      if (event["name"].as_string() == "process_name") processes[process] = name;
      if (event["name"].as_string() == "thread_name") threads[{process, thread}] = name;
      continue;
    }
    ++spans;
    REQUIRE(event["ph"].as_string() == "X");
    const std::string& name = event["name"].as_string();
    const std::string& where = threads[{process, thread}];
    if (name == "dma_copy") {
      CHECK(where.starts_with("dma queue "));
      queues.insert({process, thread});
      CHECK(event["args"]["bytes"].as_int() == 128 * 3840);
      CHECK(event["args"]["cycles"].as_double() == 0);
    } else if (name == "tensor_copy") {
      CHECK(where == "vector");
      CHECK(event["dur"].as_double() == about(1));
      CHECK(event["ts"].as_double() == about(1e6 * prediction.cores[0].spans[16].begin));
      CHECK(event["args"]["cycles"].as_double() == 960);
      CHECK(event["args"]["instruction"].as_string().find("sbuf[128, 960] float32") != std::string::npos);
      CHECK(event["args"]["line"].as_string().find("hand_made.h:") != std::string::npos);
    } else {
      CHECK(name == "core_barrier");
      CHECK(where == "gpsimd");
    }
  }
  CHECK(processes == std::map<int64_t, std::string>{{0, "NeuronCore 0"}, {1, "NeuronCore 1"}});
  CHECK(spans == 3 * 16 + 2 * (1 + 1));
  CHECK(queues.size() == 2 * 16);
  // No lane that is empty: 16 queues, VectorE and GpSimdE of each core.
  CHECK(threads.size() == 2 * (16 + 2));
}

TEST_CASE("spans of one thread do not overlap") {
  const KernelRun run = small_run();
  const Prediction prediction = predict(run);
  std::map<std::pair<Engine, int64_t>, std::vector<std::pair<double, double>>> threads;
  for (const Span& span : prediction.cores[0].spans)
    threads[{span.engine, span.queue}].emplace_back(span.begin, span.end);
  for (auto& [thread, spans] : threads) {
    std::sort(spans.begin(), spans.end());
    for (size_t i = 1; i < spans.size(); ++i) CHECK(spans[i - 1].second <= spans[i].first);
  }
}

TEST_CASE("the table has busy times, shares, bytes and peaks of each core") {
  const KernelRun run = small_run();
  Prediction prediction = predict(run);
  const std::string table = engine_table(run, prediction);
  CAPTURE(table);
  CHECK(table.find("core 0: ") != std::string::npos);
  CHECK(table.find("core 1: ") != std::string::npos);
  CHECK(table.find("  vector              1.00") != std::string::npos);
  CHECK(table.find("  dma                 1.34") != std::string::npos);
  const std::string first = table.substr(0, table.find("core 1: "));
  CHECK(first.find("  gpsimd              0.00    0.0 %") != std::string::npos);  // waiting is not work
  CHECK(table.find("dma bytes 491,520, peak SBUF 12,032 and PSUM 0 bytes a partition") != std::string::npos);
  CHECK(table.find("PSUM 2,048") != std::string::npos);
  CHECK(table.find("scalar") == std::string::npos);  // unused
}

}  // namespace
}  // namespace titan::nki
