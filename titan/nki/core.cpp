#include "titan/nki/core.h"

#include "titan/base/env.h"
#include "titan/base/number.h"
#include "titan/base/strings.h"
#include "titan/nki/accumulators.h"
#include "titan/nki/cost.h"
#include "titan/nki/error.h"
#include "titan/nki/operands.h"
#include "titan/nki/recorder.h"
#include "titan/nki/rendezvous.h"

namespace titan::nki {
namespace {

constexpr const char* kBudgetVariable = "TITAN_NKI_INSTRUCTION_BUDGET";
// The largest of our kernels carry out some 100,000 (attention of a training step); a record is 745 bytes.
constexpr int64_t kBudget = 5'000'000, kRecordingBudget = 2'000'000;

}  // namespace

int64_t instruction_budget(const RunOptions& options) {
  if (options.instruction_budget) {
    if (*options.instruction_budget >= 1) return *options.instruction_budget;
    throw KernelError(
        "launch.instruction-budget",
        format("a core's budget of instructions is to be at least 1, not {}", *options.instruction_budget));
  }
  const std::optional<std::string> text = env(kBudgetVariable);
  if (!text) return options.record ? kRecordingBudget : kBudget;
  const auto budget = parse_number<int64_t>(*text);
  if (budget && *budget >= 1) return *budget;
  throw ConfigError(
      "{} must be a whole number of at least 1, the instructions after which a kernel is "
      "stopped (given: '{}')",
      kBudgetVariable, *text);
}

Core::Core(int64_t id, const RunOptions& options, Rendezvous* peers)
    : id_(id),
      options_(options),
      budget_(instruction_budget(options)),
      peers_(peers),
      sbuf_(Buffer::sbuf, CoreSizes::of(options.generation).sbuf_partition_bytes),
      psum_(Buffer::psum, CoreSizes::of(options.generation).psum_partition_bytes),
      recorder_(std::make_unique<Recorder>()),
      scalar_sums_(std::make_unique<Accumulators>()),
      vector_sums_(std::make_unique<Accumulators>()) {}

Core::~Core() = default;

Accumulators& Core::accumulators(Engine engine) {
  check(engine == Engine::scalar || engine == Engine::vector, "the engine has accumulators");
  return engine == Engine::scalar ? *scalar_sums_ : *vector_sums_;
}

Rendezvous& Core::peers() {
  check(peers_ != nullptr, "the core was made by run_on_cores");
  return *peers_;
}

SharedAccesses* Core::shared_accesses() { return peers_ != nullptr ? peers_->shared_accesses(id_) : nullptr; }

void Core::stop_if_cancelled() const {
  if (peers_ != nullptr && peers_->cancelled()) throw CoreCancelled{};
}

void Core::fail_budget(std::string_view done, const std::string& next,
                       const std::source_location& where) const {
  throw KernelError("kernel.budget",
                    format("core {} has carried out {} {}, which is the budget{}, and wants to go on with "
                           "{}: a loop of the kernel does not end, or the kernel needs more: set {} (or "
                           "RunOptions::instruction_budget)",
                           id_, with_commas(budget_), done,
                           options_.record ? " while they are kept for a trace" : "", next, kBudgetVariable),
                    where);
}

void Core::check_reaches(const Tensor& tensor) const {
  if (tensor.indirection().offsets != nullptr) check_reaches(*tensor.indirection().offsets);
  if (!is_on_chip(tensor.buffer())) return;
  const Allocation& allocation = *tensor.allocation();
  const ChipMemory& mine = tensor.buffer() == Buffer::psum ? psum_ : sbuf_;
  if (mine.is_meant_by(allocation.places)) return;
  require_core_lives(tensor);
  throw KernelError("memory.other-core",
                    format("{} lies in another core, and core {} reaches its own SBUF and PSUM only: bring "
                           "it over by sendrecv, or through shared HBM",
                           tensor.describe(), id_));
}

void Core::check_memories(const Instruction& instruction) const {
  const bool executes = options_.mode == RunMode::execute;
  try {
    for_each_access(instruction, [&](const Tensor& tensor, Access) {
      check_reaches(tensor);
      if (executes) require_data(tensor);
    });
  } catch (const KernelError& error) {
    throw error.at(instruction.where, instruction.describe());
  }
}

void Core::count_call(std::string_view name, const std::source_location& where) {
  stop_if_cancelled();
  if (num_calls_ == budget_)
    fail_budget("allocations, moves of registers and turns of loops", std::string(name), where);
  ++num_calls_;
}

void Core::issue(Instruction instruction) {
  stop_if_cancelled();
  if (num_instructions_ == budget_) fail_budget("instructions", instruction.describe(), instruction.where);
  check_instruction(instruction, options_);
  check_memories(instruction);
  if (instruction.dst.defined()) note_change(instruction.dst);
  const bool executes = options_.mode == RunMode::execute;
  if (std::holds_alternative<CoreBarrier>(instruction.attributes))
    peers().barrier(id_, instruction);
  else if (std::holds_alternative<SendRecv>(instruction.attributes))
    peers().sendrecv(id_, instruction, executes);
  else if (executes)
    execute(*this, instruction);
  ++num_instructions_;
  last_name_ = instruction.name();
  last_where_ = instruction.where;
  if (options_.count_work) add_work(work_, instruction, options_.generation);
  if (options_.record) recorder_->record(std::move(instruction));
}

const std::vector<Instruction>& Core::instructions() const { return recorder_->instructions(); }

std::vector<Instruction> Core::take_instructions() { return recorder_->take(); }

std::string Core::progress() const {
  if (num_instructions_ == 0) return "without an instruction";
  return format("after {} instructions, the last of them {} at {}:{}", num_instructions_, last_name_,
                last_where_.file_name(), last_where_.line());
}

}  // namespace titan::nki
