#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "titan/nki/chip_places.h"
#include "titan/nki/tensor.h"

namespace titan::nki {

/// The chips whose rules are checked.
enum class Generation : uint8_t { trn1 = 2, trn2 = 3, trn3 = 4 };  // NeuronCore-v2, v3, v4

/// Sizes of one NeuronCore.
struct CoreSizes {
  static constexpr int64_t kPartitions = 128;
  static constexpr int64_t kPsumBanks = 8, kPsumBankBytes = 2048;  ///< of one partition

  int64_t sbuf_partition_bytes;           ///< what a kernel may use
  int64_t physical_sbuf_partition_bytes;  ///< with what the compiler keeps to itself
  int64_t psum_partition_bytes = kPsumBanks * kPsumBankBytes;

  static CoreSizes of(Generation generation);
};

/// Which bytes were written; one bit a byte. Two cores may mark and ask at the same time.
class WrittenBits {
 public:
  explicit WrittenBits(int64_t bytes = 0, bool written = false);
  void mark(int64_t begin, int64_t count);
  void clear(int64_t begin, int64_t count);
  /// Whether all of them were written.
  bool covers(int64_t begin, int64_t count) const;
  /// Whether one of them was written.
  bool touches(int64_t begin, int64_t count) const;

 private:
  std::vector<uint64_t> words_;
};

/// SBUF or PSUM of one core: partitions one after another, each of the same number of bytes.
class ChipMemory {
 public:
  ChipMemory(Buffer buffer, int64_t partition_bytes);
  ChipMemory(const ChipMemory&) = delete;
  ChipMemory& operator=(const ChipMemory&) = delete;

  Buffer buffer() const { return buffer_; }
  int64_t partition_bytes() const { return partition_bytes_; }
  std::byte* at(int64_t partition, int64_t byte) {
    return bytes_.get() + partition * partition_bytes_ + byte;
  }
  WrittenBits& written() { return written_; }
  int64_t bit(int64_t partition, int64_t byte) const { return partition * partition_bytes_ + byte; }

  /// Finds `bytes` free bytes at the same place in every partition of [first, first + count); lowest
  /// address first. KernelError, with what is in use, when there are none. PSUM allocations do not cross a
  /// bank unless they are larger than one, and then begin at one.
  int64_t reserve(int64_t first, int64_t count, int64_t bytes, int64_t alignment, const std::string& name) {
    return places_->reserve(first, count, bytes, alignment, name);
  }
  /// Takes these very bytes, whoever has them too: reserve() keeps off them. KernelError when they leave the
  /// memory.
  void claim(int64_t first, int64_t count, int64_t byte, int64_t bytes, const std::string& name) {
    places_->claim(first, count, byte, bytes, name);
  }
  /// Gives back what one reserve() or claim() took.
  void release(int64_t first, int64_t count, int64_t byte, int64_t bytes) noexcept {
    places_->release(first, count, byte, bytes);
  }
  /// The most bytes of a partition that were in use at once; bytes that tensors share count once.
  int64_t peak_bytes() const { return places_->peak_bytes(); }
  /// Expires with the memory: what outlives it neither reads nor releases.
  std::weak_ptr<ChipPlaces> places() const { return places_; }
  /// Whether `places` came from this memory, and from no earlier one at its address.
  bool is_meant_by(const std::weak_ptr<ChipPlaces>& places) const {
    return !places_.owner_before(places) && !places.owner_before(places_);
  }

 private:
  struct Free {
    void operator()(std::byte* bytes) const noexcept;
  };

  Buffer buffer_;
  int64_t partition_bytes_;
  std::unique_ptr<std::byte[], Free> bytes_;
  WrittenBits written_;
  std::shared_ptr<ChipPlaces> places_;
};

/// The bytes behind tensors.
struct Allocation {
  std::string name;
  Buffer buffer = Buffer::sbuf;
  Dtype dtype = Dtype::float32;  ///< as allocated
  std::vector<int64_t> shape;    ///< as allocated

  // HBM: bytes of the host, with their owner; `written` is empty when all of them count as written (inputs).
  std::byte* data = nullptr;
  int64_t bytes = 0;
  std::shared_ptr<void> owner;
  std::unique_ptr<WrittenBits> written;
  /// Whether an instruction wrote here, on shapes too: the owner is told after the run.
  std::atomic<bool> changed = false;
  /// Shapes only: no bytes are there.
  bool without_data = false;

  // On chip: a block of partitions. `reserved` is false for explicit addresses, which may alias.
  ChipMemory* memory = nullptr;
  std::weak_ptr<ChipPlaces> places;
  int64_t first_partition = 0, num_partitions = 0;
  int64_t byte_offset = 0, partition_bytes = 0;
  bool reserved = false;
  /// PSUM, once a matmul has written through this tensor: the places that hold its sums, to which the next
  /// one adds. A bit a byte, partition by partition of the allocation.
  std::unique_ptr<WrittenBits> sums;

  Allocation() = default;
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;
  ~Allocation();
};

/// HBM for `shape` on the host, owned by the allocation and not yet written; `without_data` for shapes only.
/// "memory.host" where the host has less to give than that: `available` bytes, or else what it says itself.
Tensor hbm_tensor(std::string name, std::vector<int64_t> shape, Dtype dtype, Buffer buffer, bool without_data,
                  std::optional<int64_t> available = {});

/// A tensor on chip: at the lowest free place, or at {partition, byte} which may alias others. Without an
/// address its bytes become unwritten. KernelError when it does not fit.
struct ChipAddress {
  int64_t partition = 0, byte = 0;
};
Tensor chip_tensor(ChipMemory& memory, std::string name, std::vector<int64_t> shape, Dtype dtype,
                   std::optional<ChipAddress> address, bool without_data);

/// The partition of its memory that a view on chip begins in.
int64_t first_partition(const Tensor& view);

/// "memory.core-gone" where the kernel whose memory a view on chip is of has ended.
void require_core_lives(const Tensor& view);

/// "ndarray q" for messages, or "ndarray": not every tensor has a name.
std::string ndarray_named(const std::string& name);

/// Notes in Allocation::changed that an instruction writes a view, if that lies in HBM.
void note_change(const Tensor& view);

/// "memory.without-data" unless a tensor, and the offset of a view, have bytes.
void require_data(const Tensor& tensor);

/// A contiguous tensor over bytes of the host that `owner` keeps alive; null data: shapes only.
Tensor host_tensor(std::string name, std::vector<int64_t> shape, Dtype dtype, void* data,
                   std::shared_ptr<void> owner);

}  // namespace titan::nki
