#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "titan/nki/instruction.h"
#include "titan/nki/memory.h"

namespace titan::nki {

/// How a kernel is run.
enum class RunMode : uint8_t {
  execute,  ///< each instruction is checked and carried out at once
  shapes,   ///< each instruction is checked; no data is read or written
};

struct RunOptions {
  int64_t lnc = 1;  ///< physical cores: 1 or 2
  Generation generation = Generation::trn2;
  RunMode mode = RunMode::execute;
  bool record = false;  ///< keep the instructions, for costs and traces
  /// A core that carries out more is stopped: the kernel does not end.
  int64_t instruction_budget = int64_t{50} * 1000 * 1000;
};

class Rendezvous;  // of the two cores of a logical one

/// One physical NeuronCore that runs a kernel: its memories and what it has carried out.
class Core {
 public:
  Core(int64_t id, const RunOptions& options, Rendezvous* peers);
  ~Core();

  int64_t id() const { return id_; }
  const RunOptions& options() const { return options_; }
  ChipMemory& sbuf() { return sbuf_; }
  ChipMemory& psum() { return psum_; }
  ChipMemory& memory(Buffer buffer) { return buffer == Buffer::psum ? psum_ : sbuf_; }
  Rendezvous& peers();

  /// Checks an instruction, then runs or only records it, as the mode says. KernelError with the rule that
  /// it breaks.
  void issue(Instruction instruction);

  const std::vector<Instruction>& instructions() const { return instructions_; }
  int64_t num_instructions() const { return num_instructions_; }

 private:
  int64_t id_;
  RunOptions options_;
  Rendezvous* peers_;
  ChipMemory sbuf_, psum_;
  std::vector<Instruction> instructions_;
  int64_t num_instructions_ = 0;
};

/// The core whose kernel this thread runs; KernelError outside of a kernel.
Core& current_core();

/// Checks every rule of the device that an instruction is subject to: placement, partitions, sizes, dtypes,
/// banks. KernelError. [Note: rules] in check.cpp names their sources.
void check_instruction(const Instruction& instruction, const RunOptions& options);

/// Carries an instruction out on the core's data. KernelError for what only data shows: reads of memory that
/// was never written, indices out of bounds, a peer that does not come.
void execute(Core& core, const Instruction& instruction);

/// What a run has left behind, of each core.
struct CoreRecord {
  std::vector<Instruction> instructions;  ///< empty unless RunOptions::record
  int64_t num_instructions = 0;
  int64_t peak_sbuf_bytes = 0, peak_psum_bytes = 0;  ///< of one partition
};

struct KernelRun {
  RunOptions options;
  std::vector<CoreRecord> cores;
};

/// Runs `body` once on each of `options.lnc` cores (two threads for two). The first error of a core stops the
/// other one. A core that waits for one that has ended, or that waits for something else, is a KernelError
/// that names both places.
KernelRun run_on_cores(const RunOptions& options, const std::function<void()>& body);

}  // namespace titan::nki
