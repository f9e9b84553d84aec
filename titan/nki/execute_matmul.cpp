#include <algorithm>
#include <bit>
#include <cstring>

#include "titan/nki/check_rules.h"
#include "titan/nki/error.h"
#include "titan/nki/execute_parts.h"
#include "titan/nki/gemm.h"
#include "titan/nki/memory.h"
#include "titan/nki/psum_tile.h"
#include "titan/nki/rows.h"

namespace titan::nki {

namespace {

[[noreturn]] void fail_matmul(const Instruction& instruction, std::string_view rule,
                              const std::string& what) {
  throw KernelError(rule, format("{}: {}", instruction.describe(), what), instruction.where);
}

/// Floats that begin at a cache line; they keep their memory from one instruction to the next.
class Workspace {
 public:
  float* floats(size_t count) {
    if (storage_.size() < count + 16) storage_.resize(count + 16);
    const auto address = reinterpret_cast<uintptr_t>(storage_.data());
    return storage_.data() + (-address % 64) / sizeof(float);
  }

 private:
  std::vector<float> storage_;
};

/// To 10 bits of mantissa, to nearest, even on ties.
float round_to_tfloat32(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7f800000U) == 0x7f800000U) return value;
  return std::bit_cast<float>((bits + 0xfffU + ((bits >> 13) & 1U)) & ~0x1fffU);
}

/// An operand in float32 as PackedGemm takes it: [K, F], or [K, 2, F] with a depth of 2 K.
float* pack_operand(const Tensor& tensor, bool double_row, int64_t panel, const GemmKernel& kernel,
                    Workspace& workspace) {
  const Rows rows(tensor);
  const int64_t per_partition = double_row ? 2 : 1;
  const int64_t depth = rows.partitions() * per_partition, width = rows.count() / per_partition;
  const int64_t panels = (width + panel - 1) / panel;
  float* const packed = workspace.floats(static_cast<size_t>(panels * panel * depth));
  thread_local std::vector<float> row;
  row.resize(static_cast<size_t>(rows.count()));
  for (int64_t p = 0; p < rows.partitions(); ++p) {
    const bool half = tensor.dtype() == Dtype::bfloat16;
    if (const std::byte* bits = half ? rows.contiguous_read(p) : nullptr) {
      kernel.pack_bfloat16(reinterpret_cast<const uint16_t*>(bits), width, packed + p * panel, panel, depth);
      continue;
    }
    rows.read(p, row.data());
    if (tensor.dtype() == Dtype::tfloat32) {
      for (float& value : row) value = round_to_tfloat32(value);
    }
    for (int64_t k = p * per_partition; k < (p + 1) * per_partition; ++k) {
      const float* const from = row.data() + k % per_partition * width;
      for (int64_t first = 0; first < width; first += panel) {
        const int64_t count = std::min(panel, width - first);
        std::memcpy(packed + first * depth + k * panel, from + first,
                    static_cast<size_t>(count) * sizeof(float));
      }
    }
  }
  return packed;
}

/// Whether to add to what is there; prepares the places that are then written for the first time.
bool prepare_accumulation(const Instruction& instruction, PsumTile& tile, PsumTile::Sums sums) {
  const std::optional<bool> wish = std::get<Matmul>(instruction.attributes).accumulate;
  if (wish.has_value()) {
    if (*wish && sums != PsumTile::Sums::everywhere) {
      fail_matmul(instruction, "nc_matmul.accumulate-untouched",
                  format("accumulate is true, but {} of dst hold no sum of a matmul of this tensor: give the "
                         "first matmul accumulate = false, or none",
                         sums == PsumTile::Sums::nowhere ? "the places" : "some places"));
    }
    return *wish;
  }
  if (sums == PsumTile::Sums::nowhere) return false;
  if (sums == PsumTile::Sums::somewhere) tile.clear_others();
  return true;
}

