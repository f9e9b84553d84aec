#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tests/unit/nki/hand_made.h"
#include "titan/base/error.h"
#include "titan/nki.h"
#include "titan/nki/cost.h"

namespace titan::nki {
namespace {

namespace nl = titan::nki::language;
namespace nisa = titan::nki::isa;
using namespace titan::nki::testing;
using enum Dtype;

/// Relative: a time in seconds is small beside doctest's absolute tolerance.
doctest::Approx about(double seconds) { return doctest::Approx(seconds).epsilon(1e-9).scale(0); }

// trn2: VectorE 0.96 GHz and 100 cycles until a result is there, ScalarE 1.2 GHz and 60.
constexpr double kVectorCycle = 1 / 0.96e9, kScalarCycle = 1 / 1.2e9, kTensorCycle = 1 / 2.4e9;
constexpr double kQueueRate = 23e9, kDma = 1.3e-6;

Instruction copy(Engine engine, const Tensor& dst, const Tensor& src) {
  return make(engine, dst, {src}, TensorCopy{});
}
Instruction load(const Tensor& dst, const Tensor& src) { return make(Engine::dma, dst, {src}, DmaCopy{}); }
Instruction barrier(const Tensor& data) { return make(Engine::gpsimd, {}, {data}, CoreBarrier{}); }

/// Float32 [128, 960] of SBUF: a place for each `slot`.
Tensor tile(int64_t slot) { return sbuf(128, 960, float32, {0, slot * 960 * 4}); }

std::vector<Span> spans_of(std::vector<Instruction> instructions) {
  return predict(run_of({std::move(instructions)})).cores[0].spans;
}

TEST_CASE("independent engines run beside one another, each in program order") {
  const std::vector<Span> spans =
      spans_of({copy(Engine::vector, tile(0), tile(1)), copy(Engine::scalar, tile(2), tile(3)),
                copy(Engine::vector, tile(4), tile(5))});
  CHECK(spans[0].begin == 0);
  CHECK(spans[0].end == about(1e-6));  // 960 cycles at 0.96 GHz
  CHECK(spans[1].begin == 0);
  CHECK(spans[1].end == about(0.8e-6));
  CHECK(spans[2].begin == about(1e-6));  // no dependency: at once
  CHECK(spans[2].end == about(2e-6));
}

TEST_CASE("a reader waits for the result's latency, an overwriter for the readers only") {
  const std::vector<Span> spans = spans_of({
      copy(Engine::vector, tile(1), tile(0)),
      copy(Engine::scalar, tile(2), tile(1)),  // reads what VectorE wrote
      copy(Engine::vector, tile(3), tile(1)),  // VectorE itself waits as long
      copy(Engine::gpsimd, tile(1), tile(4)),  // overwrites what both have read
      copy(Engine::scalar, tile(4), tile(5)),  // overwrites what GpSimdE reads until its end
      copy(Engine::scalar, tile(3), tile(5)),  // overwrites what VectorE wrote
  });
  const double written = 1e-6 + 100 * kVectorCycle;
  CHECK(spans[1].begin == about(written));
  CHECK(spans[1].end == about(written + 0.8e-6));
  CHECK(spans[2].begin == about(written));
  CHECK(spans[3].begin == about(spans[2].end));  // the later one of the readers
  CHECK(spans[4].begin == about(spans[3].end));
  CHECK(spans[5].begin == about(spans[4].end));  // the order of its engine; VectorE was through long ago
}

TEST_CASE("what overlaps in bytes and partitions depends, what only touches does not") {
  const auto second_begins = [](const Tensor& written, const Tensor& read) {
    const int64_t n = read.free_size();
    return spans_of({copy(Engine::vector, written,
                          sbuf(written.partitions(), written.free_size(), float32, {0, 100000})),
                     copy(Engine::scalar, sbuf(read.partitions(), n, float32, {0, 150000}), read)})[1]
        .begin;
  };
  const Tensor whole = sbuf(128, 960, float32);
  CHECK(second_begins(whole, sbuf(32, 8, float32, {96, 3832})) > 0);  // the last corner
  CHECK(second_begins(whole, sbuf(32, 8, float32, {96, 3840})) == 0);
  CHECK(second_begins(sbuf(64, 960, float32), sbuf(64, 960, float32, {64, 0})) == 0);
  CHECK(second_begins(sbuf(64, 960, float32), sbuf(128, 960, float32)) > 0);
  // Other dtype at the same address: the same bytes.
  CHECK(second_begins(whole, sbuf(128, 8, float8_e4m3, {0, 3839 - 7})) > 0);
  // Every other column: the ones between are free.
  CHECK(second_begins(columns(whole, 0, 100, 2), columns(whole, 1, 100, 2)) == 0);
  CHECK(second_begins(columns(whole, 0, 100, 2), columns(whole, 2, 1)) > 0);
  // PSUM has addresses of its own.
  CHECK(second_begins(whole, psum(128, 8, float32)) == 0);
}

TEST_CASE("a write hides the ones before it only where it covers them") {
  const std::vector<Span> spans = spans_of({
      copy(Engine::vector, tile(0), tile(5)),                                            // ends at 1.0 us
      copy(Engine::scalar, sbuf(128, 64, float32), sbuf(128, 64, float32, {0, 50000})),  // over its begin
      copy(Engine::gpsimd, columns(tile(6), 0, 64), columns(tile(0), 64, 64)),           // reads the rest
      copy(Engine::gpsimd, columns(tile(6), 64, 64), columns(tile(0), 0, 64)),
  });
  CHECK(spans[2].begin == about(1e-6 + 100 * kVectorCycle));
  CHECK(spans[3].begin == about(spans[1].end + 60 * kScalarCycle));

  const std::vector<Span> halves = spans_of({
      copy(Engine::vector, tile(0), tile(5)),
      copy(Engine::scalar, sbuf(64, 960, float32), sbuf(64, 960, float32, {0, 50000})),
      copy(Engine::gpsimd, sbuf(64, 960, float32, {64, 50000}), sbuf(64, 960, float32, {64, 0})),
  });
  CHECK(halves[2].begin == about(1e-6 + 100 * kVectorCycle));  // the other partitions
}

TEST_CASE("matmuls accumulate without waiting, after loading their weights") {
  const auto matmul = [](const Tensor& dst) {
    return make(Engine::tensor, dst, {sbuf(128, 128, bfloat16), sbuf(128, 512, bfloat16, {0, 1024})},
                Matmul{});
  };
  const Tensor acc = psum(128, 512, float32);
  const std::vector<Span> spans =
      spans_of({matmul(acc), matmul(acc), copy(Engine::vector, sbuf(128, 512, float32, {0, 8192}), acc)});
  CHECK(spans[0].end == about((32 + 512) * kTensorCycle));
  CHECK(spans[1].begin == about(spans[0].end));
  CHECK(spans[2].begin == about(spans[1].end + 60 * kTensorCycle));
}

TEST_CASE("a DMA is spread over the queues by its rows and complete after its latency") {
  const Tensor dst = sbuf(128, 1024, bfloat16);
  const Prediction prediction =
      predict(run_of({{load(dst, hbm(128, 1024, bfloat16)), copy(Engine::scalar, tile(9), tile(0))}}));
  const std::vector<Span>& spans = prediction.cores[0].spans;
  REQUIRE(spans.size() == 17);
  const double seconds = 128 * 2048 / (16 * kQueueRate);
  for (int64_t queue = 0; queue < 16; ++queue) {
    CHECK(spans[static_cast<size_t>(queue)].queue == queue);
    CHECK(spans[static_cast<size_t>(queue)].end == about(seconds));
  }
  CHECK(spans[16].begin == about(seconds + kDma));

  // One row takes one queue, the next row the next queue: beside one another.
  const std::vector<Span> rows = spans_of({load(sbuf(1, 2300, bfloat16), hbm(1, 2300, bfloat16)),
                                           load(sbuf(1, 2300, bfloat16, {1, 0}), hbm(1, 2300, bfloat16))});
  CHECK(rows.size() == 2);
  CHECK(rows[1].queue == 1);
  CHECK(rows[1].begin == 0);
  CHECK(rows[1].end == about(4600 / kQueueRate));

  // A transpose goes at half the rate.
  const std::vector<Span> transposed = spans_of({make(
      Engine::dma, sbuf(128, 1024, bfloat16), {hbm(1024, 128, bfloat16)}, DmaTranspose{.axes = {1, 0}})});
  CHECK(transposed[0].end == about(2 * seconds));
}

TEST_CASE("queues share their time: seventeen rows need one queue twice") {
  std::vector<Instruction> loads;
  for (int64_t row = 0; row < 17; ++row)
    loads.push_back(load(sbuf(1, 2300, bfloat16, {row, 0}), hbm(1, 2300, bfloat16)));
  const std::vector<Span> spans = spans_of(loads);
  CHECK(spans[16].queue == 0);
  CHECK(spans[16].begin == about(spans[0].end));
}

TEST_CASE("a transfer that waits for its operands holds up no other, which fills the gap before it") {
  const Tensor out = hbm(128, 960, float32);
  const std::vector<Span> spans =
      spans_of({copy(Engine::vector, tile(0), tile(1)), load(out, tile(0)),  // waits for VectorE
                load(tile(2), hbm(128, 960, float32))});
  CHECK(spans[1].begin == about(1e-6 + 100 * kVectorCycle));
  CHECK(spans[17].begin == 0);
  // 480 KiB are 1.34 us: longer than the gap, so the rest follows the first transfer.
  const double seconds = 128 * 3840 / (16 * kQueueRate);
  double busy = 0;
  for (size_t i = 17; i < spans.size(); ++i) busy += spans[i].end - spans[i].begin;
  CHECK(busy == about(16 * seconds));
  CHECK(spans.back().end ==
        about(2 * seconds + spans[1].begin - (seconds - (spans.back().end - spans.back().begin))));
}

/// `count` blocks that are loaded into `buffers` places in turn and then worked on.
double seconds_with_buffers(int64_t count, int64_t buffers) {
  std::vector<Instruction> instructions;
  for (int64_t i = 0; i < count; ++i) {
    instructions.push_back(load(tile(i % buffers), hbm(128, 960, float32)));
    instructions.push_back(copy(Engine::vector, tile(10), tile(i % buffers)));
  }
  return predict(run_of({instructions})).seconds;
}

TEST_CASE("a second buffer hides loads behind the work") {
  const double transfer = 128 * 3840 / (16 * kQueueRate), work = 1e-6;
  CHECK(seconds_with_buffers(20, 1) == about(20 * (transfer + kDma + work) + 100 * kVectorCycle));
  const double two = seconds_with_buffers(20, 2), four = seconds_with_buffers(20, 4);
  CHECK(two < 0.55 * seconds_with_buffers(20, 1));
  CHECK(four == about(20 * transfer + kDma + work + 100 * kVectorCycle));  // the queues never stop
}

TEST_CASE("barriers join the cores, and order what they are over") {
  const Tensor data = hbm(128, 960, float32);
  const std::vector<Instruction> early = {barrier(data), load(tile(0), data)};
  const std::vector<Instruction> late = {copy(Engine::vector, tile(0), tile(1)), load(data, tile(0)),
                                         barrier(data), copy(Engine::scalar, tile(3), tile(4))};
  const Prediction prediction = predict(run_of({early, late}));
  const double transfer = 128 * 3840 / (16 * kQueueRate);
  const double stored = 1e-6 + 100 * kVectorCycle + transfer + kDma;
  CHECK(prediction.cores[0].spans[0].begin == 0);  // waits
  CHECK(prediction.cores[0].spans[0].end == about(stored));
  CHECK(prediction.cores[0].spans[1].begin == about(stored));
  CHECK(prediction.cores[1].spans[17].end == about(stored));
  CHECK(prediction.cores[1].spans[18].begin == 0);  // ScalarE has nothing to do with it
  CHECK(prediction.seconds == about(stored + transfer + kDma));
}

TEST_CASE("a sendrecv begins when both cores are there") {
  const auto swap = [](int64_t peer) {
    return make(Engine::dma, tile(1), {tile(0)}, SendRecv{.send_to = peer, .receive_from = peer});
  };
  const Prediction prediction =
      predict(run_of({{swap(1)}, {copy(Engine::vector, tile(0), tile(4)), swap(0)}}));
  CHECK(prediction.cores[0].spans[0].begin == about(1e-6 + 100 * kVectorCycle));
}

/// C = At' B of [2048, 2048] bfloat16, each core its share of C's columns, by tiles of 128 x 128 x 512. At
/// and a block of B's columns stay in SBUF; four banks of PSUM follow the loads while four are copied out.
Tensor tiled_matmul(Tensor at, Tensor b) {
  const int64_t size = 2048, share = size / nl::num_programs(), first = nl::program_id() * share;
  const Tensor c = nl::ndarray({size, size}, bfloat16, nl::shared_hbm);
  std::vector<Tensor> at_tiles, b_tiles, banks, outs;
  for (int64_t k = 0; k < 16; ++k) {
    at_tiles.push_back(nl::ndarray({128, size}, bfloat16));
    b_tiles.push_back(nl::ndarray({128, share}, bfloat16));
  }
  for (int64_t i = 0; i < 8; ++i) {
    banks.push_back(nl::ndarray({128, 512}, float32, nl::psum));
    outs.push_back(nl::ndarray({128, 512}, bfloat16));
  }
  const auto load_b = [&](int64_t k, int64_t j) {
    nisa::dma_copy(b_tiles[static_cast<size_t>(k)](all, ds(j, 512)), b(ds(k * 128, 128), ds(first + j, 512)));
  };
  for (int64_t k = 0; k < 16; ++k) {
    nisa::dma_copy(at_tiles[static_cast<size_t>(k)], at(ds(k * 128, 128)));
    load_b(k, 0);
  }
  for (int64_t j = 512; j < share; j += 512)
    for (int64_t k = 0; k < 16; ++k) load_b(k, j);
  for (int64_t j = 0; j < share; j += 512)
    for (int64_t m = 0; m < 16; m += 4) {
      const auto slot = [&](int64_t i) { return static_cast<size_t>((m + i) % 8); };
      for (size_t k = 0; k < 16; ++k)
        for (int64_t i = 0; i < 4; ++i)
          nisa::nc_matmul(banks[slot(i)], at_tiles[k](all, ds((m + i) * 128, 128)),
                          b_tiles[k](all, ds(j, 512)), {.accumulate = k > 0});
      for (int64_t i = 0; i < 4; ++i) {
        nisa::tensor_copy(outs[slot(i)], banks[slot(i)],
                          {.engine = i % 2 == 0 ? Engine::vector : Engine::scalar});
        nisa::dma_copy(c(ds((m + i) * 128, 128), ds(first + j, 512)), outs[slot(i)]);
      }
    }
  if (nl::num_programs() == 2) nisa::core_barrier(c);
  return c;
}

Prediction predict_tiled_matmul(int64_t lnc) {
  const Tensor at = host_tensor("at", {2048, 2048}, bfloat16, nullptr, nullptr);
  const Tensor b = host_tensor("b", {2048, 2048}, bfloat16, nullptr, nullptr);
  KernelRun record;
  simulate(tiled_matmul)[lnc].with({.mode = RunMode::shapes}).run(&record, at, b);
  return predict(record);
}

TEST_CASE("a tiled matmul of 2048 cubed is predicted within 8 % of its published time on one trn2 core") {
  const double seconds = predict_tiled_matmul(1).seconds;
  CAPTURE(seconds);
  CHECK(std::abs(seconds / 244.2e-6 - 1) < 0.08);
  CHECK(seconds > 1024 * (512 + 32) * kTensorCycle);  // what TensorE loads and multiplies for
}

TEST_CASE("two cores halve a sharded kernel's time but for its barrier") {
  const double whole = predict_tiled_matmul(1).seconds;
  const Prediction shared = predict_tiled_matmul(2);
  CAPTURE(whole);
  CAPTURE(shared.seconds);
  CHECK(shared.seconds < 0.56 * whole);  // both load all of At first
  CHECK(shared.seconds > 0.5 * whole);
  CHECK(shared.cores[0].seconds == about(shared.cores[1].seconds));
}

TEST_CASE("a hundred thousand instructions keep the interval maps small") {
  std::vector<Instruction> program;
  for (int64_t i = 0; i < 100'000; ++i) {
    const Tensor a = sbuf(128, 64, float32, {0, i % 700 * 256}),
                 b = sbuf(32, 16, float32, {32, i % 2800 * 64});
    program.push_back(
        copy(i % 2 == 0 ? Engine::vector : Engine::scalar, i % 3 == 0 ? a : b, i % 3 == 1 ? a : b));
  }
  CHECK(predict(run_of({program})).cores[0].spans.size() == 100'000);
}

TEST_CASE("a run without a record cannot be predicted") {
  KernelRun run = run_of({{}});
  run.cores[0].num_instructions = 3;
  CHECK_THROWS_AS(predict(run), ValueError);
}

}  // namespace
}  // namespace titan::nki
