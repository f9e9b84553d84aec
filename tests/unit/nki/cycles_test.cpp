#include <doctest/doctest.h>

#include "tests/unit/nki/hand_made.h"
#include "titan/nki/cost.h"

namespace titan::nki {
namespace {

using namespace titan::nki::testing;
using enum Dtype;

double cycles(const Instruction& instruction) { return busy_cycles(instruction, Generation::trn2); }

/// An instruction from SBUF to SBUF over `free` elements a partition.
Instruction over(Engine engine, int64_t free, Attributes attributes, Dtype from = float32, Dtype to = float32,
                 int64_t num_sources = 1) {
  return make(engine, sbuf(128, free, to),
              std::vector<Tensor>(static_cast<size_t>(num_sources), sbuf(128, free, from)),
              std::move(attributes));
}

Instruction matmul(int64_t m, int64_t n, Dtype dtype, Matmul options = {}) {
  return make(Engine::tensor, psum(m, n, float32), {sbuf(128, m, dtype), sbuf(128, n, dtype)}, options);
}

TEST_CASE(
    "matmul takes its moving columns, at least 64 and the stationary ones up to 64, four times in float32") {
  struct Row {
    int64_t m, n;
    Dtype dtype;
    double cycles;
  };
  for (const Row& row : std::vector<Row>{{128, 512, bfloat16, 512},
                                         {128, 512, float16, 512},
                                         {128, 512, tfloat32, 512},
                                         {128, 512, float32, 2048},
                                         {128, 1, bfloat16, 64},
                                         {16, 1, bfloat16, 16},
                                         {16, 1, float32, 64},
                                         {16, 20, float8_e4m3, 20},
                                         {64, 100, bfloat16, 100}}) {
    CAPTURE(row.m);
    CAPTURE(row.n);
    CHECK(cycles(matmul(row.m, row.n, row.dtype)) == row.cycles);
  }
  CHECK(cycles(matmul(128, 512, float32, {.stationary_onezero = true})) == 1024);
  CHECK(cycles(matmul(128, 512, float32, {.moving_onezero = true})) == 1024);
  CHECK(cycles(matmul(128, 512, bfloat16, {.moving_onezero = true})) == 512);
  const Instruction mixed = matmul(128, 512, tfloat32);
  for (const size_t side : {0, 1}) {
    Instruction half = mixed;
    half.sources[side] = sbuf(128, side == 0 ? 128 : 512, float32);
    CHECK(cycles(half) == 2048);
  }
  // Rows in pairs: 2 x 128 and 2 x 512 elements a partition are 128 and 512 columns.
  CHECK(cycles(matmul(256, 1024, float8_e4m3, {.perf_mode = MatmulPerfMode::double_row})) == 512);
}

TEST_CASE("a transpose takes partitions or up to 64 columns on TensorE, columns on VectorE") {
  const auto transpose = [](Engine engine, int64_t partitions, int64_t free) {
    return make(engine, psum(free, partitions, bfloat16), {sbuf(partitions, free, bfloat16)}, Transpose{});
  };
  CHECK(cycles(transpose(Engine::tensor, 128, 128)) == 128);
  CHECK(cycles(transpose(Engine::tensor, 32, 128)) == 64);
  CHECK(cycles(transpose(Engine::tensor, 32, 48)) == 48);
  CHECK(cycles(transpose(Engine::vector, 32, 32)) == 64);
}

TEST_CASE("instructions of one element a cycle take at least 64 cycles") {
  const std::vector<std::pair<Attributes, int64_t>> kinds = {
      {TensorCopy{}, 1},
      {TensorScalar{.op0 = Operation::add}, 1},
      {RangeSelect{}, 1},
      {StreamShuffle{}, 1},
      {Activation{}, 1},
      {Memset{.value = 1}, 1},
      {TensorReduce{.op = Operation::add}, 1},
  };
  for (const auto& [attributes, sources] : kinds)
    for (const Dtype dtype : {float32, int32, float8_e4m3})
      for (const auto& [n, expected] :
           std::vector<std::pair<int64_t, double>>{{1, 64}, {64, 64}, {65, 65}, {4096, 4096}})
        for (const Engine engine : {Engine::vector, Engine::scalar, Engine::gpsimd}) {
          const Instruction instruction = over(engine, n, attributes, dtype, dtype, sources);
          CAPTURE(instruction.describe());
          CHECK(cycles(instruction) == expected);
        }
}

TEST_CASE("reading an accumulator costs ScalarE and VectorE another 64 cycles") {
  Instruction reduce = over(Engine::scalar, 512, Activation{.op = Operation::exp, .reduce = Operation::add});
  CHECK(cycles(reduce) == 512);
  reduce.reduce_dst = sbuf(128, 1, float32);
  CHECK(cycles(reduce) == 576);
  CHECK(cycles(over(Engine::vector, 512, TensorScalarReduce{})) == 512);
  CHECK(cycles(over(Engine::vector, 10, TensorScalarReduce{})) == 64);
  Instruction result = over(Engine::vector, 10, TensorScalarReduce{});
  result.reduce_dst = sbuf(128, 1, float32);
  CHECK(cycles(result) == 128);
}

TEST_CASE("tensor_tensor takes two cycles an element but from PSUM, or for simple packed bfloat16") {
  const auto of = [](Operation op, Dtype dtype) {
    return over(Engine::vector, 512, TensorTensor{.op = op}, dtype, dtype, 2);
  };
  CHECK(cycles(of(Operation::add, float32)) == 1024);
  CHECK(cycles(of(Operation::add, float16)) == 1024);
  for (const Operation op : {Operation::add, Operation::subtract, Operation::multiply})
    CHECK(cycles(of(op, bfloat16)) == 512);
  CHECK(cycles(of(Operation::maximum, bfloat16)) == 1024);
  CHECK(cycles(over(Engine::vector, 512, TensorTensor{.op = Operation::add}, bfloat16, float32, 2)) == 1024);
  CHECK(cycles(over(Engine::vector, 20, TensorTensor{.op = Operation::add}, float32, float32, 2)) == 64);

  Instruction strided = of(Operation::add, bfloat16);
  strided.sources[1] = columns(sbuf(128, 1024, bfloat16), 0, 512, 2);
  CHECK(cycles(strided) == 1024);
  Instruction to_strided = of(Operation::add, bfloat16), to_psum = to_strided;
  to_strided.dst = columns(sbuf(128, 1024, bfloat16), 0, 512, 2);
  CHECK(cycles(to_strided) == 1024);
  to_psum.dst = psum(128, 512, bfloat16);
  CHECK(cycles(to_psum) == 1024);
  Instruction from_psum = of(Operation::add, float32);
  from_psum.sources[0] = psum(128, 512, float32);
  CHECK(cycles(from_psum) == 512);
}

TEST_CASE("scalar_tensor_tensor takes two cycles an element but from PSUM, or for subtract and multiply") {
  const auto of = [](int64_t n, Operation op0, Operation op1, Dtype dtype) {
    return over(Engine::vector, n, ScalarTensorTensor{.op0 = op0, .op1 = op1}, dtype, dtype, 2);
  };
  CHECK(cycles(of(512, Operation::subtract, Operation::multiply, bfloat16)) == 512);
  CHECK(cycles(of(511, Operation::subtract, Operation::multiply, bfloat16)) == 1022);
  CHECK(cycles(of(512, Operation::multiply, Operation::subtract, bfloat16)) == 1024);
  CHECK(cycles(of(512, Operation::subtract, Operation::multiply, float32)) == 1024);
  Instruction from_psum = of(512, Operation::add, Operation::add, float32);
  from_psum.sources[1] = psum(128, 512, float32);
  CHECK(cycles(from_psum) == 512);
}

TEST_CASE("bfloat16 sums and maxima, and 16-bit zeros, go at two elements a cycle") {
  const auto reduce = [](Operation op, Dtype from, Dtype to) {
    return make(Engine::vector, sbuf(128, 1, to), {sbuf(128, 1000, from)},
                TensorReduce{.op = op, .axes = {1}});
  };
  CHECK(cycles(reduce(Operation::add, bfloat16, bfloat16)) == 500);
  CHECK(cycles(reduce(Operation::maximum, bfloat16, bfloat16)) == 500);
  CHECK(cycles(reduce(Operation::minimum, bfloat16, bfloat16)) == 1000);
  CHECK(cycles(reduce(Operation::add, bfloat16, float32)) == 1000);
  CHECK(cycles(reduce(Operation::add, float32, float32)) == 1000);

  const auto fill = [](double value, Dtype dtype) {
    return make(Engine::vector, sbuf(128, 1000, dtype), {}, Memset{.value = value});
  };
  CHECK(cycles(fill(0, bfloat16)) == 500);
  CHECK(cycles(fill(0, float16)) == 500);
  CHECK(cycles(fill(1, bfloat16)) == 1000);
  CHECK(cycles(fill(0, float32)) == 1000);
}

TEST_CASE("reciprocal, predicated copies, rsqrt of GpSimdE and dynamic copies have their own rates") {
  CHECK(cycles(over(Engine::vector, 100, Reciprocal{})) == 800);
  CHECK(cycles(over(Engine::vector, 4, Reciprocal{})) == 64);
  CHECK(cycles(over(Engine::scalar, 100, Reciprocal{})) == 100);

  Instruction predicated = over(Engine::vector, 100, TensorCopyPredicated{}, float32, float32, 2);
  CHECK(cycles(predicated) == 200);
  predicated.sources[0] = psum(128, 100, float32);
  CHECK(cycles(predicated) == 100);
  predicated.sources[0] = sbuf(128, 100, float32);
  predicated.dst = psum(128, 100, float32);
  CHECK(cycles(predicated) == 100);

  CHECK(cycles(over(Engine::gpsimd, 100, TensorScalar{.op0 = Operation::rsqrt})) == 400);
  CHECK(cycles(over(Engine::vector, 100, TensorScalar{.op0 = Operation::rsqrt})) == 100);
}

TEST_CASE("GpSimdE takes 150 cycles to start") {
  CHECK(cycles(over(Engine::gpsimd, 512, AffineSelect{})) == 662);
  CHECK(cycles(make(Engine::gpsimd, sbuf(128, 100, int32), {}, Iota{})) == 250);
  CHECK(cycles(make(Engine::gpsimd, sbuf(1, 100, float32), {sbuf(128, 100, float32)},
                    TensorPartitionReduce{.op = Operation::add})) == 250);
}

TEST_CASE("a DMA costs bytes and no cycles") {
  const Instruction load = make(Engine::dma, sbuf(128, 512, bfloat16), {hbm(128, 512, bfloat16)}, DmaCopy{});
  CHECK(cycles(load) == 0);
  CHECK(dma_bytes(load) == 128 * 1024);
  // A cast moves the wider side; a sum all of its sources.
  CHECK(dma_bytes(make(Engine::dma, sbuf(128, 512, bfloat16), {hbm(128, 512, float32)}, DmaCopy{})) ==
        128 * 2048);
  const Tensor part = hbm(128, 512, bfloat16);
  CHECK(dma_bytes(make(Engine::dma, hbm(128, 512, bfloat16), {part, part, part}, DmaCompute{})) ==
        3 * 128 * 1024);
  CHECK(dma_bytes(over(Engine::vector, 512, TensorCopy{})) == 0);
}

TEST_CASE("work is seconds of an engine, or bytes of HBM") {
  EngineWork work;
  const auto add = [&](const Instruction& instruction) { add_work(work, instruction, Generation::trn2); };
  add(matmul(128, 512, bfloat16));
  add(over(Engine::vector, 512, TensorCopy{}));
  add(over(Engine::vector, 512, TensorCopy{}));
  add(over(Engine::scalar, 512, Activation{}));
  add(over(Engine::gpsimd, 512, AffineSelect{}));
  CHECK(work.hbm_bytes == 0);
  add(make(Engine::dma, sbuf(128, 512, bfloat16), {hbm(128, 512, float32)}, DmaCopy{}));
  add(make(Engine::dma, hbm(128, 512, bfloat16), {hbm(128, 512, bfloat16)}, DmaCopy{}));
  add(over(Engine::dma, 512, DmaCopy{}));
  CHECK(work.tensor == 512 / 2.4e9);
  CHECK(work.vector == 2 * (512 / 0.96e9));
  CHECK(work.scalar == 512 / 1.2e9);
  CHECK(work.gpsimd == 662 / 1.2e9);
  CHECK(work.hbm_bytes == 128 * 512 * (4 + 2 + 2));
}

TEST_CASE("each generation has its clocks") {
  const auto mega = [](Engine engine, Generation generation) { return clock_rate(engine, generation) / 1e6; };
  CHECK(mega(Engine::tensor, Generation::trn1) == 2800);
  CHECK(mega(Engine::vector, Generation::trn1) == 1120);
  CHECK(mega(Engine::scalar, Generation::trn1) == 1400);
  CHECK(mega(Engine::gpsimd, Generation::trn1) == 1400);
  CHECK(mega(Engine::tensor, Generation::trn2) == 2400);
  CHECK(mega(Engine::vector, Generation::trn2) == 960);
  CHECK(mega(Engine::scalar, Generation::trn2) == 1200);
  CHECK(mega(Engine::gpsimd, Generation::trn2) == 1200);
  CHECK(mega(Engine::vector, Generation::trn3) == 1200);
  CHECK(mega(Engine::dma, Generation::trn2) == 0);
}

}  // namespace
}  // namespace titan::nki