void multiply(const Instruction& instruction) {
  const bool double_row = std::get<Matmul>(instruction.attributes).perf_mode == MatmulPerfMode::double_row;
  const GemmKernel& kernel = gemm_kernel();
  thread_local Workspace left, right, result;
  const Tensor dst = resolved(instruction.dst);
  const Tensor& stationary = instruction.sources[0];
  PackedGemm gemm{};
  gemm.a = pack_operand(stationary, double_row, kernel.panel_rows, kernel, left);
  gemm.b = pack_operand(instruction.sources[1], double_row, kernel.panel_cols, kernel, right);
  gemm.rows = dst.partitions();
  gemm.cols = dst.free_size();
  gemm.depth = stationary.partitions() * (double_row ? 2 : 1);

  PsumTile tile(dst);
  const PsumTile::Sums sums = tile.sums();
  gemm.accumulate = prepare_accumulation(instruction, tile, sums);
  const Rows rows(dst);
  std::byte* const in_place = dst.dtype() == Dtype::float32 ? rows.contiguous_write(0) : nullptr;
  if (in_place != nullptr) {
    // Marks the rows; where sums were, all is marked.
    for (int64_t m = 1; sums != PsumTile::Sums::everywhere && m < gemm.rows; ++m) rows.contiguous_write(m);
    gemm.c = reinterpret_cast<float*>(in_place);
    ChipMemory& psum = *dst.allocation()->memory;
    gemm.c_row = (psum.at(1, 0) - psum.at(0, 0)) / static_cast<int64_t>(sizeof(float));
    kernel.run(gemm);
  } else {
    gemm.c = result.floats(static_cast<size_t>(gemm.rows * gemm.cols));
    gemm.c_row = gemm.cols;
    for (int64_t m = 0; gemm.accumulate && m < gemm.rows; ++m) rows.read(m, gemm.c + m * gemm.c_row);
    kernel.run(gemm);
    for (int64_t m = 0; m < gemm.rows; ++m) rows.write(m, gemm.c + m * gemm.c_row);
  }
  if (sums != PsumTile::Sums::everywhere) tile.mark();
}

/// Which row of stationary each column of the result is: moving has one 1 a column.
std::vector<int64_t> permutation_of(const Instruction& instruction, const Tensor& moving) {
  const Rows rows(moving);
  std::vector<int64_t> sources(static_cast<size_t>(rows.count()), -1);
  std::vector<float> row(sources.size());
  for (int64_t k = 0; k < rows.partitions(); ++k) {
    rows.read(k, row.data());
    for (size_t n = 0; n < row.size(); ++n) {
      if (row[n] == 0) continue;
      if (row[n] != 1 || sources[n] >= 0) {
        fail_matmul(
            instruction, "nc_matmul.transpose-moving",
            format("a transpose needs an identity as moving (a single 1 in each column); element [{}, {}] "
                   "is {}",
                   k, n, row[n]));
      }
      sources[n] = k;
    }
  }
  for (size_t n = 0; n < sources.size(); ++n) {
    if (sources[n] >= 0) continue;
    fail_matmul(instruction, "nc_matmul.transpose-moving",
                format("a transpose needs an identity as moving; its column {} has no 1", n));
  }
  return sources;
}

/// Moves stationary's bits: NaNs and infinities too.
void transpose_by_matmul(const Instruction& instruction) {
  const Tensor &dst = instruction.dst, &stationary = instruction.sources[0];
  if (std::get<Matmul>(instruction.attributes).accumulate.value_or(false)) {
    fail_matmul(instruction, "nc_matmul.transpose-accumulate",
                "a transpose overwrites; accumulate cannot be true");
  }
  const std::vector<int64_t> sources = permutation_of(instruction, instruction.sources[1]);
  const auto item = static_cast<size_t>(itemsize(dst.dtype()));
  const Rows from(stationary), to(dst);
  const auto width = static_cast<size_t>(from.count());
  std::vector<std::byte> data(static_cast<size_t>(from.partitions()) * width * item);
  for (int64_t k = 0; k < from.partitions(); ++k) {
    from.read_bits(k, data.data() + static_cast<size_t>(k) * width * item);
  }
  std::vector<std::byte> row(sources.size() * item);
  for (size_t m = 0; m < width; ++m) {
    for (size_t n = 0; n < sources.size(); ++n) {
      std::memcpy(row.data() + n * item, data.data() + (static_cast<size_t>(sources[n]) * width + m) * item,
                  item);
    }
    to.write_bits(static_cast<int64_t>(m), row.data());
  }
  PsumTile::forget_sums(dst);
}

}  // namespace

void run_matmul(Core& core, const Instruction& instruction) {
  check_bank_at_run_time({instruction, core.options()});
  if (std::get<Matmul>(instruction.attributes).is_transpose) return transpose_by_matmul(instruction);
  multiply(instruction);
}

}  // namespace titan::nki
