#include <doctest/doctest.h>

#include <regex>

#include "lanes.h"
#include "titan/base/strings.h"

using namespace titan::nki;
using namespace titan::nki::lanes;

namespace {

/// A kernel that breaks one rule.
struct WrongKernel {
  const char* name;
  const char* rule;
  const char* instruction;  ///< named in the message
  std::function<void()> kernel;
  Generation generation = Generation::trn2;
};

constexpr Dtype f32 = Dtype::float32, bf16 = Dtype::bfloat16, fp8 = Dtype::float8_e4m3, i32 = Dtype::int32,
                u8 = Dtype::uint8;

/// A tile whose numbers do not matter, but are there.
Tensor full(std::vector<int64_t> shape, Dtype dtype = f32, Buffer buffer = Buffer::sbuf) {
  const Tensor tensor = tile(std::move(shape), dtype, buffer);
  nisa::memset(tensor, 1);
  return tensor;
}
Tensor full_psum(std::vector<int64_t> shape, Dtype dtype = f32) {
  return full(std::move(shape), dtype, Buffer::psum);
}
Tensor far(std::vector<int64_t> shape, Dtype dtype = f32) {
  return nl::ndarray(std::move(shape), dtype, nl::hbm);
}

/// Rows of a [16, 4] in HBM that 8 indices choose.
Tensor chosen_rows(const Tensor& indices) {
  return far({16, 4}).ap({.pattern = {{4, 8}, {1, 4}}, .vector_offset = indices});
}

constexpr Operation add = Operation::add, multiply = Operation::multiply;

const std::vector<WrongKernel>& wrong_elementwise() {
  static const std::vector<WrongKernel> kernels = {
      {"both in PSUM", "tensor_tensor.both-psum", "tensor_tensor",
       [] { nisa::tensor_tensor(full({8, 4}), full_psum({8, 4}), full_psum({8, 4}), add); }},
      {"partitions differ", "tensor_tensor.partitions", "tensor_tensor",
       [] { nisa::tensor_tensor(full({8, 4}), full({8, 4}), full({9, 4}), add); }},
      {"free sizes differ", "tensor_tensor.free-size", "tensor_tensor",
       [] { nisa::tensor_tensor(full({8, 5}), full({8, 4}), full({8, 4}), add); }},
      {"function as operation", "tensor_tensor.op", "tensor_tensor",
       [] { nisa::tensor_tensor(full({8, 4}), full({8, 4}), full({8, 4}), Operation::exp); }},
      {"power on VectorE", "tensor_tensor.power-engine", "tensor_tensor",
       [] {
         nisa::tensor_tensor(full({8, 4}), full({8, 4}), full({8, 4}), Operation::power,
                             {.engine = Engine::vector});
       }},
      {"ScalarE", "tensor_tensor.engine", "tensor_tensor",
       [] {
         nisa::tensor_tensor(full({8, 4}), full({8, 4}), full({8, 4}), add, {.engine = Engine::scalar});
       }},
      {"GpSimdE reads PSUM", "tensor_tensor.gpsimd-psum", "tensor_tensor",
       [] {
         nisa::tensor_tensor(full({8, 4}), full_psum({8, 4}), full({8, 4}), add, {.engine = Engine::gpsimd});
       }},
      {"bits of floats", "tensor_tensor.bitvector-dtype", "tensor_tensor",
       [] { nisa::tensor_tensor(full({8, 4}), full({8, 4}), full({8, 4}), Operation::bitwise_and); }},
      {"bits of two sizes", "tensor_tensor.bitvector-dtype", "tensor_tensor",
       [] {
         nisa::tensor_tensor(full({8, 4}, i32), full({8, 4}, u8), full({8, 4}, i32), Operation::bitwise_or);
       }},
      {"operand in HBM", "tensor_tensor.operand-in-hbm", "tensor_tensor",
       [] { nisa::tensor_tensor(full({8, 4}), full({8, 4}), far({8, 4}), add); }},
      {"no operand", "tensor_tensor.operand-missing", "tensor_tensor",
       [] { nisa::tensor_tensor(full({8, 4}), full({8, 4}), {}, add); }},
      {"8 partitions from 5 on", "tensor_tensor.start-partition", "tensor_tensor",
       [] { nisa::tensor_tensor(full({8, 4}), full({32, 4})(ds(5, 8), all), full({8, 4}), add); }},
      {"40 partitions from 32 on", "tensor_copy.start-partition", "tensor_copy",
       [] { nisa::tensor_copy(full({40, 4}), full({96, 4})(ds(32, 40), all)); }},
      {"65 partitions from 32 on", "tensor_copy.start-partition", "tensor_copy",
       [] { nisa::tensor_copy(full({128, 4})(ds(32, 65), all), full({65, 4})); }},
      {"one partition of many", "activation.start-partition", "activation",
       [] { nisa::activation(full({1, 4}), Operation::exp, full({128, 4})(ds(127, 1), all)); }},
      {"five free dimensions", "tensor_copy.access-pattern-dims", "tensor_copy",
       [] {
         const Tensor x = full({2, 2, 2, 2, 2, 2}).permute({0, 5, 4, 3, 2, 1});
         nisa::tensor_copy(full({2, 32}), x);
       }},
      {"70000 elements along a dimension", "memset.access-pattern-size", "memset",
       [] { nisa::memset(tile({2, 70000}, u8), 1); }},
      {"steps of 40000", "tensor_copy.access-pattern-stride", "tensor_copy",
       [] { nisa::tensor_copy(full({2, 2}, u8), full({2, 2, 40000}, u8)(all, all, 7)); }},
      {"dst repeats", "tensor_copy.repeated-dst", "tensor_copy",
       [] { nisa::tensor_copy(full({8, 1}).broadcast(1, 4), full({8, 4})); }},
      {"TensorE copies", "tensor_copy.engine", "tensor_copy",
       [] { nisa::tensor_copy(full({8, 4}), full({8, 4}), {.engine = Engine::tensor}); }},
      {"ScalarE copies on trn1", "tensor_copy.scalar-engine-generation", "tensor_copy",
       [] { nisa::tensor_copy(full({8, 4}), full({8, 4}), {.engine = Engine::scalar}); }, Generation::trn1},
      {"bits and floats", "tensor_scalar.mixed-ops", "tensor_scalar",
       [] {
         nisa::tensor_scalar(full({8, 4}, i32), full({8, 4}, i32), Operation::bitwise_and, 1, {.op1 = add});
       }},
      {"half a bit", "tensor_scalar.bitvector-operand", "tensor_scalar",
       [] { nisa::tensor_scalar(full({8, 4}, i32), full({8, 4}, i32), Operation::bitwise_and, 1.5); }},
      {"operand for each element", "tensor_scalar.scalar-operand-shape", "tensor_scalar",
       [] { nisa::tensor_scalar(full({8, 4}), full({8, 4}), add, full({8, 4})); }},
      {"operand of another partition count", "tensor_scalar.scalar-operand-shape", "tensor_scalar",
       [] { nisa::tensor_scalar(full({8, 4}), full({8, 4}), add, full({1, 1})); }},
      {"bfloat16 operand", "tensor_scalar.scalar-operand-dtype", "tensor_scalar",
       [] { nisa::tensor_scalar(full({8, 4}), full({8, 4}), add, full({8, 1}, bf16)); }},
      {"operand of one that takes none", "tensor_scalar.unary-operand", "tensor_scalar",
       [] { nisa::tensor_scalar(full({8, 4}), full({8, 4}), Operation::abs, 2.0); }},
      {"activation function", "tensor_scalar.op", "tensor_scalar",
       [] { nisa::tensor_scalar(full({8, 4}), full({8, 4}), Operation::tanh, 0); }},
      {"ScalarE subtracts", "tensor_scalar.scalar-engine-op", "tensor_scalar",
       [] {
         nisa::tensor_scalar(full({8, 4}), full({8, 4}), Operation::subtract, 1.0,
                             {.engine = Engine::scalar});
       }},
      {"ScalarE on trn1", "tensor_scalar.scalar-engine-generation", "tensor_scalar",
       [] { nisa::tensor_scalar(full({8, 4}), full({8, 4}), multiply, 1.0, {.engine = Engine::scalar}); },
       Generation::trn1},
      {"GpSimdE adds", "tensor_scalar.gpsimd-op", "tensor_scalar",
       [] { nisa::tensor_scalar(full({8, 4}), full({8, 4}), add, 1.0, {.engine = Engine::gpsimd}); }},
      {"both in PSUM", "scalar_tensor_tensor.both-psum", "scalar_tensor_tensor",
       [] {
         nisa::scalar_tensor_tensor(full({8, 4}), full_psum({8, 4}), multiply, 2.0, add, full_psum({8, 4}));
       }},
      {"bits", "scalar_tensor_tensor.op", "scalar_tensor_tensor",
       [] {
         nisa::scalar_tensor_tensor(full({8, 4}, i32), full({8, 4}, i32), Operation::bitwise_and, 2.0, add,
                                    full({8, 4}, i32));
       }},
      {"a half in integers", "memset.value", "memset", [] { nisa::memset(full({8, 4}, i32), 0.5); }},
      {"300 in 8 bits", "memset.value", "memset", [] { nisa::memset(full({8, 4}, u8), 300); }},
      {"HBM", "memset.operand-in-hbm", "memset", [] { nisa::memset(far({8, 4}), 0); }},
      {"float predicate", "tensor_copy_predicated.predicate-dtype", "tensor_copy_predicated",
       [] { nisa::tensor_copy_predicated(full({8, 4}), full({8, 4}), full({8, 4})); }},
      {"two dtypes", "tensor_copy_predicated.dtype", "tensor_copy_predicated",
       [] { nisa::tensor_copy_predicated(full({8, 4}), full({8, 4}, bf16), full({8, 4}, u8)); }},
      {"both in PSUM", "tensor_copy_predicated.both-psum", "tensor_copy_predicated",
       [] { nisa::tensor_copy_predicated(full({8, 4}), full_psum({8, 4}), full_psum({8, 4}, u8)); }},
      {"arithmetic as function", "activation.op", "activation",
       [] { nisa::activation(full({8, 4}), add, full({8, 4})); }},
      {"bias of every element", "activation.scalar-operand-shape", "activation",
       [] { nisa::activation(full({8, 4}), Operation::exp, full({8, 4}), {.bias = full({8, 4})}); }},
      {"bfloat16 scale", "activation.scalar-operand-dtype", "activation",
       [] { nisa::activation(full({8, 4}), Operation::exp, full({8, 4}), {.scale = full({8, 1}, bf16)}); }},
      {"tfloat32 bias", "activation.bias-dtype", "activation",
       [] {
         nisa::activation(full({8, 4}), Operation::exp, full({8, 4}),
                          {.bias = full({8, 1}, Dtype::tfloat32)});
       }},
      {"number as bias on trn1", "activation.bias-generation", "activation",
       [] { nisa::activation(full({8, 4}), Operation::exp, full({8, 4}), {.bias = 1.0}); }, Generation::trn1},
      {"maximum", "activation_reduce.reduce-op", "activation_reduce",
       [] {
         nisa::activation_reduce(full({8, 4}), Operation::exp, full({8, 4}), Operation::maximum,
                                 full({8, 1}));
       }},
      {"no result", "activation_reduce.operand-missing", "activation",
       [] { nisa::activation_reduce(full({8, 4}), Operation::exp, full({8, 4}), add, {}); }},
      {"GpSimdE", "reciprocal.engine", "reciprocal",
       [] { nisa::reciprocal(full({8, 4}), full({8, 4}), {.engine = Engine::gpsimd}); }},
  };
  return kernels;
}

const std::vector<WrongKernel>& wrong_reductions() {
  static const std::vector<WrongKernel> kernels = {
      {"axis of the partitions", "tensor_reduce.axis", "tensor_reduce",
       [] { nisa::tensor_reduce(full({1, 4}), add, full({8, 4}), {0}); }},
      {"axis in the middle", "tensor_reduce.axis", "tensor_reduce",
       [] { nisa::tensor_reduce(full({8, 4}), add, full({8, 3, 4}), {1}); }},
      {"axis that is not there", "tensor_reduce.axis", "tensor_reduce",
       [] { nisa::tensor_reduce(full({8, 1}), add, full({8, 4}), {2}); }},
      {"division", "tensor_reduce.op", "tensor_reduce",
       [] { nisa::tensor_reduce(full({8, 1}), Operation::divide, full({8, 4}), {1}); }},
      {"too many results", "tensor_reduce.free-size", "tensor_reduce",
       [] { nisa::tensor_reduce(full({8, 2}), add, full({8, 4}), {1}); }},
      {"negated bits", "tensor_reduce.negate", "tensor_reduce",
       [] {
         nisa::tensor_reduce(full({8, 1}, i32), Operation::bitwise_or, full({8, 4}, i32), {1},
                             {.negate = true});
       }},
      {"several partitions", "tensor_partition_reduce.dst-partitions", "tensor_partition_reduce",
       [] { nisa::tensor_partition_reduce(full({2, 4}), add, full({8, 4})); }},
      {"product of partitions", "tensor_partition_reduce.op", "tensor_partition_reduce",
       [] { nisa::tensor_partition_reduce(full({1, 4}), multiply, full({8, 4})); }},
      {"partitions of PSUM", "tensor_partition_reduce.gpsimd-psum", "tensor_partition_reduce",
       [] { nisa::tensor_partition_reduce(full({1, 4}), add, full_psum({8, 4})); }},
      {"difference", "tensor_scalar_reduce.reduce-op", "tensor_scalar_reduce",
       [] {
         nisa::tensor_scalar_reduce(full({8, 4}), full({8, 4}), add, 1.0, Operation::subtract, full({8, 1}));
       }},
      {"result of two", "tensor_scalar_reduce.scalar-operand-shape", "tensor_scalar_reduce",
       [] { nisa::tensor_scalar_reduce(full({8, 4}), full({8, 4}), add, 1.0, add, full({8, 2})); }},
  };
  return kernels;
}

const std::vector<WrongKernel>& wrong_selections() {
  static const std::vector<WrongKernel> kernels = {
      {"pattern too short", "iota.pattern-count", "iota", [] { nisa::iota(full({8, 4}, i32), {{1, 3}}); }},
      {"five dimensions", "iota.pattern-dims", "iota",
       [] { nisa::iota(full({8, 4}, i32), {{1, 4}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}); }},
      {"beyond 32 bits", "iota.pattern-range", "iota",
       [] { nisa::iota(full({8, 4}, i32), {{1000000000, 4}}); }},
      {"counts nothing", "iota.pattern-size", "iota",
       [] { nisa::iota(full({8, 4}, i32), {{1, 0}, {1, 4}}); }},
      {"PSUM", "iota.dst-sbuf", "iota", [] { nisa::iota(full_psum({8, 4}, i32), {{1, 4}}); }},
      {"PSUM", "affine_select.sbuf-only", "affine_select",
       [] { nisa::affine_select(full({8, 4}), {{1, 4}}, 1, full_psum({8, 4}), 0); }},
      {"arithmetic", "affine_select.cmp-op", "affine_select",
       [] { nisa::affine_select(full({8, 4}), {{1, 4}}, 1, full({8, 4}), 0, {.cmp_op = add}); }},
      {"bound is a number", "range_select.bound-dtype", "range_select",
       [] {
         nisa::range_select(full({8, 4}), full({8, 4}), Operation::greater, Operation::less, 0, full({8, 1}));
       }},
      {"arithmetic", "range_select.comp-op", "range_select",
       [] {
         nisa::range_select(full({8, 4}), full({8, 4}), add, Operation::less, full({8, 1}), full({8, 1}));
       }},
      {"beyond 2^24", "range_select.range", "range_select",
       [] {
         nisa::range_select(full({8, 4}), full({8, 4}), Operation::greater, Operation::less, full({8, 1}),
                            full({8, 1}), {.range_start = 16777215});
       }},
      {"trn1", "range_select.generation", "range_select",
       [] {
         nisa::range_select(full({8, 4}), full({8, 4}), Operation::greater, Operation::less, full({8, 1}),
                            full({8, 1}));
       },
       Generation::trn1},
      {"mask of 40", "nc_stream_shuffle.mask", "nc_stream_shuffle",
       [] { nisa::nc_stream_shuffle(full({32, 4}), full({32, 4}), {40}); }},
      {"row that src lacks", "nc_stream_shuffle.mask-source", "nc_stream_shuffle",
       [] { nisa::nc_stream_shuffle(full({32, 4}), full({2, 4}), {0, 1, 2}); }},
      {"two dtypes", "nc_stream_shuffle.dtype", "nc_stream_shuffle",
       [] { nisa::nc_stream_shuffle(full({32, 4}), full({32, 4}, bf16), {}); }},
  };
  return kernels;
}

/// Reads or writes more through one operand than a partition has, or one place twice.
const std::vector<WrongKernel>& wrong_patterns() {
  static const std::vector<WrongKernel> kernels = {
      {"four milliards from one number", "tensor_reduce.partition-elements", "tensor_reduce",
       [] {
         const Tensor repeats = full({4, 4}).ap({.pattern = {{4, 4}, {0, 65535}, {0, 65535}}});
         nisa::tensor_reduce(full({4, 1}), add, repeats, {1, 2});
       }},
      {"one more than 224 KiB", "tensor_reduce.partition-elements", "tensor_reduce",
       [] { nisa::tensor_reduce(full({4, 1}), add, full({4, 1}).broadcast(1, 57345), {1}); }},
      {"one more than 192 KiB", "tensor_reduce.partition-elements", "tensor_reduce",
       [] { nisa::tensor_reduce(full({4, 1}), add, full({4, 1}).broadcast(1, 49153), {1}); },
       Generation::trn1},
      {"more than PSUM has", "tensor_copy.partition-elements", "tensor_copy",
       [] {
         const Tensor repeats = full_psum({4, 4}).ap({.pattern = {{4, 4}, {0, 2000}, {1, 4}}});
         nisa::tensor_copy(full({4, 8000}), repeats);
       }},
      {"a window that moves by one", "tensor_copy.repeated-dst", "tensor_copy",
       [] { nisa::tensor_copy(full({4, 16}).ap({.pattern = {{16, 4}, {1, 4}, {1, 4}}}), full({4, 16})); }},
      {"the same backwards", "memset.repeated-dst", "memset",
       [] { nisa::memset(full({4, 16}).ap({.pattern = {{16, 4}, {-3, 4}, {1, 4}}, .offset = 12}), 0); }},
      {"a repeat of results", "tensor_scalar_reduce.repeated-dst", "tensor_scalar_reduce",
       [] {
         nisa::tensor_scalar_reduce(full({4, 4}).ap({.pattern = {{4, 4}, {1, 2}, {1, 2}}}), full({4, 4}),
                                    multiply, 2.0, add, full({4, 1}));
       }},
  };
  return kernels;
}

const std::vector<WrongKernel>& wrong_tensor_engine() {
  static const std::vector<WrongKernel> kernels = {
      {"sizes of the sum differ", "nc_matmul.contraction", "nc_matmul",
       [] { nisa::nc_matmul(full_psum({4, 8}), full({16, 4}), full({17, 8})); }},
      {"129 rows", "nc_matmul.stationary-free-size", "nc_matmul",
       [] { nisa::nc_matmul(full_psum({128, 8}), full({16, 129}), full({16, 8})); }},
      {"513 columns", "nc_matmul.moving-free-size", "nc_matmul",
       [] { nisa::nc_matmul(full_psum({4, 513}), full({16, 4}), full({16, 513})); }},
      {"4097 columns", "nc_matmul.moving-free-size", "nc_matmul",
       [] { nisa::nc_matmul(full_psum({4, 4096}), full({16, 4}), full({16, 4097})); }, Generation::trn3},
      {"dst in SBUF", "nc_matmul.dst-psum", "nc_matmul",
       [] { nisa::nc_matmul(full({4, 8}), full({16, 4}), full({16, 8})); }},
      {"moving in PSUM", "nc_matmul.inputs-sbuf", "nc_matmul",
       [] { nisa::nc_matmul(full_psum({4, 8}), full({16, 4}), full_psum({16, 8})); }},
      {"dst of other sizes", "nc_matmul.dst-shape", "nc_matmul",
       [] { nisa::nc_matmul(full_psum({8, 4}), full({16, 4}), full({16, 8})); }},
      {"float32 with bfloat16", "nc_matmul.dtype-pair", "nc_matmul",
       [] { nisa::nc_matmul(full_psum({4, 8}), full({16, 4}), full({16, 8}, bf16)); }},
      {"integers", "nc_matmul.dtype", "nc_matmul",
       [] { nisa::nc_matmul(full_psum({4, 8}), full({16, 4}, i32), full({16, 8}, i32)); }},
      {"bfloat16 sums on trn2", "nc_matmul.dst-dtype", "nc_matmul",
       [] { nisa::nc_matmul(full_psum({4, 8}, bf16), full({16, 4}, bf16), full({16, 8}, bf16)); }},
      {"across banks", "nc_matmul.psum-bank", "nc_matmul",
       [] { nisa::nc_matmul(full_psum({4, 1024})(all, ds(400, 200)), full({16, 4}), full({16, 200})); }},
      {"across banks by steps in both directions", "nc_matmul.psum-bank", "nc_matmul",
       [] {
         nisa::nc_matmul(
             full_psum({4, 2048}).ap({.pattern = {{2048, 4}, {601, 2}, {-600, 2}}, .offset = 600}),
             full({16, 4}), full({16, 4}));
       }},
      {"more than a bank, wherever a register puts it", "nc_matmul.psum-bank", "nc_matmul",
       [] {
         const Register zero(0);
         nisa::nc_matmul(
             full_psum({4, 2, 512})
                 .ap({.pattern = {{1024, 4}, {512, 2}}, .scalar_offset = zero, .indirect_dim = 1}),
             full({16, 4}), full({16, 2}));
       }},
      {"sums that meet", "nc_matmul.repeated-dst", "nc_matmul",
       [] {
         nisa::nc_matmul(full_psum({8, 16}).ap({.pattern = {{16, 8}, {1, 4}, {1, 4}}}), full({16, 8}),
                         full({16, 16}));
       }},
      {"double row of bfloat16", "nc_matmul.double-row-dtype", "nc_matmul",
       [] {
         nisa::nc_matmul(full_psum({4, 8}), full({16, 2, 4}, bf16), full({16, 2, 8}, bf16),
                         {.perf_mode = MatmulPerfMode::double_row});
       }},
      {"double row of one row", "nc_matmul.double-row-shape", "nc_matmul",
       [] {
         nisa::nc_matmul(full_psum({4, 8}), full({16, 8}, fp8), full({16, 16}, fp8),
                         {.perf_mode = MatmulPerfMode::double_row});
       }},
      {"double row on trn1", "nc_matmul.double-row-generation", "nc_matmul",
       [] {
         nisa::nc_matmul(full_psum({4, 8}), full({16, 2, 4}, fp8), full({16, 2, 8}, fp8),
                         {.perf_mode = MatmulPerfMode::double_row});
       },
       Generation::trn1},
      {"transpose into another dtype", "nc_matmul.transpose-dtype", "nc_matmul",
       [] {
         nisa::nc_matmul(full_psum({4, 16}), full({16, 4}, bf16), full({16, 16}, bf16),
                         {.is_transpose = true});
       }},
      {"starts at partition 8", "nc_matmul.start-partition", "nc_matmul",
       [] { nisa::nc_matmul(full_psum({4, 8}), full({32, 4})(ds(8, 16), all), full({16, 8})); }},
      {"129 columns", "nc_transpose.size", "nc_transpose",
       [] { nisa::nc_transpose(full_psum({128, 128}), full({128, 129})); }},
      {"33 columns on VectorE", "nc_transpose.size", "nc_transpose",
       [] { nisa::nc_transpose(full({33, 32}), full({32, 33})); }},
      {"PSUM to PSUM on TensorE", "nc_transpose.tensor-data-sbuf", "nc_transpose",
       [] { nisa::nc_transpose(full_psum({8, 8}), full_psum({8, 8})); }},
      {"SBUF on TensorE", "nc_transpose.tensor-dst-psum", "nc_transpose",
       [] { nisa::nc_transpose(full({8, 8}), full({8, 8}), {.engine = Engine::tensor}); }},
      {"two dtypes", "nc_transpose.dtype", "nc_transpose",
       [] { nisa::nc_transpose(full_psum({8, 8}), full({8, 8}, bf16)); }},
      {"sizes not exchanged", "nc_transpose.dst-shape", "nc_transpose",
       [] { nisa::nc_transpose(full_psum({8, 16}), full({8, 16})); }},
  };
  return kernels;
}

const std::vector<WrongKernel>& wrong_moves() {
  static const std::vector<WrongKernel> kernels = {
      {"PSUM", "dma_copy.psum", "dma_copy", [] { nisa::dma_copy(far({8, 4}), full_psum({8, 4})); }},
      {"counts differ", "dma_copy.element-count", "dma_copy",
       [] { nisa::dma_copy(far({8, 5}), full({8, 4})); }},
      {"VectorE starts it", "dma_copy.engine", "dma_copy",
       [] { nisa::dma_copy(far({8, 4}), full({8, 4}), {.engine = Engine::vector}); }},
      {"dst repeats", "dma_copy.repeated-dst", "dma_copy",
       [] { nisa::dma_copy(full({8, 1}).broadcast(1, 4), full({8, 4})); }},
      {"rows of HBM that meet", "dma_copy.repeated-dst", "dma_copy",
       [] { nisa::dma_copy(far({16}).ap({.pattern = {{3, 4}, {1, 4}}}), full({4, 4})); }},
      {"received into one place", "sendrecv.repeated-dst", "sendrecv",
       [] { nisa::sendrecv(full({8, 4}), full({8, 1}).broadcast(1, 4), {}); }},
      {"prints what nobody reads", "device_print.print-size", "device_print",
       [] { nl::device_print("x", far({1}).broadcast(0, int64_t{1} << 40)); }},
      {"prints one too many", "device_print.print-size", "device_print",
       [] { nl::device_print("x", far({(1 << 20) + 1})); }},
      {"into HBM", "dma_transpose.dst-sbuf", "dma_transpose",
       [] { nisa::dma_transpose(far({4, 8}, bf16), full({8, 4}, bf16)); }},
      {"another order", "dma_transpose.axes", "dma_transpose",
       [] { nisa::dma_transpose(full({4, 8, 2}), far({4, 2, 8}), {.axes = {0, 2, 1}}); }},
      {"sizes not exchanged", "dma_transpose.dst-shape", "dma_transpose",
       [] { nisa::dma_transpose(full({8, 4}, bf16), far({8, 4}, bf16)); }},
      {"two dtypes", "dma_transpose.dtype", "dma_transpose",
       [] { nisa::dma_transpose(full({4, 8}), far({8, 4}, bf16)); }},
      {"no source", "dma_compute.sources", "dma_compute", [] { nisa::dma_compute(full({8, 4}), {}); }},
      {"17 sources", "dma_compute.sources", "dma_compute",
       [] { nisa::dma_compute(full({8, 4}), std::vector<Tensor>(17, full({8, 4}))); }},
      {"maximum", "dma_compute.reduce-op", "dma_compute",
       [] { nisa::dma_compute(full({8, 4}), {full({8, 4})}, {.reduce_op = Operation::maximum}); }},
      {"rows chosen on both sides", "dma_copy.vector-offsets", "dma_copy",
       [] {
         const Tensor rows = full({8, 1}, i32);
         nisa::dma_copy(chosen_rows(rows), chosen_rows(rows));
       }},
      {"adds to rows that may repeat", "dma_compute.unique-indices", "dma_compute",
       [] { nisa::dma_compute(chosen_rows(full({8, 1}, i32)), {full({8, 4})}, {.unique_indices = false}); }},
      {"transposes chosen rows", "dma_transpose.indirect", "dma_transpose",
       [] { nisa::dma_transpose(full({4, 8}), chosen_rows(full({8, 1}, i32))); }},
      {"prints chosen rows", "device_print.vector-offset", "device_print",
       [] { nl::device_print("x", chosen_rows(full({8, 1}, i32))); }},
      {"trn1", "sendrecv.generation", "sendrecv", [] { nisa::sendrecv(full({8, 4}), full({8, 4}), {}); },
       Generation::trn1},
      {"two shapes", "sendrecv.shape", "sendrecv", [] { nisa::sendrecv(full({8, 4}), full({4, 8}), {}); }},
      {"HBM", "sendrecv.sbuf-only", "sendrecv", [] { nisa::sendrecv(full({8, 4}), far({8, 4}), {}); }},
      {"third core", "sendrecv.rank", "sendrecv",
       [] { nisa::sendrecv(full({8, 4}), full({8, 4}), {.send_to_rank = 2}); }},
      {"private memory", "core_barrier.data-shared-hbm", "core_barrier",
       [] { nisa::core_barrier(far({8, 4})); }},
      {"three cores", "core_barrier.cores", "core_barrier", [] { nisa::core_barrier(far({8, 4}), {1, 2}); }},
      {"register of floats", "register_load.operand", "register_load",
       [] {
         Register to;
         nisa::register_load(to, full({1, 1}));
       }},
      {"register of two", "register_store.operand", "register_store",
       [] { nisa::register_store(full({1, 2}, i32), Register(1)); }},
      {"register of what was never written", "memory.unwritten", "register_load",
       [] {
         Register to;
         nisa::register_load(to, far({1}, i32));
       }},
      {"register of a tile that was never written", "memory.unwritten", "register_load",
       [] {
         Register to;
         nisa::register_load(to, tile({1, 1}, i32));
       }},
      {"never written", "memory.unwritten", "tensor_copy",
       [] { nisa::tensor_copy(full({8, 4}), tile({8, 4})); }},
      {"one element never written", "memory.unwritten", "tensor_reduce",
       [] {
         const Tensor x = tile({8, 4});
         nisa::memset(x(all, ds(0, 3)), 0);
         nisa::tensor_reduce(full({8, 1}), add, x, {1});
       }},
      {"a number a partition without data", "memory.without-data", "tensor_scalar",
       [] {
         const Tensor shape = chip_tensor(current_core().sbuf(), "s", {8, 1}, f32, {}, true);
         nisa::tensor_scalar(full({8, 4}), full({8, 4}), multiply, shape);
       }},
      {"an offset without data", "memory.without-data", "dma_copy",
       [] {
         const Tensor shape = chip_tensor(current_core().sbuf(), "s", {1, 1}, i32, {}, true);
         nisa::dma_copy(full({1, 4}), far({8, 4}).ap({.pattern = {{1, 4}}, .scalar_offset = shape}));
       }},
      {"a register of a shape", "memory.without-data", "register_load",
       [] {
         Register to;
         nisa::register_load(to, host_tensor("s", {1}, i32, nullptr, nullptr));
       }},
      {"a register into a shape", "memory.without-data", "register_store",
       [] { nisa::register_store(host_tensor("s", {1}, i32, nullptr, nullptr), Register(1)); }},
      {"printed but never written", "memory.unwritten", "device_print",
       [] { nl::device_print("x", tile({8, 4})); }},
  };
  return kernels;
}

void check_refused(const WrongKernel& wrong, RunMode mode) {
  INFO(std::string(wrong.rule) << ": " << std::string(wrong.name));
  RunOptions options{.generation = wrong.generation, .mode = mode};
  try {
    run_on_cores(options, wrong.kernel);
    FAIL_CHECK("the kernel ran");
  } catch (const KernelError& error) {
    const std::string message = error.what();
    CAPTURE(message);
    CHECK(error.rule == wrong.rule);
    // FILE:LINE: INSTRUCTION(OPERANDS): what is wrong [RULE]
    const std::string rule = titan::format(" [{}]", wrong.rule);
    REQUIRE(message.ends_with(rule));
    const std::string said = message.substr(0, message.size() - rule.size());
    CHECK(std::regex_search(said, std::regex("check_rules_test.cpp:[0-9]+")));
    CHECK(said.find(wrong.instruction) != std::string::npos);
    CHECK(std::regex_search(said, std::regex(R"((sbuf|psum|hbm)\[[0-9]| was given no tensor as [a-z])")));
  }
}

bool needs_data(const WrongKernel& wrong) {
  const std::string_view rule = wrong.rule;
  return rule == "memory.unwritten" || rule == "memory.without-data";
}

}  // namespace

