#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "titan/nki/instruction.h"
#include "titan/nki/operands.h"

namespace titan::nki {

struct Allocation;

/// When an instruction was through with memory, in seconds.
struct AccessTime {
  Engine engine = Engine::unknown;
  double end = 0;      ///< the engine has done its part
  double visible = 0;  ///< everybody sees what was written; for readers: the memory may be overwritten
};

/// Bytes that a view touches: partitions [first, last) of SBUF or PSUM, or 0 to 1 for HBM, at byte ranges.
/// Exact for up to 256 runs of bytes; beyond, neighbouring runs count with what is between them.
struct Footprint {
  enum class Space : uint8_t { sbuf, psum, hbm } space = Space::hbm;
  int32_t first = 0, last = 1;
  std::vector<std::pair<int64_t, int64_t>> ranges;  ///< [begin, end)
};

/// Who has last read and written which bytes of one memory: an interval map over bytes, where each interval
/// holds blocks of partitions.
class ByteTimes {
 public:
  /// When `engine` may access the bytes: after writers, and if `writes` after readers too.
  double ready(const Footprint& footprint, Engine engine, bool reads, bool writes) const;
  void note(const Footprint& footprint, const AccessTime& time, bool writes);

 private:
  struct Block {
    int32_t first, last;
    AccessTime time;
    bool is_write;
  };
  struct Segment {
    int64_t end;
    std::vector<Block> blocks;
  };
  using Segments = std::map<int64_t, Segment>;  // by first byte

  void split(int64_t byte);
  Segments::iterator forget(Segments::iterator begin, int64_t end, int32_t first, int32_t last);
  void note_range(int64_t begin, int64_t end, const Block& block);

  Segments segments_;
};

/// The memories that one core sees.
class MemoryTimes {
 public:
  /// When an instruction's operands are there to be used by its engine.
  double ready(const Instruction& instruction);
  /// When the instruction that ready() was last called with was through.
  void note(const AccessTime& time);

 private:
  struct Operand {
    Footprint bytes;
    Access access;
  };
  Footprint footprint(const Tensor& tensor);
  int64_t hbm_base(const Allocation& allocation);

  std::vector<Operand> operands_;
  std::array<ByteTimes, 3> spaces_;
  std::unordered_map<const Allocation*, int64_t> bases_;  // of tensors without data
};

}  // namespace titan::nki
