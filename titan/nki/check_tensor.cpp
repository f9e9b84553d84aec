#include "titan/nki/check_rules.h"
#include "titan/nki/memory.h"
#include "titan/nki/rows.h"

namespace titan::nki {

namespace {

constexpr int64_t kMaxPartitions = CoreSizes::kPartitions;

void check_bytes_in_bank(const Checked& checked, const Tensor& dst, bool is_placed) {
  if (checked.options.generation >= Generation::trn3) return;
  int64_t lowest = dst.offset(), highest = lowest;
  for (size_t i = 1; i < dst.dims().size(); ++i) {
    const int64_t reach = (dst.dims()[i].count - 1) * dst.dims()[i].stride;
    (reach < 0 ? lowest : highest) += reach;
  }
  const int64_t item = itemsize(dst.dtype()), begin = dst.allocation()->byte_offset;
  const int64_t first_byte = begin + lowest * item, last_byte = begin + (highest + 1) * item - 1;
  constexpr int64_t kBank = CoreSizes::kPsumBankBytes;
  const bool fits = is_placed ? first_byte / kBank == last_byte / kBank : last_byte - first_byte < kBank;
  checked.require(fits, "psum-bank",
                  "dst takes bytes {} to {} of its partitions{}, which is more than one bank of PSUM (2048 "
                  "bytes: 512 float32): use one result for each bank",
                  first_byte, last_byte, is_placed ? "" : ", plus an offset");
}

int64_t moving_limit(const Checked& checked) {
  if (checked.options.generation < Generation::trn3) return 512;
  return checked.dst().dtype() == Dtype::bfloat16 ? 8192 : 4096;
}

/// Elements that a column or row of an operand counts for: double_row takes two rows at once.
int64_t columns(const Tensor& tensor, const Matmul& matmul) {
  return matmul.perf_mode == MatmulPerfMode::double_row ? tensor.free_size() / 2 : tensor.free_size();
}

void check_matmul_dtypes(const Checked& checked, const Matmul& matmul) {
  const Dtype stationary = checked.source(0).dtype(), moving = checked.source(1).dtype();
  const Dtype dst = checked.dst().dtype();
  checked.require(is_float(stationary) && is_float(moving), "dtype",
                  "TensorE multiplies floats, got {} and {}", dtype_name(stationary), dtype_name(moving));
  checked.require(is_32_bit_float(stationary) == is_32_bit_float(moving), "dtype-pair",
                  "float32 goes with float32 only, got {} and {}: copy one of them by tensor_copy",
                  dtype_name(stationary), dtype_name(moving));
  if (matmul.is_transpose) {
    checked.require(dst == stationary, "transpose-dtype",
                    "a transpose moves stationary's bits: dst must be {}, got {}", dtype_name(stationary),
                    dtype_name(dst));
    return;
  }
  const bool halves = dst == Dtype::bfloat16 && checked.options.generation >= Generation::trn3;
  checked.require(dst == Dtype::float32 || halves, "dst-dtype", "dst must be float32{}, got {}",
                  checked.options.generation >= Generation::trn3 ? " or bfloat16" : "", dtype_name(dst));
}

void check_double_row(const Checked& checked) {
  checked.require(checked.options.generation >= Generation::trn2, "double-row-generation",
                  "double_row needs trn2 or later");
  for (const Tensor& tensor : checked.instruction.sources) {
    checked.require(is_fp8(tensor.dtype()), "double-row-dtype", "double_row takes 8-bit floats, got {}",
                    dtype_name(tensor.dtype()));
    checked.require(tensor.ndim() == 3 && tensor.size(1) == 2, "double-row-shape",
                    "double_row takes operands [K, 2, columns], got {}", shape_text(tensor));
  }
}

bool has_offset_at_run_time(const Tensor& tensor) {
  return tensor.indirection().kind != Tensor::Indirection::Kind::none;
}

}  // namespace

void check_within_bank(const Checked& checked) {
  check_bytes_in_bank(checked, checked.dst(), !has_offset_at_run_time(checked.dst()));
}

void check_bank_at_run_time(const Checked& checked) {
  if (has_offset_at_run_time(checked.dst())) check_bytes_in_bank(checked, resolved(checked.dst()), true);
}

void check_rules(const Checked& checked, const Matmul& matmul) {
  const Tensor &dst = checked.dst(), &stationary = checked.source(0), &moving = checked.source(1);
  checked.require(is_sbuf(stationary) && is_sbuf(moving), "inputs-sbuf",
                  "stationary and moving must be in SBUF, got {} and {}", buffer_name(stationary.buffer()),
                  buffer_name(moving.buffer()));
  checked.require(is_psum(dst), "dst-psum", "dst must be in PSUM, got {}: copy it from there by tensor_copy",
                  buffer_name(dst.buffer()));
  if (matmul.perf_mode == MatmulPerfMode::double_row) check_double_row(checked);
  check_matmul_dtypes(checked, matmul);
  checked.require(stationary.partitions() == moving.partitions(), "contraction",
                  "stationary has {} partitions and moving {}: they are the sum's dimension and must agree",
                  stationary.partitions(), moving.partitions());
  const int64_t rows = columns(stationary, matmul), cols = columns(moving, matmul);
  checked.require(rows <= kMaxPartitions, "stationary-free-size",
                  "stationary has {} elements a partition, at most {} fit: split it", rows, kMaxPartitions);
  checked.require(cols <= moving_limit(checked), "moving-free-size",
                  "moving has {} elements a partition, at most {} fit: split it", cols,
                  moving_limit(checked));
  checked.require(dst.partitions() == rows && dst.free_size() == cols, "dst-shape",
                  "dst must be [{}, {}] (columns of stationary, columns of moving), got {}", rows, cols,
                  shape_text(dst));
  check_engine_access(checked);
  check_within_bank(checked);
}

void check_rules(const Checked& checked, const Transpose&) {
  const Tensor &dst = checked.dst(), &data = checked.source(0);
  checked.require(is_on_chip(dst.buffer()) && is_on_chip(data.buffer()), "operand-in-hbm",
                  "data and dst must be in SBUF or PSUM: bring data by dma_copy, or use dma_transpose");
  const bool on_tensor = checked.runs_on(Engine::tensor);
  if (on_tensor) {
    checked.require(is_sbuf(data), "tensor-data-sbuf", "TensorE reads data from SBUF, got {}",
                    buffer_name(data.buffer()));
    checked.require(is_psum(dst), "tensor-dst-psum", "TensorE writes dst into PSUM, got {}",
                    buffer_name(dst.buffer()));
  }
  const int64_t limit = on_tensor ? kMaxPartitions : 32;
  checked.require(data.partitions() <= limit && data.free_size() <= limit, "size",
                  "{} transposes up to {} x {}, data is {} x {}{}", on_tensor ? "TensorE" : "VectorE", limit,
                  limit, data.partitions(), data.free_size(),
                  on_tensor ? ": split it" : ": split it, or give TensorE a dst in PSUM");
  checked.require(dst.dtype() == data.dtype(), "dtype", "dst must be of data's dtype, {}, got {}",
                  dtype_name(data.dtype()), dtype_name(dst.dtype()));
  checked.require(dst.partitions() == data.free_size() && dst.free_size() == data.partitions(), "dst-shape",
                  "dst must be [{}, {}], got {}", data.free_size(), data.partitions(), shape_text(dst));
  check_engine_access(checked);
  if (on_tensor) check_within_bank(checked);
}

}  // namespace titan::nki
