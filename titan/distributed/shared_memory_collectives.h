#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "titan/distributed/byte_stream.h"
#include "titan/distributed/ordered_sum.h"
#include "titan/distributed/shared_memory.h"

// The collectives as copies and sums through the slots of a SharedMemory. Every member calls the same one
// with streams of the same lengths. Nothing is padded, and what a rank has already is not copied.
namespace titan {

/// Member r's `mine` becomes everyone's streams[r]; `root` -1, or only that member's. A member's own stream
/// is copied unless it is in place. Lengths of all streams are known to all members; only who receives needs
/// memory behind them.
void gather_streams(SharedMemory& memory, Collective collective, const ByteStream& mine,
                    const std::vector<ByteStream>& streams, int64_t root = -1);

/// Member r's parts[d] (parts to send, measured in the bytes of the sender's dtypes) meet at member d, which
/// adds them up into `outs`: piece i of its stream to outs[i].
void reduce_streams(SharedMemory& memory, const std::vector<ByteStream>& parts,
                    std::span<std::byte* const> outs, std::span<const Reduction> reductions);

/// Everyone's `count` elements become their sum or maximum.
void all_reduce_in_place(SharedMemory& memory, std::byte* data, int64_t count, const Reduction& reduction);

/// Everyone's bytes become the root's.
void broadcast_in_place(SharedMemory& memory, std::byte* data, int64_t bytes, int64_t root);

}  // namespace titan
