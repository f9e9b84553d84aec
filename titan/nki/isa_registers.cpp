#include "titan/nki/isa_registers.h"

#include <array>
#include <cstring>

#include "titan/base/strings.h"
#include "titan/nki/error.h"
#include "titan/nki/memory.h"
#include "titan/nki/rows.h"

namespace titan::nki::isa {

void check_register_tensor(std::string_view name, const Tensor& tensor, const std::source_location& where) {
  const bool fits = tensor.defined() && tensor.numel() == 1 && tensor.buffer() != Buffer::psum &&
                    tensor.indirection().kind != Tensor::Indirection::Kind::vector &&
                    (tensor.dtype() == Dtype::int32 || tensor.dtype() == Dtype::uint32);
  if (fits) return;
  throw KernelError(format("{}.operand", name),
                    format("{} takes one int32 or uint32 in SBUF or HBM, got {}", name,
                           tensor.defined() ? tensor.describe() : "no tensor"),
                    where);
}

int64_t load_number(const Tensor& from) {
  require_data(from);
  std::array<std::byte, 4> bits{};
  if (is_on_chip(from.buffer())) {
    Rows(from).read_bits(0, bits.data());
  } else {
    const Allocation& memory = *from.allocation();
    for_each_run(resolved(from), [&](std::byte* bytes, int64_t, int64_t) {
      if (memory.written && !memory.written->covers(bytes - memory.data, 4)) {
        throw KernelError("memory.unwritten", format("{} is read before it was written", from.describe()));
      }
      std::memcpy(bits.data(), bytes, 4);
    });
  }
  int32_t number = 0;
  std::memcpy(&number, bits.data(), 4);
  return from.dtype() == Dtype::uint32 ? int64_t{static_cast<uint32_t>(number)} : int64_t{number};
}

void store_number(const Tensor& to, int64_t number) {
  require_data(to);
  std::array<std::byte, 4> bits{};
  const auto low = static_cast<uint32_t>(number);
  std::memcpy(bits.data(), &low, 4);
  if (is_on_chip(to.buffer())) {
    Rows(to).write_bits(0, bits.data());
    return;
  }
  const Allocation& memory = *to.allocation();
  for_each_run(resolved(to), [&](std::byte* bytes, int64_t, int64_t) {
    std::memcpy(bytes, bits.data(), 4);
    if (memory.written) memory.written->mark(bytes - memory.data, 4);
  });
}

}  // namespace titan::nki::isa
