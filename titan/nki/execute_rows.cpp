#include "titan/nki/execute_rows.h"

#include <cstring>

namespace titan::nki {

namespace {

template <class Small>
void widen(const std::byte* bits, uint32_t* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    Small element;
    std::memcpy(&element, bits + i * static_cast<int64_t>(sizeof(Small)), sizeof(Small));
    to[i] = static_cast<uint32_t>(element);
  }
}

template <class Small>
void narrow(const uint32_t* from, std::byte* bits, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const auto element = static_cast<Small>(from[i]);
    std::memcpy(bits + i * static_cast<int64_t>(sizeof(Small)), &element, sizeof(Small));
  }
}

}  // namespace

IntegerRows::IntegerRows(const Tensor& view, bool extends_sign)
    : rows_(view),
      item_(itemsize(view.dtype())),
      extends_sign_(extends_sign),
      bits_(std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(rows_.count() * item_))),
      row_(std::make_unique_for_overwrite<uint32_t[]>(static_cast<size_t>(rows_.count()))) {}

const uint32_t* IntegerRows::at(int64_t partition) {
  rows_.read_bits(partition, bits_.get());
  if (item_ == 4) widen<uint32_t>(bits_.get(), row_.get(), count());
  if (item_ == 2 && extends_sign_) widen<int16_t>(bits_.get(), row_.get(), count());
  if (item_ == 2 && !extends_sign_) widen<uint16_t>(bits_.get(), row_.get(), count());
  if (item_ == 1 && extends_sign_) widen<int8_t>(bits_.get(), row_.get(), count());
  if (item_ == 1 && !extends_sign_) widen<uint8_t>(bits_.get(), row_.get(), count());
  return row_.get();
}

IntegerResults::IntegerResults(const Tensor& view)
    : rows_(view),
      item_(itemsize(view.dtype())),
      bits_(std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(rows_.count() * item_))),
      row_(std::make_unique_for_overwrite<uint32_t[]>(static_cast<size_t>(rows_.count()))) {}

void IntegerResults::write(int64_t partition) {
  if (item_ == 4) narrow<uint32_t>(row_.get(), bits_.get(), count());
  if (item_ == 2) narrow<uint16_t>(row_.get(), bits_.get(), count());
  if (item_ == 1) narrow<uint8_t>(row_.get(), bits_.get(), count());
  rows_.write_bits(partition, bits_.get());
}

}  // namespace titan::nki
