#include "titan/nki/execute_dma.h"

#include <algorithm>
#include <cstring>

#include "titan/nki/error.h"
#include "titan/nki/execute_parts.h"
#include "titan/nki/register.h"

namespace titan::nki {

namespace {

using Kind = Tensor::Indirection::Kind;

void run_dma_copy(const Instruction& instruction) {
  const OobMode mode = std::get<DmaCopy>(instruction.attributes).oob_mode;
  std::vector<DmaSide> sides;
  sides.emplace_back(instruction.dst, "dst", instruction);
  sides.emplace_back(instruction.sources[0], "src", instruction);
  DmaSide &dst = sides[0], &src = sides[1];
  const int64_t rows = dma_rows(sides), count = instruction.dst.numel();
  if (!dst.start(mode) || !src.start(mode)) return;
  if (rows == 0) return transfer(dst.stream(), src.stream(), count);
  for (int64_t row = 0; row < rows; ++row) {
    if (!dst.start_row(row, rows, mode) || !src.start_row(row, rows, mode)) continue;
    transfer(dst.stream(), src.stream(), count / rows);
  }
}

void run_dma_transpose(const Instruction& instruction) {
  const std::vector<int64_t>& axes = std::get<DmaTranspose>(instruction.attributes).axes;
  Stream to(instruction.dst, "dst", instruction), from(instruction.sources[0], "src", instruction, axes);
  transfer(to, from, instruction.dst.numel());
}

}  // namespace

DmaSide::DmaSide(const Tensor& view, const char* name, const Instruction& instruction)
    : view_(&view), name_(name), kind_(view.indirection().kind), stream_(view, name, instruction) {
  check(kind_ != Kind::vector || !is_on_chip(view.buffer()), "a view with an index per row lies in HBM");
}

int64_t DmaSide::index(int64_t row) const {
  const Tensor::Indirection& indirection = view_->indirection();
  if (indirection.scalar_register != nullptr) return indirection.scalar_register->value();
  const Instruction& instruction = stream_.instruction();
  check(row < indirection.offsets->numel(), "a view has an index for each of its rows");
  Stream offsets(*indirection.offsets, "offset", instruction);
  offsets.seek(row);
  offsets.check_written(1);
  int32_t value = 0;
  std::memcpy(&value, offsets.next().data, sizeof value);
  return value;
}

bool DmaSide::start(OobMode mode) { return kind_ != Kind::scalar || move_by_index(0, mode); }

bool DmaSide::start_row(int64_t row, int64_t rows, OobMode mode) {
  if (kind_ == Kind::vector) {
    stream_.take_row(row);
    return move_by_index(row, mode);
  }
  stream_.seek(row * (view_->numel() / rows));
  return true;
}

bool DmaSide::move_by_index(int64_t row, OobMode mode) {
  const Tensor::Indirection& indirection = view_->indirection();
  const int64_t number = index(row);
  const bool inside =
      number >= 0 && number < indirection.limit && stream_.move_to(number * indirection.stride);
  if (inside || mode == OobMode::skip) return inside;
  const Instruction& instruction = stream_.instruction();
  const std::string row_name = kind_ == Kind::vector ? format("row {} of ", row) : "";
  const std::string reason =
      number >= 0 && number < indirection.limit
          ? format("from index {} on it leaves the tensor (there are {})", number, indirection.limit)
          : format("index {} is not within 0 .. {}", number, indirection.limit - 1);
  throw KernelError(
      "dma.out-of-bounds",
      format("{}: {}{}, {}: {}", instruction.describe(), row_name, name_, view_->describe(), reason),
      instruction.where);
}

int64_t dma_rows(const std::vector<DmaSide>& sides) {
  int64_t rows = 0;
  for (const DmaSide& side : sides) rows = std::max(rows, side.indexed_rows());
  return rows;
}

void run_dma(Core&, const Instruction& instruction) {
  if (std::holds_alternative<DmaCopy>(instruction.attributes)) return run_dma_copy(instruction);
  if (std::holds_alternative<DmaTranspose>(instruction.attributes)) return run_dma_transpose(instruction);
  run_dma_compute(instruction);
}

}  // namespace titan::nki
