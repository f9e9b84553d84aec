#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "titan/nki/instruction.h"
#include "titan/nki/rows.h"

namespace titan::nki {

/// A source's partitions as float32, without a copy where they lie so in memory. A row holds until the next
/// one is asked for.
class FloatRows {
 public:
  explicit FloatRows(const Tensor& view)
      : rows_(view),
        direct_(view.dtype() == Dtype::float32),
        row_(std::make_unique_for_overwrite<float[]>(static_cast<size_t>(rows_.count()))) {}

  int64_t partitions() const { return rows_.partitions(); }
  int64_t count() const { return rows_.count(); }

  const float* at(int64_t partition) {
    if (direct_) {
      const std::byte* bytes = rows_.contiguous_read(partition);
      if (bytes != nullptr && reinterpret_cast<uintptr_t>(bytes) % alignof(float) == 0) {
        return reinterpret_cast<const float*>(bytes);
      }
    }
    rows_.read(partition, row_.get());
    return row_.get();
  }

 private:
  Rows rows_;
  bool direct_;
  std::unique_ptr<float[]> row_;
};

/// A destination's partitions: a row is computed in row(), so that it may overlap sources, and rounded by
/// write().
class FloatResults {
 public:
  explicit FloatResults(const Tensor& view)
      : rows_(view), row_(std::make_unique_for_overwrite<float[]>(static_cast<size_t>(rows_.count()))) {}

  int64_t partitions() const { return rows_.partitions(); }
  int64_t count() const { return rows_.count(); }
  float* row() { return row_.get(); }
  void write(int64_t partition) { rows_.write(partition, row_.get()); }

 private:
  Rows rows_;
  std::unique_ptr<float[]> row_;
};

/// A scalar operand of each partition.
class FloatScalars {
 public:
  explicit FloatScalars(const ScalarOperand& operand) : number_(static_cast<float>(operand.constant)) {
    if (operand.is_tensor()) rows_.emplace(operand.tensor);
  }
  float at(int64_t partition) {
    if (rows_) rows_->read(partition, &number_);
    return number_;
  }

 private:
  std::optional<Rows> rows_;
  float number_;
};

/// The elements of integer tensors as 32 bits; smaller ones are extended by zeros, or by their sign.
class IntegerRows {
 public:
  IntegerRows(const Tensor& view, bool extends_sign);
  int64_t partitions() const { return rows_.partitions(); }
  int64_t count() const { return rows_.count(); }
  const uint32_t* at(int64_t partition);

 private:
  Rows rows_;
  int64_t item_;
  bool extends_sign_;
  std::unique_ptr<std::byte[]> bits_;
  std::unique_ptr<uint32_t[]> row_;
};

/// Writes the low bits of each.
class IntegerResults {
 public:
  explicit IntegerResults(const Tensor& view);
  int64_t partitions() const { return rows_.partitions(); }
  int64_t count() const { return rows_.count(); }
  uint32_t* row() { return row_.get(); }
  void write(int64_t partition);

 private:
  Rows rows_;
  int64_t item_;
  std::unique_ptr<std::byte[]> bits_;
  std::unique_ptr<uint32_t[]> row_;
};

}  // namespace titan::nki
