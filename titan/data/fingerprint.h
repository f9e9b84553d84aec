#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace titan {

/// A 64-bit hash of a sequence of texts (FNV-1a, each text preceded by its length): equal for equal sequences
/// on any machine. Names cache files and recognises a data set; no defence against forgers.
class Fingerprint {
 public:
  void add(std::string_view text) {
    add(static_cast<uint64_t>(text.size()));
    for (const char c : text) mix(static_cast<unsigned char>(c));
  }
  void add(uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) mix(static_cast<unsigned char>(value >> shift));
  }
  uint64_t value() const { return value_; }

 private:
  void mix(unsigned char byte) { value_ = (value_ ^ byte) * 0x100000001b3ULL; }

  uint64_t value_ = 0xcbf29ce484222325ULL;
};

/// 16 hexadecimal digits.
std::string hex(uint64_t value);

}  // namespace titan
