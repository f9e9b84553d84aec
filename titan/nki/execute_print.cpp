#include <algorithm>
#include <cstdio>
#include <vector>

#include "titan/base/strings.h"
#include "titan/nki/execute_parts.h"
#include "titan/nki/rows.h"
#include "titan/nki/transfer.h"

namespace titan::nki {

namespace {

/// A tensor's numbers, in the order of its dimensions.
std::vector<float> numbers_of(const Instruction& instruction) {
  const Tensor tensor = resolved(instruction.sources[0]);
  std::vector<float> numbers(static_cast<size_t>(tensor.numel()));
  Stream stream(tensor, "tensor", instruction);
  read_floats(stream, numbers.data(), tensor.numel());
  return numbers;
}

}  // namespace

void run_device_print(const Core& core, const Instruction& instruction) {
  const Tensor& tensor = instruction.sources[0];
  const std::vector<float> numbers = numbers_of(instruction);
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
