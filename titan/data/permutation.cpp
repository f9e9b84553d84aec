#include "titan/data/permutation.h"

#include <bit>

#include "titan/base/error.h"

namespace titan {

uint64_t mix_key(uint64_t a, uint64_t b) {
  uint64_t z = a * 0x9e3779b97f4a7c15ULL + b + 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

Permutation::Permutation(uint64_t size, uint64_t key)
    : size_(size), key_(key), half_bits_((std::bit_width(size - 1) + 1) / 2) {
  check(size >= 1, "a permutation has at least one element");
}

uint64_t Permutation::encrypt(uint64_t value) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = value >> half_bits_, right = value & mask;
  for (uint64_t round = 0; round < 4; ++round) {
    const uint64_t next = left ^ (mix_key(key_ + round, right) & mask);
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

uint64_t Permutation::operator()(uint64_t place) const {
  check(place < size_, "the place lies inside the permutation");
  do {
    place = encrypt(place);
  } while (place >= size_);
  return place;
}

}  // namespace titan
