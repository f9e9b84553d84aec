#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace titan {

/// Pieces of memory laid one after the other, each starting at a multiple of 64 bytes: what one rank sends to
/// others in a collective over many tensors.
class ByteStream {
 public:
  /// A part of a piece: which piece, where in it, where in memory, where in the stream.
  struct Part {
    size_t piece;
    int64_t offset;
    std::byte* data;
    int64_t bytes;
    int64_t position;
  };

  void add(void* data, int64_t bytes) {
    pieces_.push_back({static_cast<std::byte*>(data), bytes, length_});
    length_ += (bytes + 63) / 64 * 64;
  }

  int64_t length() const { return length_; }

  /// Calls use(Part) for what lies in [begin, begin + bytes) of the stream.
  template <class Use>
  void each(int64_t begin, int64_t bytes, Use&& use) const {
    const int64_t end = begin + bytes;
    // The first piece that could reach into the range.
    auto piece = std::upper_bound(pieces_.begin(), pieces_.end(), begin,
                                  [](int64_t position, const Piece& p) { return position < p.position; });
    if (piece != pieces_.begin()) --piece;
    for (; piece != pieces_.end() && piece->position < end; ++piece) {
      const int64_t from = std::max(begin, piece->position),
                    to = std::min(end, piece->position + piece->bytes);
      if (from >= to) continue;
      const int64_t offset = from - piece->position;
      use(Part{static_cast<size_t>(piece - pieces_.begin()), offset, piece->data + offset, to - from, from});
    }
  }

 private:
  struct Piece {
    std::byte* data;
    int64_t bytes;
    int64_t position;
  };
  std::vector<Piece> pieces_;
  int64_t length_ = 0;
};

}  // namespace titan
