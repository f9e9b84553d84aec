#pragma once

#include <cstdint>

namespace titan {

/// A pseudo-random order of 0 .. size-1 that needs no memory: each place is computed from `key` alone.
///
/// Four rounds of a balanced Feistel network over the least even number of bits that holds `size`; values
/// outside the range are sent through it again ("cycle walking": Black and Rogaway, Ciphers with Arbitrary
/// Finite Domains).
class Permutation {
 public:
  /// `size` >= 1.
  Permutation(uint64_t size, uint64_t key);

  /// What stands at `place` (below size).
  uint64_t operator()(uint64_t place) const;

 private:
  uint64_t encrypt(uint64_t value) const;

  uint64_t size_;
  uint64_t key_;
  int half_bits_;
};

/// Mixes two numbers into a key (the finaliser of splitmix64).
uint64_t mix_key(uint64_t a, uint64_t b);

}  // namespace titan
