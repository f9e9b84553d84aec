#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
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
  bool record = false;      ///< keep the instructions, for costs and traces
  bool count_work = false;  ///< add up what the engines do (CoreRecord::work)
  /// A core that carries out more is stopped: the kernel does not end. None: see instruction_budget().
  std::optional<int64_t> instruction_budget = {};
};

/// The instructions that a core may carry out: those of the options, else TITAN_NKI_INSTRUCTION_BUDGET of the
/// environment, else 5 million, or 2 million where `record` keeps them (1.5 GB). KernelError
/// "launch.instruction-budget" and ConfigError for less than 1 and for what is no number.
int64_t instruction_budget(const RunOptions& options);

/// What one core's engines have done.
struct EngineWork {
  double tensor = 0, vector = 0, scalar = 0, gpsimd = 0;  ///< seconds of being busy
  double hbm_bytes = 0;                                   ///< that DMA read and wrote
};

class Accumulators;  // of an engine, between instructions
class Recorder;
class Rendezvous;  // of the two cores of a logical one
class SharedAccesses;

/// One physical NeuronCore that runs a kernel: its memories and what it has carried out.
class Core {
 public:
  Core(int64_t id, const RunOptions& options, Rendezvous* peers);
  ~Core();

  int64_t id() const { return id_; }
  const RunOptions& options() const { return options_; }
  ChipMemory& sbuf() { return sbuf_; }
  ChipMemory& psum() { return psum_; }
  /// Of ScalarE or VectorE.
  Accumulators& accumulators(Engine engine);
  ChipMemory& memory(Buffer buffer) { return buffer == Buffer::psum ? psum_ : sbuf_; }
  Rendezvous& peers();
  /// Where reads and writes of shared HBM are noted; null where no other core sees it.
  SharedAccesses* shared_accesses();

  /// Checks an instruction, carries it out if the mode says so, and records it if asked to. KernelError with
  /// the rule that it breaks; "kernel.budget" when the budget is used up. Barriers and sendrecv are carried
  /// out here, in every mode; execute() never sees them.
  void issue(Instruction instruction);

  /// Counts what is no instruction, but may be what a loop that does not end is made of: `name` is ndarray,
  /// register_load, register_store, or fori_loop, of which each turn counts. As many as instructions are in
  /// the budget; a loop of C++ without any of all these is the host's to stop.
  void count_call(std::string_view name, const std::source_location& where);

  /// KernelError unless a tensor's memory, and that of its offset, is HBM or this core's: "memory.core-gone"
  /// of a kernel that has ended, "memory.other-core".
  void check_reaches(const Tensor& tensor) const;

  /// What was recorded: see Recorder for what may be done with the tensors.
  const std::vector<Instruction>& instructions() const;
  std::vector<Instruction> take_instructions();
  int64_t num_instructions() const { return num_instructions_; }
  const EngineWork& work() const { return work_; }
  /// "after 12 instructions, the last of them memset at kernel.cpp:7".
  std::string progress() const;

 private:
  void stop_if_cancelled() const;
  void check_memories(const Instruction& instruction) const;
  [[noreturn]] void fail_budget(std::string_view done, const std::string& next,
                                const std::source_location& where) const;

  int64_t id_;
  RunOptions options_;
  int64_t budget_;
  Rendezvous* peers_;
  ChipMemory sbuf_, psum_;
  std::unique_ptr<Recorder> recorder_;
  std::unique_ptr<Accumulators> scalar_sums_, vector_sums_;
  int64_t num_instructions_ = 0, num_calls_ = 0;
  EngineWork work_;
  std::string_view last_name_;
  std::source_location last_where_;
};

/// The core whose kernel this thread runs; KernelError outside of a kernel.
Core& current_core();
/// Whether this thread runs a kernel.
bool is_in_kernel();

/// Checks every rule of the device that an instruction is subject to: placement, partitions, sizes, dtypes,
/// banks. KernelError. [Note: rules] in check.cpp names their sources.
void check_instruction(const Instruction& instruction, const RunOptions& options);

/// Carries an instruction, of which Core::issue() has seen that it is right and its operands are there, out
/// on the core's data. KernelError for what only data shows: reads of memory that was never written, indices
/// out of bounds.
void execute(Core& core, const Instruction& instruction);

/// What a run has left behind, of each core.
struct CoreRecord {
  std::vector<Instruction> instructions;  ///< empty unless RunOptions::record
  int64_t num_instructions = 0;
  int64_t peak_sbuf_bytes = 0, peak_psum_bytes = 0;  ///< of one partition
  EngineWork work;                                   ///< zeros unless RunOptions::count_work
};

struct KernelRun {
  RunOptions options;
  std::vector<CoreRecord> cores;
};

/// Runs `body` once on each of `options.lnc` cores (two threads for two). The first error of a core stops the
/// other one. A core that waits for one that has ended, or that waits for something else, is a KernelError
/// that names both places.
///
/// Inside of a kernel `body` is inlined: it runs on the core that is there, with that core's options, and the
/// result has no records. "launch.nested-lnc" where it asks for more cores than run. Errors that know no line
/// of the kernel name `where`, the launch's.
KernelRun run_on_cores(const RunOptions& options, const std::function<void()>& body,
                       const std::source_location& where = std::source_location::current());

}  // namespace titan::nki
