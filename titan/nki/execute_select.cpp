#include <vector>

#include "titan/nki/execute_parts.h"
#include "titan/nki/execute_rows.h"

namespace titan::nki {

namespace {

/// offset + sum of i * step for each element of a partition; the rules keep them within 32 bits.
std::vector<int32_t> pattern_numbers(const std::vector<std::pair<int64_t, int64_t>>& pattern,
                                     int64_t offset) {
  std::vector<int32_t> numbers = {static_cast<int32_t>(offset)};
  for (const auto& [step, count] : pattern) {
    std::vector<int32_t> finer;
    finer.reserve(numbers.size() * static_cast<size_t>(count));
    for (const int32_t number : numbers) {
      for (int64_t i = 0; i < count; ++i) finer.push_back(static_cast<int32_t>(number + i * step));
    }
    numbers = std::move(finer);
  }
  return numbers;
}

/// Fits into 32 bits, where what is added alone need not.
int32_t sum_of(int32_t number, uint32_t added) {
  return static_cast<int32_t>(static_cast<uint32_t>(number) + added);
}

}  // namespace

void run_iota(const Instruction& instruction) {
  const auto& op = std::get<Iota>(instruction.attributes);
  const std::vector<int32_t> numbers = pattern_numbers(op.pattern, op.offset);
  const Dtype dtype = instruction.dst.dtype();
  const auto count = static_cast<int64_t>(numbers.size());
  if (dtype == Dtype::int32 || dtype == Dtype::uint32) {
    IntegerResults dst(instruction.dst);
    for (int64_t p = 0; p < dst.partitions(); ++p) {
      for (int64_t i = 0; i < count; ++i) {
        const int64_t number = numbers[static_cast<size_t>(i)] + p * op.channel_multiplier;
        dst.row()[i] = dtype == Dtype::uint32 && number < 0 ? 0U : static_cast<uint32_t>(number);
      }
      dst.write(p);
    }
    return;
  }
  FloatResults dst(instruction.dst);
  for (int64_t p = 0; p < dst.partitions(); ++p) {
    const auto first = static_cast<uint32_t>(p * op.channel_multiplier);
    for (int64_t i = 0; i < count; ++i) {
      dst.row()[i] = static_cast<float>(sum_of(numbers[static_cast<size_t>(i)], first));
    }
    dst.write(p);
  }
}

void run_affine_select(const Instruction& instruction) {
  const auto& op = std::get<AffineSelect>(instruction.attributes);
  const std::vector<int32_t> numbers = pattern_numbers(op.pattern, op.offset);
  const auto on_false = static_cast<float>(op.on_false);
  FloatRows tile(instruction.sources[0]);
  FloatResults dst(instruction.dst);
  const int64_t count = dst.count();
  std::vector<float> keeps(static_cast<size_t>(count));
  for (int64_t p = 0; p < dst.partitions(); ++p) {
    const float* from = tile.at(p);
    const auto first = static_cast<uint32_t>(p * op.channel_multiplier);
    // float32 rounds large numbers, but never to 0 or past it.
    for (int64_t i = 0; i < count; ++i) {
      keeps[static_cast<size_t>(i)] = static_cast<float>(sum_of(numbers[static_cast<size_t>(i)], first));
    }
    apply(op.compare, Elements(static_cast<const float*>(keeps.data())), 0.0F, keeps.data(), count);
    for (int64_t i = 0; i < count; ++i)
      dst.row()[i] = keeps[static_cast<size_t>(i)] != 0 ? from[i] : on_false;
    dst.write(p);
  }
}

void run_range_select(const Instruction& instruction) {
  const auto& op = std::get<RangeSelect>(instruction.attributes);
  const auto on_false = static_cast<float>(op.on_false);
  const bool reduces = instruction.reduce_dst.defined();
  FloatRows tile(instruction.sources[0]);
  FloatScalars bound0(op.bound0), bound1(op.bound1);
  FloatResults dst(instruction.dst);
  std::optional<FloatResults> reduced;
  if (reduces) reduced.emplace(instruction.reduce_dst);
  const int64_t count = dst.count();
  std::vector<float> places(static_cast<size_t>(count)), first(places), second(places);
  for (int64_t i = 0; i < count; ++i) {
    places[static_cast<size_t>(i)] = static_cast<float>(op.range_start + static_cast<double>(i));
  }
  const auto compare = [&](Operation by, float bound, std::vector<float>& to) {
    apply(by, Elements(static_cast<const float*>(places.data())), bound, to.data(), count);
  };
  for (int64_t p = 0; p < dst.partitions(); ++p) {
    const float* from = tile.at(p);
    compare(op.compare0, bound0.at(p), first);
    compare(op.compare1, bound1.at(p), second);
    for (int64_t i = 0; i < count; ++i) {
      const auto k = static_cast<size_t>(i);
      dst.row()[i] = first[k] != 0 && second[k] != 0 ? from[i] : on_false;
    }
    if (reduces) *reduced->row() = reduce(Operation::maximum, dst.row()[0], dst.row() + 1, count - 1);
    dst.write(p);
    if (reduces) reduced->write(p);
  }
}

}  // namespace titan::nki
