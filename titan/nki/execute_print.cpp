#include <cstdio>
#include <vector>

#include "titan/base/strings.h"
#include "titan/nki/execute_parts.h"
#include "titan/nki/rows.h"

namespace titan::nki {

namespace {

/// A tensor's numbers, in the order of its dimensions.
std::vector<float> numbers_of(const Tensor& tensor) {
  std::vector<float> numbers(static_cast<size_t>(tensor.numel()));
  if (is_on_chip(tensor.buffer())) {
    const Rows rows(tensor);
    for (int64_t p = 0; p < rows.partitions(); ++p) rows.read(p, numbers.data() + p * rows.count());
  } else {
    for_each_run(tensor, [&](const std::byte* bytes, int64_t first, int64_t count) {
      to_float(bytes, tensor.dtype(), numbers.data() + first, count);
    });
  }
  return numbers;
}

}  // namespace

void run_device_print(const Core& core, const Instruction& instruction) {
  const Tensor& tensor = instruction.sources[0];
  const std::vector<float> numbers = numbers_of(tensor);
  const auto rows = static_cast<size_t>(tensor.ndim() > 1 ? tensor.size(0) : 1);
  const size_t count = numbers.size() / std::max<size_t>(rows, 1);
  std::string text = format("{} [core {}]: {}\n", std::get<DevicePrint>(instruction.attributes).label,
                            core.id(), tensor.describe());
  for (size_t row = 0; row < rows; ++row) {
    std::vector<std::string> parts;
    for (size_t i = 0; i < count; ++i) parts.push_back(format("{}", numbers[row * count + i]));
    text += format("  [{}] {}\n", row, join(parts, " "));
  }
  // One write, so that cores do not mix their lines.
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace titan::nki
