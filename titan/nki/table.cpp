#include <algorithm>
#include <array>

#include "titan/base/strings.h"
#include "titan/nki/cost.h"
#include "titan/nki/cost_constants.h"

namespace titan::nki {
namespace {

std::string microseconds(double seconds) { return fixed(seconds * 1e6, 2); }

/// "  vector        12.50   43.1 %   17": a name on the left, the rest on the right of their columns.
std::string engine_line(std::string_view name, std::string_view busy, std::string_view share,
                        std::string_view count) {
  const auto right = [](std::string_view text, size_t width) {
    return std::string(width - std::min(width, text.size()), ' ') + std::string(text);
  };
  const std::string left(name);
  return "  " + left + std::string(12 - std::min<size_t>(12, left.size()), ' ') + right(busy, 12) +
         right(share, 9) + right(count, 15) + "\n";
}

struct EngineUse {
  double busy = 0;  // seconds; of DMA the mean over its queues
  int64_t count = 0;
};

std::string core_table(const CoreRecord& record, const CoreTimeline& timeline, int64_t core, double seconds) {
  std::array<EngineUse, 7> uses;
  for (const Span& span : timeline.spans) {
    const Instruction& instruction = record.instructions[static_cast<size_t>(span.instruction)];
    if (std::holds_alternative<CoreBarrier>(instruction.attributes)) continue;  // waiting is not work
    uses[static_cast<size_t>(span.engine)].busy += span.end - span.begin;
  }
  int64_t bytes = 0;
  for (const Instruction& instruction : record.instructions) {
    ++uses[static_cast<size_t>(instruction.engine)].count;
    bytes += dma_bytes(instruction);
  }
  uses[static_cast<size_t>(Engine::dma)].busy /= static_cast<double>(kDmaQueues);
  std::string text = format("core {}: {} us, {} instructions\n", core, microseconds(timeline.seconds),
                            with_commas(record.num_instructions));
  text += engine_line("engine", "busy us", "share", "instructions");
  for (size_t i = 0; i < uses.size(); ++i) {
    if (uses[i].count == 0) continue;
    const double share = seconds > 0 ? 100 * uses[i].busy / seconds : 0;
    text += engine_line(engine_name(static_cast<Engine>(i)), microseconds(uses[i].busy),
                        fixed(share, 1) + " %", with_commas(uses[i].count));
  }
  return text + format("  dma bytes {}, peak SBUF {} and PSUM {} bytes a partition\n", with_commas(bytes),
                       with_commas(record.peak_sbuf_bytes), with_commas(record.peak_psum_bytes));
}

}  // namespace

std::string engine_table(const KernelRun& run, const Prediction& prediction) {
  std::string text = format("predicted {} us\n", microseconds(prediction.seconds));
  for (size_t core = 0; core < run.cores.size(); ++core)
    text +=
        core_table(run.cores[core], prediction.cores[core], static_cast<int64_t>(core), prediction.seconds);
  return text;
}

}  // namespace titan::nki
