#include <algorithm>

#include "titan/nki/check_rules.h"
#include "titan/nki/register.h"

namespace titan::nki {

namespace {

using IndirectionKind = Tensor::Indirection::Kind;

bool has_vector_offset(const Tensor& tensor) { return tensor.indirection().kind == IndirectionKind::vector; }

/// DMA reaches HBM and SBUF.
void check_dma_memory(const Checked& checked) {
  for (const NamedOperand& operand : named_operands(checked.instruction)) {
    checked.require(!is_psum(*operand.tensor), "psum",
                    "{} is in PSUM, which DMA does not reach: copy through SBUF by tensor_copy",
                    operand.name);
  }
}

void check_counts(const Checked& checked, const Tensor& src) {
  checked.require(checked.dst().numel() == src.numel(), "element-count",
                  "dst has {} elements and a source {}: they must agree", checked.dst().numel(), src.numel());
}

void check_one_indirection(const Checked& checked) {
  int64_t found = 0;
  for (const NamedOperand& operand : named_operands(checked.instruction)) {
    found += has_vector_offset(*operand.tensor) ? 1 : 0;
  }
  checked.require(found <= 1, "vector-offsets", "{} operands have a vector offset, a DMA takes one", found);
}

/// Whether two views name the same elements, chosen by the same offsets.
bool is_same_view(const Tensor& a, const Tensor& b) {
  const Tensor::Indirection &of_a = a.indirection(), &of_b = b.indirection();
  const bool same_place = a.allocation() == b.allocation() && a.dtype() == b.dtype() &&
                          a.dims() == b.dims() && a.offset() == b.offset() &&
                          a.partition_offset() == b.partition_offset();
  if (!same_place || of_a.kind != of_b.kind || of_a.stride != of_b.stride) return false;
  if (of_a.scalar_register != nullptr && of_b.scalar_register != nullptr)
    return of_a.scalar_register->value() == of_b.scalar_register->value();
  if (of_a.offsets == nullptr || of_b.offsets == nullptr) return of_a.offsets == of_b.offsets;
  return is_same_view(*of_a.offsets, *of_b.offsets);
}

/// With a vector offset a sum reads, adds and writes back: dst[idx] = dst[idx] + src, or dst = dst +
/// src[idx].
void check_indirect_sum(const Checked& checked, const DmaCompute& compute) {
  const Tensor& dst = checked.dst();
  const std::vector<Tensor>& sources = checked.instruction.sources;
  const int64_t chosen = std::count_if(sources.begin(), sources.end(), has_vector_offset);
  if (chosen == 0 && !has_vector_offset(dst)) return;
  checked.require(compute.unique_indices, "unique-indices",
                  "sums over rows by vector offset need unique_indices: two writes to one row would race");
  const auto is_dst = [&](const Tensor& source) { return is_same_view(source, dst); };
  const auto is_tile = [](const Tensor& tensor) { return is_sbuf(tensor) && !has_vector_offset(tensor); };
  const bool takes_dst = std::any_of(sources.begin(), sources.end(), is_dst);
  const bool has_tile = std::any_of(sources.begin(), sources.end(), is_tile);
  checked.require(
      sources.size() == 2 && chosen == 1 && takes_dst && has_tile, "indirect-sources",
      "with a vector offset the sources are two, dst itself and what is added to it, of which one "
      "has the offset and the other is in SBUF: dst[idx] = dst[idx] + src or dst = dst + src[idx]");
}

bool is_documented_order(const std::vector<int64_t>& axes) {
  using Order = std::vector<int64_t>;
  return axes == Order{1, 0} || axes == Order{2, 1, 0} || axes == Order{3, 1, 2, 0};
}

}  // namespace

void check_rules(const Checked& checked, const DmaCopy&) {
  check_dma_memory(checked);
  check_is_written_once(checked, "dst", checked.dst());
  check_counts(checked, checked.source(0));
  check_one_indirection(checked);
}

void check_rules(const Checked& checked, const DmaTranspose& transpose) {
  check_dma_memory(checked);
  check_is_written_once(checked, "dst", checked.dst());
  const Tensor &dst = checked.dst(), &src = checked.source(0);
  checked.require(is_sbuf(dst), "dst-sbuf", "dst must be in SBUF, got {}", buffer_name(dst.buffer()));
  checked.require(dst.dtype() == src.dtype(), "dtype", "dst and src must have one dtype, got {} and {}",
                  dtype_name(dst.dtype()), dtype_name(src.dtype()));
  checked.require(
      is_documented_order(transpose.axes) && static_cast<int64_t>(transpose.axes.size()) == src.ndim(),
      "axes", "axes must be [1, 0], [2, 1, 0] or [3, 1, 2, 0], as many as src has dimensions ({})",
      src.ndim());
  std::vector<int64_t> expected;
  for (const int64_t axis : transpose.axes) expected.push_back(src.size(axis));
  checked.require(dst.shape() == expected, "dst-shape",
                  "dst must have src's sizes in the order of axes, got {} from {}", shape_text(dst),
                  shape_text(src));
  checked.require(
      dst.indirection().kind == IndirectionKind::none && src.indirection().kind == IndirectionKind::none,
      "indirect", "takes no offset that is known at run time: gather by dma_copy first");
}

void check_rules(const Checked& checked, const DmaCompute& compute) {
  const std::vector<Tensor>& sources = checked.instruction.sources;
  check_dma_memory(checked);
  check_is_written_once(checked, "dst", checked.dst());
  checked.require(!sources.empty() && sources.size() <= 16, "sources", "takes 1 to 16 sources, got {}",
                  sources.size());
  checked.require(compute.reduce == Operation::add, "reduce-op", "reduces by add only, got {}",
                  operation_name(compute.reduce));
  for (const Tensor& source : sources) check_counts(checked, source);
  check_indirect_sum(checked, compute);
}

void check_rules(const Checked& checked, const SendRecv& sendrecv) {
  const Tensor &dst = checked.dst(), &src = checked.source(0);
  checked.require(checked.options.generation >= Generation::trn2, "generation",
                  "cores of trn1 have no pair to swap with");
  checked.require(is_sbuf(dst) && is_sbuf(src), "sbuf-only", "src and dst must be in SBUF, got {} and {}",
                  buffer_name(src.buffer()), buffer_name(dst.buffer()));
  checked.require(dst.shape() == src.shape(), "shape", "src and dst must have one shape, got {} and {}",
                  shape_text(src), shape_text(dst));
  checked.require(dst.dtype() == src.dtype(), "dtype", "src and dst must have one dtype, got {} and {}",
                  dtype_name(src.dtype()), dtype_name(dst.dtype()));
  check_is_written_once(checked, "dst", dst);
  for (const int64_t rank : {sendrecv.send_to, sendrecv.receive_from}) {
    checked.require(rank == 0 || rank == 1, "rank", "ranks are 0 or 1, got {}", rank);
  }
}

void check_rules(const Checked& checked, const CoreBarrier&) {
  checked.require(checked.source(0).buffer() == Buffer::shared_hbm, "data-shared-hbm",
                  "data must be in shared_hbm, which both cores see, got {}",
                  buffer_name(checked.source(0).buffer()));
}

void check_rules(const Checked& checked, const DevicePrint&) {
  checked.require(!has_vector_offset(checked.source(0)), "vector-offset",
                  "the tensor has a vector offset, which only DMA takes: gather by dma_copy");
  constexpr int64_t kMostPrinted = int64_t{1} << 20;
  checked.require(checked.source(0).numel() <= kMostPrinted, "print-size",
                  "the tensor has {} elements, at most {} are printed: print a part of it",
                  with_commas(checked.source(0).numel()), with_commas(kMostPrinted));
}

}  // namespace titan::nki
