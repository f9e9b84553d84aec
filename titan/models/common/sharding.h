#pragma once

#include "titan/distributed/tensor_parallel.h"

namespace titan {

/// The reference's tensor-parallel layout of a Decoder's tree. wq, wk, wv, w1, w3 and the head are cut by
/// output, wo and w2 by input, the token table by vocabulary; norms are whole. The input of an attention or a
/// feed-forward is gathered once and its output summed once. With `sequence_parallel` what lies between is
/// cut along the tokens. ConfigError naming a parameter that no rule places (one that a user's module adds).
ShardingSpec decoder_sharding(const Module& decoder, bool sequence_parallel);

}  // namespace titan
