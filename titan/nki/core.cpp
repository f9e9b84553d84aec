#include "titan/nki/core.h"

#include "titan/base/strings.h"
#include "titan/nki/cost.h"
#include "titan/nki/error.h"
#include "titan/nki/operands.h"
#include "titan/nki/recorder.h"
#include "titan/nki/rendezvous.h"

namespace titan::nki {

Core::Core(int64_t id, const RunOptions& options, Rendezvous* peers)
    : id_(id),
      options_(options),
      peers_(peers),
      sbuf_(Buffer::sbuf, CoreSizes::of(options.generation).sbuf_partition_bytes),
      psum_(Buffer::psum, CoreSizes::of(options.generation).psum_partition_bytes),
      recorder_(std::make_unique<Recorder>()) {}

Core::~Core() = default;

Rendezvous& Core::peers() {
  check(peers_ != nullptr, "the core was made by run_on_cores");
  return *peers_;
}

void Core::issue(Instruction instruction) {
  if (peers_ != nullptr && peers_->cancelled()) throw CoreCancelled{};
  if (num_instructions_ == options_.instruction_budget)
    throw KernelError("kernel.budget",
                      format("core {} has carried out {} instructions, which is the budget, and wants to go "
                             "on with {}: a loop of the kernel does not end, or "
                             "RunOptions::instruction_budget is too small for it",
                             id_, with_commas(num_instructions_), instruction.describe()),
                      instruction.where);
  check_instruction(instruction, options_);
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
