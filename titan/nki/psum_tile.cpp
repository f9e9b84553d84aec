#include "titan/nki/psum_tile.h"

#include "titan/nki/rows.h"

namespace titan::nki {

PsumTile::PsumTile(const Tensor& dst)
    : allocation_(*dst.allocation()),
      first_(dst.partition_offset()),
      partitions_(dst.partitions()),
      fresh_(allocation_.sums == nullptr) {
  const int64_t item = itemsize(dst.dtype());
  add_runs(dst, 1, dst.offset() * item, item);
  if (!fresh_) return;
  allocation_.sums = std::make_unique<WrittenBits>(allocation_.num_partitions * allocation_.partition_bytes);
}

void PsumTile::add_runs(const Tensor& dst, size_t dim, int64_t byte, int64_t item) {
  if (dim == dst.dims().size()) {
    if (!runs_.empty() && runs_.back().byte + runs_.back().count == byte) {
      runs_.back().count += item;
    } else {
      runs_.push_back({byte, item});
    }
    return;
  }
  const Dim& loop = dst.dims()[dim];
  for (int64_t i = 0; i < loop.count; ++i) add_runs(dst, dim + 1, byte + i * loop.stride * item, item);
}

template <class Visit>
void PsumTile::for_each_run(Visit visit) const {
  for (int64_t p = first_; p < first_ + partitions_; ++p) {
    for (const Run& run : runs_) visit(p * allocation_.partition_bytes + run.byte, p, run);
  }
}

PsumTile::Sums PsumTile::sums() const {
  if (fresh_) return Sums::nowhere;
  bool everywhere = true, somewhere = false;
  for_each_run([&](int64_t bit, int64_t, Run run) {
    everywhere = everywhere && allocation_.sums->covers(bit, run.count);
    somewhere = somewhere || allocation_.sums->touches(bit, run.count);
  });
  if (everywhere) return Sums::everywhere;
  return somewhere ? Sums::somewhere : Sums::nowhere;
}

void PsumTile::clear_others() {
  ChipMemory& psum = *allocation_.memory;
  for_each_run([&](int64_t bit, int64_t partition, Run run) {
    if (allocation_.sums->covers(bit, run.count)) return;
    for (int64_t i = 0; i < run.count; ++i) {
      if (allocation_.sums->covers(bit + i, 1)) continue;
      const int64_t row = allocation_.first_partition + partition;
      const int64_t byte = allocation_.byte_offset + run.byte + i;
      *psum.at(row, byte) = std::byte{0};
      psum.written().mark(psum.bit(row, byte), 1);
    }
  });
}

void PsumTile::mark() {
  for_each_run([&](int64_t bit, int64_t, Run run) { allocation_.sums->mark(bit, run.count); });
}

void PsumTile::forget_sums(const Tensor& dst) {
  if (dst.allocation()->sums == nullptr) return;
  const PsumTile tile(resolved(dst));
  tile.for_each_run([&](int64_t bit, int64_t, Run run) { tile.allocation_.sums->clear(bit, run.count); });
}

}  // namespace titan::nki
