#include "titan/base/elf.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

#include "titan/base/error.h"
#include "titan/base/file.h"

namespace titan {
namespace {

/// The end of a range, also of one whose numbers are nonsense.
uint64_t end_of(uint64_t begin, uint64_t size) {
  return begin > std::numeric_limits<uint64_t>::max() - size ? std::numeric_limits<uint64_t>::max()
                                                             : begin + size;
}

}  // namespace

void require_whole_library(const std::filesystem::path& library) {
  const MappedFile file(library);
  const auto bytes = file.bytes();
  Elf64_Ehdr header{};
  if (bytes.size() < SELFMAG || std::memcmp(bytes.data(), ELFMAG, SELFMAG) != 0) return;
  uint64_t needed = sizeof header;
  if (bytes.size() >= needed) {
    std::memcpy(&header, bytes.data(), sizeof header);
    const uint64_t table = uint64_t{header.e_phnum} * sizeof(Elf64_Phdr);
    needed = end_of(header.e_shoff, uint64_t{header.e_shnum} * header.e_shentsize);
    needed = std::max(needed, end_of(header.e_phoff, table));
    for (uint64_t i = 0; i < header.e_phnum && end_of(header.e_phoff, table) <= bytes.size(); ++i) {
      Elf64_Phdr segment{};
      std::memcpy(&segment, bytes.data() + header.e_phoff + i * sizeof segment, sizeof segment);
      needed = std::max(needed, end_of(segment.p_offset, segment.p_filesz));
    }
  }
  if (needed <= bytes.size()) return;
  throw ValueError("{} is cut off: it has {} bytes and its header tells of {}; copy or build it again",
                   library.string(), bytes.size(), needed);
}

}  // namespace titan
