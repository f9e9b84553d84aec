#include <algorithm>
#include <cstring>

#include "titan/nki/check_rules.h"
#include "titan/nki/execute_parts.h"
#include "titan/nki/psum_tile.h"
#include "titan/nki/rows.h"

namespace titan::nki {

namespace {

/// to[f][p] = from[p][f], in blocks that stay in the first-level cache.
template <class Element>
void transpose_elements(const std::byte* from, std::byte* to, int64_t partitions, int64_t free) {
  constexpr int64_t kBlock = 16;
  const auto* const source = reinterpret_cast<const Element*>(from);
  auto* const target = reinterpret_cast<Element*>(to);
  for (int64_t p0 = 0; p0 < partitions; p0 += kBlock) {
    for (int64_t f = 0; f < free; ++f) {
      for (int64_t p = p0; p < std::min(p0 + kBlock, partitions); ++p) {
        target[f * partitions + p] = source[p * free + f];
      }
    }
  }
}

}  // namespace

void run_transpose(Core& core, const Instruction& instruction) {
  if (instruction.engine == Engine::tensor) check_bank_at_run_time({instruction, core.options()});
  const Rows from(instruction.sources[0]), to(instruction.dst);
  const int64_t partitions = from.partitions(), free = from.count(), item = itemsize(instruction.dst.dtype());
  thread_local std::vector<std::byte> rows, columns;
  rows.resize(static_cast<size_t>(partitions * free * item));
  columns.resize(rows.size());
  for (int64_t p = 0; p < partitions; ++p) from.read_bits(p, rows.data() + p * free * item);
  if (item == 1) transpose_elements<uint8_t>(rows.data(), columns.data(), partitions, free);
  if (item == 2) transpose_elements<uint16_t>(rows.data(), columns.data(), partitions, free);
  if (item == 4) transpose_elements<uint32_t>(rows.data(), columns.data(), partitions, free);
  for (int64_t f = 0; f < free; ++f) to.write_bits(f, columns.data() + f * partitions * item);
  PsumTile::forget_sums(instruction.dst);
}

}  // namespace titan::nki
