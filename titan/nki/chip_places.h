#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace titan::nki {

enum class Buffer : uint8_t;

/// Which bytes of SBUF or PSUM are in use. Threads may share it: a tensor's last view may go on another one
/// than its core's.
class ChipPlaces {
 public:
  ChipPlaces(Buffer buffer, int64_t partition_bytes) : buffer_(buffer), partition_bytes_(partition_bytes) {}

  // As ChipMemory has them.
  int64_t reserve(int64_t first, int64_t count, int64_t bytes, int64_t alignment, const std::string& name);
  void claim(int64_t first, int64_t count, int64_t byte, int64_t bytes, const std::string& name);
  void release(int64_t first, int64_t count, int64_t byte, int64_t bytes) noexcept;
  int64_t peak_bytes() const;

 private:
  struct Range {
    int64_t first, count, end;
    bool is_claim;
    std::string name;
  };
  using Ranges = std::multimap<int64_t, Range>;  // by begin
  using Request = std::array<int64_t, 4>;        // first, count, bytes, alignment

  int64_t place(int64_t byte, int64_t bytes, int64_t alignment) const;
  void add(int64_t begin, Range range);
  int64_t used_bytes(int64_t partition) const;
  std::string in_use(int64_t first, int64_t count) const;

  Buffer buffer_;
  int64_t partition_bytes_;
  mutable std::mutex mutex_;
  Ranges ranges_;
  int64_t longest_ = 0;                ///< bytes of a range, ever
  int64_t num_claims_ = 0;             ///< of ranges_; others do not overlap
  std::array<int64_t, 128> taken_{};   ///< bytes of each partition, those of claims as often as claimed
  std::map<Request, int64_t> lowest_;  ///< below it there is no place for such a request
  int64_t peak_ = 0;
};

}  // namespace titan::nki
