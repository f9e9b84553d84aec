#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "titan/nki/core.h"
#include "titan/nki/instruction.h"
#include "titan/nki/memory.h"

/// Tensors at places of the test's choice, without a core behind them, and runs put together by hand.
namespace titan::nki::testing {

struct ChipPlace {
  int64_t first = 0;  ///< partition
  int64_t byte = 0;
};

/// [partitions, free] of SBUF or PSUM.
inline Tensor on_chip(Buffer buffer, int64_t partitions, int64_t free, Dtype dtype, ChipPlace place = {}) {
  auto allocation = std::make_shared<Allocation>();
  allocation->name = "t";
  allocation->buffer = buffer;
  allocation->dtype = dtype;
  allocation->shape = {partitions, free};
  allocation->without_data = true;
  allocation->first_partition = place.first;
  allocation->num_partitions = partitions;
  allocation->byte_offset = place.byte;
  allocation->partition_bytes = free * itemsize(dtype);
  return Tensor(allocation, dtype, {{partitions, 1}, {free, 1}}, 0);
}

inline Tensor sbuf(int64_t partitions, int64_t free, Dtype dtype, ChipPlace place = {}) {
  return on_chip(Buffer::sbuf, partitions, free, dtype, place);
}
inline Tensor psum(int64_t partitions, int64_t free, Dtype dtype, ChipPlace place = {}) {
  return on_chip(Buffer::psum, partitions, free, dtype, place);
}

/// [rows, columns] of HBM.
inline Tensor hbm(int64_t rows, int64_t columns, Dtype dtype) {
  auto allocation = std::make_shared<Allocation>();
  allocation->name = "h";
  allocation->buffer = Buffer::shared_hbm;
  allocation->dtype = dtype;
  allocation->shape = {rows, columns};
  allocation->without_data = true;
  allocation->bytes = rows * columns * itemsize(dtype);
  return Tensor(allocation, dtype, {{rows, columns}, {columns, 1}}, 0);
}

/// A view of a tensor's free elements [begin, begin + count), `step` apart.
inline Tensor columns(const Tensor& tensor, int64_t begin, int64_t count, int64_t step = 1) {
  std::vector<Dim> dims = tensor.dims();
  dims.back() = {count, step};
  return Tensor(tensor.allocation(), tensor.dtype(), dims, tensor.offset() + begin);
}

inline Instruction make(Engine engine, Tensor dst, std::vector<Tensor> sources, Attributes attributes) {
  return {.engine = engine,
          .dst = std::move(dst),
          .sources = std::move(sources),
          .attributes = std::move(attributes),
          .where = std::source_location::current()};
}

inline KernelRun run_of(std::vector<std::vector<Instruction>> cores,
                        Generation generation = Generation::trn2) {
  KernelRun run;
  run.options.generation = generation;
  run.options.lnc = static_cast<int64_t>(cores.size());
  for (std::vector<Instruction>& instructions : cores) {
    const auto count = static_cast<int64_t>(instructions.size());
    run.cores.push_back({std::move(instructions), count, 0, 0});
  }
  return run;
}

}  // namespace titan::nki::testing