TEST_CASE("each wrong kernel is stopped with its rule, the instruction and the line") {
  size_t count = 0;
  for (const auto* table : {&wrong_elementwise(), &wrong_reductions(), &wrong_selections(), &wrong_patterns(),
                            &wrong_tensor_engine(), &wrong_moves()}) {
    for (const WrongKernel& wrong : *table) {
      check_refused(wrong, RunMode::execute);
      ++count;
    }
  }
  CHECK(count >= 100);
}

TEST_CASE("rules are checked on shapes alone too") {
  for (const auto* table : {&wrong_elementwise(), &wrong_reductions(), &wrong_selections(), &wrong_patterns(),
                            &wrong_tensor_engine(), &wrong_moves()}) {
    for (const WrongKernel& wrong : *table) {
      if (!needs_data(wrong)) check_refused(wrong, RunMode::shapes);
    }
  }
}

TEST_CASE("a message says what is wrong, what to do, and names the operands") {
  std::string message;
  try {
    on_core([] {
      const Tensor scores = nl::ndarray({32, 8}, f32, {.buffer = nl::psum, .name = "scores"});
      const Tensor bias = nl::ndarray({32, 8}, f32, {.buffer = nl::psum, .name = "bias"});
      nisa::tensor_tensor(tile({32, 8}), scores, bias, add);
    });
  } catch (const KernelError& error) {
    message = error.what();
  }
  for (const char* part :
       {"data1 and data2 are both in PSUM", "copy one to SBUF by tensor_copy", "scores psum[32, 8] float32",
        "bias psum[32, 8] float32", "[tensor_tensor.both-psum]"}) {
    CAPTURE(part);
    CAPTURE(message);
    CHECK(message.find(part) != std::string::npos);
  }
}

