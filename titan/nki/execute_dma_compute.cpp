#include <algorithm>
#include <vector>

#include "titan/nki/error.h"
#include "titan/nki/execute_dma.h"

namespace titan::nki {

namespace {

/// Calls `move(row elements' first number)` with `side` at each of its rows, or once where it has none.
template <class Move>
void for_each_dma_row(DmaSide& side, int64_t rows, int64_t count, Move move) {
  side.start(OobMode::error);
  if (rows == 0) return move(0);
  for (int64_t row = 0; row < rows; ++row) {
    side.start_row(row, rows, OobMode::error);
    move(row * (count / rows));
  }
}

/// Rows are read, added to and written back on their own: of two for one place one would be lost.
void check_different(const DmaSide& dst, const Instruction& instruction) {
  std::vector<std::pair<int64_t, int64_t>> indices;
  for (int64_t row = 0; row < dst.indexed_rows(); ++row) indices.emplace_back(dst.index(row), row);
  std::sort(indices.begin(), indices.end());
  for (size_t i = 1; i < indices.size(); ++i) {
    if (indices[i].first != indices[i - 1].first) continue;
    throw KernelError("dma_compute.unique-indices",
                      format("{}: rows {} and {} of dst, {}, both have index {}; indices have to differ",
                             instruction.describe(), indices[i - 1].second, indices[i].second,
                             instruction.dst.describe(), indices[i].first),
                      instruction.where);
  }
}

}  // namespace

void run_dma_compute(const Instruction& instruction) {
  std::vector<DmaSide> sides;
  sides.emplace_back(instruction.dst, "dst", instruction);
  for (const Tensor& source : instruction.sources) sides.emplace_back(source, "src", instruction);
  const int64_t rows = dma_rows(sides), count = instruction.dst.numel();
  check_different(sides[0], instruction);

  // All is read before anything is written, for sources may be dst's own memory.
  const int64_t row_count = rows == 0 ? count : count / rows;
  std::vector<float> sum(static_cast<size_t>(count)), row(static_cast<size_t>(row_count));
  for (size_t i = 1; i < sides.size(); ++i) {
    for_each_dma_row(sides[i], rows, count, [&](int64_t first) {
      if (i == 1) return read_floats(sides[i].stream(), sum.data() + first, row_count);
      read_floats(sides[i].stream(), row.data(), row_count);
      for (int64_t j = 0; j < row_count; ++j)
        sum[static_cast<size_t>(first + j)] += row[static_cast<size_t>(j)];
    });
  }
  for_each_dma_row(sides[0], rows, count,
                   [&](int64_t first) { write_floats(sides[0].stream(), sum.data() + first, row_count); });
}

}  // namespace titan::nki
