#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "titan/nki/core.h"

namespace titan::nki {

/// Cycles that an instruction keeps its engine busy, by the published formulas [Note: cycles]; 0 for DMA and
/// for those that only synchronise.
double busy_cycles(const Instruction& instruction, Generation generation);

/// Bytes that a DMA moves; 0 for other instructions.
int64_t dma_bytes(const Instruction& instruction);

/// Bytes of HBM that a DMA reads and writes; 0 for other instructions.
int64_t hbm_bytes(const Instruction& instruction);

/// Adds what an instruction keeps its engine, or HBM, busy with.
void add_work(EngineWork& work, const Instruction& instruction, Generation generation);

/// Hz of an engine; 0 for those whose time is not told in cycles (dma, sync, unknown).
double clock_rate(Engine engine, Generation generation);

/// When an instruction ran, in seconds from the kernel's begin. A DMA has a span for each time that one of
/// its queues moved bytes; a barrier's is the wait.
struct Span {
  int64_t instruction;  ///< index in the core's record
  Engine engine;
  int64_t queue;  ///< of DMA engines; 0 for others
  double begin, end;
};

/// One core's run in predicted time.
struct CoreTimeline {
  std::vector<Span> spans;
  double seconds = 0;
};

/// A kernel in predicted time: engines run their instructions in order, beside one another; an instruction
/// waits for what writes its operands, and for readers of what it overwrites. Documented constants only:
/// nothing is fitted. [Note: timeline] says what is modelled. The run must have been recorded.
struct Prediction {
  std::vector<CoreTimeline> cores;
  double seconds = 0;
};
Prediction predict(const KernelRun& run);

/// Chrome's trace format (open it in Perfetto): a process per core, a thread per engine.
std::string chrome_trace(const KernelRun& run, const Prediction& prediction);

/// A table: each engine's busy time, its share, instructions; DMA bytes; peak SBUF and PSUM.
std::string engine_table(const KernelRun& run, const Prediction& prediction);

}  // namespace titan::nki