TEST_CASE("limits are taken up to their last value") {
  on_core([] {
    nisa::tensor_copy(full({32, 4}), full({128, 4})(ds(96, 32), all));
    nisa::tensor_copy(full({64, 4}), full({128, 4})(ds(64, 64), all));
    nisa::tensor_copy(full({128, 4}, bf16), full_psum({128, 4}));
    nisa::tensor_copy(full({2, 16}), full({2, 2, 2, 2, 2}).permute({0, 4, 3, 2, 1}));
    nisa::tensor_copy(full({1, 65535}, u8), full({1, 65535}, u8));
    nisa::tensor_reduce(full({4, 1}), add, full({4, 1}).broadcast(1, 57344), {1});
    nisa::tensor_copy(full({4, 8192}, bf16), full_psum({4, 8192}, bf16));
    nisa::memset(full({4, 16}).ap({.pattern = {{16, 4}, {-4, 4}, {1, 4}}, .offset = 12}), 0);
    nisa::memset(full({4, 3, 5}).permute({0, 2, 1})(all, Slice{0, 5, 2}), 0);
    nisa::nc_matmul(tile({128, 512}, f32, nl::psum), full({128, 128}, bf16), full({128, 512}, bf16));
    nisa::nc_transpose(full_psum({128, 128}), full({128, 128}));
    nisa::nc_transpose(full({32, 32}), full({32, 32}));
    nisa::tensor_scalar(full({8, 4}), full({8, 4}), multiply, 2.0,
                        {.op1 = add, .operand1 = 1.0, .engine = Engine::scalar});
    nisa::tensor_scalar(full({8, 4}), full({8, 4}), Operation::rsqrt, 0, {.engine = Engine::gpsimd});
    nisa::scalar_tensor_tensor(full({8, 4}), full_psum({8, 4}), multiply, full({8, 1}, bf16), add,
                               full({8, 4}));
  });
}
