#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "titan/nki/execute_parts.h"
#include "titan/nki/execute_rows.h"
#include "titan/nki/memory.h"

namespace titan::nki {

namespace {

void copy_bits(const Instruction& instruction) {
  const Rows src(instruction.sources[0]), dst(instruction.dst);
  const int64_t bytes = src.count() * itemsize(instruction.dst.dtype());
  const auto row = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(bytes));
  for (int64_t p = 0; p < dst.partitions(); ++p) {
    src.read_bits(p, row.get());
    dst.write_bits(p, row.get());
  }
}

/// The bits of a number in a dtype.
std::vector<std::byte> bits_of(double value, Dtype dtype) {
  std::vector<std::byte> bits(static_cast<size_t>(itemsize(dtype)));
  if (dtype == Dtype::int32 || dtype == Dtype::uint32) {
    // float32 does not hold all of them.
    const auto whole = static_cast<uint32_t>(static_cast<int64_t>(value));
    std::memcpy(bits.data(), &whole, sizeof(whole));
  } else {
    const auto number = static_cast<float>(value);
    from_float(&number, dtype, bits.data(), 1);
  }
  return bits;
}

/// Where the elements of a partition are, for writes that leave some of them alone.
class ScatteredElements {
 public:
  explicit ScatteredElements(const Tensor& view) : view_(resolved(view)), item_(itemsize(view.dtype())) {
    offsets_ = {view_.offset()};
    for (size_t i = 1; i < view.dims().size(); ++i) {
      std::vector<int64_t> finer;
      for (const int64_t offset : offsets_) {
        for (int64_t k = 0; k < view.dims()[i].count; ++k)
          finer.push_back(offset + k * view.dims()[i].stride);
      }
      offsets_ = std::move(finer);
    }
  }
  void write_bits(int64_t partition, int64_t element, const std::byte* from) const {
    const Allocation& allocation = *view_.allocation();
    const int64_t at = first_partition(view_) + partition;
    const int64_t byte = allocation.byte_offset + offsets_[static_cast<size_t>(element)] * item_;
    std::memcpy(allocation.memory->at(at, byte), from, static_cast<size_t>(item_));
    allocation.memory->written().mark(allocation.memory->bit(at, byte), item_);
  }

 private:
  Tensor view_;
  int64_t item_;
  std::vector<int64_t> offsets_;
};

}  // namespace

void run_tensor_copy(const Instruction& instruction) {
  if (instruction.dst.dtype() == instruction.sources[0].dtype()) return copy_bits(instruction);
  const Rows src(instruction.sources[0]);
  FloatResults dst(instruction.dst);  // a row is read before it is written: dst may lie over src
  for (int64_t p = 0; p < dst.partitions(); ++p) {
    src.read(p, dst.row());
    dst.write(p);
  }
}

void run_predicated_copy(const Instruction& instruction) {
  const bool reverse = std::get<TensorCopyPredicated>(instruction.attributes).reverse;
  const int64_t item = itemsize(instruction.dst.dtype());
  const Rows src(instruction.sources[0]);
  IntegerRows predicate(instruction.sources[1], false);
  const ScatteredElements dst(instruction.dst);
  const auto row = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(src.count() * item));
  for (int64_t p = 0; p < src.partitions(); ++p) {
    src.read_bits(p, row.get());
    const uint32_t* takes = predicate.at(p);
    for (int64_t i = 0; i < src.count(); ++i) {
      if ((takes[i] != 0) != reverse) dst.write_bits(p, i, row.get() + i * item);
    }
  }
}

void run_memset(const Instruction& instruction) {
  const Tensor& dst = instruction.dst;
  const std::vector<std::byte> bits = bits_of(std::get<Memset>(instruction.attributes).value, dst.dtype());
  const Rows rows(dst);
  std::vector<std::byte> row;
  row.reserve(bits.size() * static_cast<size_t>(rows.count()));
  for (int64_t i = 0; i < rows.count(); ++i) row.insert(row.end(), bits.begin(), bits.end());
  for (int64_t p = 0; p < rows.partitions(); ++p) rows.write_bits(p, row.data());
}

void run_shuffle(const Instruction& instruction) {
  const auto& mask = std::get<StreamShuffle>(instruction.attributes).mask;
  const Rows src(instruction.sources[0]), dst(instruction.dst);
  const auto bytes = static_cast<size_t>(src.count() * itemsize(instruction.dst.dtype()));
  // All 32 rows are read before one is written: dst may be src.
  std::vector<std::vector<std::byte>> rows(32, std::vector<std::byte>(bytes));
  const auto is_taken = [&](int64_t p) { return mask[static_cast<size_t>(p % 32)] != 255; };
  for (int64_t first = 0; first < dst.partitions(); first += 32) {
    const int64_t end = std::min(first + 32, dst.partitions());
    for (int64_t p = first; p < end; ++p) {
      const auto k = static_cast<size_t>(p - first);
      if (is_taken(p)) src.read_bits(first + mask[k], rows[k].data());
    }
    for (int64_t p = first; p < end; ++p) {
      if (is_taken(p)) dst.write_bits(p, rows[static_cast<size_t>(p - first)].data());
    }
  }
}

}  // namespace titan::nki
