#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "titan/base/strings.h"
#include "titan/nki/execute_parts.h"
#include "titan/nki/rows.h"
#include "titan/nki/transfer.h"

namespace titan::nki {

namespace {

constexpr int64_t kPrintedWhole = 1000;  ///< elements up to which a tensor is printed whole
constexpr int64_t kPrintedEnds = 3;  ///< of a longer one: rows at each end, and elements at each end of them

std::string printed_element(const std::byte* bits, Dtype dtype) {
  const auto whole = [&]<class Integer>(Integer number) {
    std::memcpy(&number, bits, sizeof number);
    return std::to_string(number);
  };
  if (dtype == Dtype::int32) return whole(int32_t{});
  if (dtype == Dtype::uint32) return whole(uint32_t{});
  float number = 0;  // holds all integers of 16 bits
  to_float(bits, dtype, &number, 1);
  return format("{}", number);
}

/// Of what a shortened tensor leaves out too.
void check_all_written(Stream& stream, int64_t count) {
  stream.note_access(count, false);
  while (count > 0) {
    const int64_t run = stream.next().count;
    stream.check_written(run);
    stream.advance(run);
    count -= run;
  }
}

/// Calls `each` with the numbers 0 .. count - 1 in order, or with those at both ends and `gap` between them.
template <class Each, class Gap>
void for_each_printed(int64_t count, bool shortens, const Each& each, const Gap& gap) {
  const bool has_gap = shortens && count > 2 * kPrintedEnds;
  for (int64_t i = 0; i < count; ++i) {
    if (has_gap && i == kPrintedEnds) {
      gap();
      i = count - kPrintedEnds;
    }
    each(i);
  }
}

}  // namespace

void run_device_print(const Core& core, const Instruction& instruction) {
  const Tensor tensor = resolved(instruction.sources[0]);
  const bool shortens = tensor.numel() > kPrintedWhole;
  const int64_t rows = tensor.ndim() > 1 ? tensor.size(0) : 1, count = tensor.numel() / rows;
  Stream stream(tensor, "tensor", instruction);
  check_all_written(stream, tensor.numel());
  std::string text = format("{} [core {}]: {}\n", std::get<DevicePrint>(instruction.attributes).label,
                            core.id(), tensor.describe());
  const auto add_row = [&](int64_t row) {
    std::vector<std::string> parts;
    const auto add_element = [&](int64_t i) {
      stream.seek(row * count + i);
      parts.push_back(printed_element(stream.next().data, tensor.dtype()));
    };
    for_each_printed(count, shortens, add_element, [&] { parts.emplace_back("..."); });
    text += format("  [{}] {}\n", row, join(parts, " "));
  };
  for_each_printed(rows, shortens, add_row, [&] { text += "  ...\n"; });
  // One write, so that cores do not mix their lines.
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace titan::nki
