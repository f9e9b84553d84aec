#include <exception>
#include <thread>

#include "titan/base/strings.h"
#include "titan/nki/core.h"
#include "titan/nki/error.h"
#include "titan/nki/kernel.h"
#include "titan/nki/rendezvous.h"
#include "titan/nki/run_observer.h"

namespace titan::nki {
namespace {

thread_local Core* running_core = nullptr;  // set while a kernel runs on this thread

/// Sets the thread's core for a scope.
class CoreScope {
 public:
  explicit CoreScope(Core& core) { running_core = &core; }
  ~CoreScope() { running_core = nullptr; }
  CoreScope(const CoreScope&) = delete;
  CoreScope& operator=(const CoreScope&) = delete;
};

/// Runs the kernel on one core. What it throws goes to the caller of run_on_cores, whatever it is: a kernel
/// is the user's code, and may be on a thread of ours.
std::exception_ptr run_core(Core& core, Rendezvous& peers, const std::function<void()>& body) noexcept {
  const CoreScope scope(core);
  try {
    body();
    peers.end(core.id(), core.progress());
  } catch (const CoreCancelled&) {
    return nullptr;  // the other core has the error
  } catch (...) {
    peers.cancel();
    return std::current_exception();
  }
  return nullptr;
}

CoreRecord record_of(Core& core) {
  return {core.take_instructions(), core.num_instructions(), core.sbuf().peak_bytes(),
          core.psum().peak_bytes(), core.work()};
}

KernelRun run_inlined(const RunOptions& options, const std::function<void()>& body) {
  const RunOptions& outer = running_core->options();
  if (options.lnc > outer.lnc)
    throw KernelError(
        "launch.nested-lnc",
        format("a kernel asks for LNC {} inside of one that runs on LNC {}", options.lnc, outer.lnc));
  body();
  return {outer, {}};
}

/// Both cores, or the one, from begin to end.
KernelRun run_outermost(const RunOptions& options, const std::function<void()>& body) {
  Rendezvous peers(options.lnc);
  KernelRun run{options, {}};
  Core first(0, options, &peers);
  if (options.lnc == 1) {
    const std::exception_ptr error = run_core(first, peers, body);
    if (error != nullptr) std::rethrow_exception(error);
    run.cores.push_back(record_of(first));
    return run;
  }
  Core second(1, options, &peers);
  std::exception_ptr second_error;
  std::thread other([&] { second_error = run_core(second, peers, body); });
  const std::exception_ptr first_error = run_core(first, peers, body);
  other.join();
  if (first_error != nullptr) std::rethrow_exception(first_error);
  if (second_error != nullptr) std::rethrow_exception(second_error);
  run.cores.push_back(record_of(first));
  run.cores.push_back(record_of(second));
  return run;
}

KernelRun run_checked(const RunOptions& options, const std::function<void()>& body) {
  if (options.lnc != 1 && options.lnc != 2)
    throw KernelError("launch.lnc", format("a kernel runs on 1 or 2 physical cores, not on {}", options.lnc));
  if (running_core != nullptr) return run_inlined(options, body);
  if (options.lnc == 2 && options.generation == Generation::trn1)
    throw KernelError("launch.lnc", "trn1 has no logical cores of two: start the kernel with [1]");

  const RunObserver::Observe* observe = RunObserver::current();
  if (observe == nullptr) return run_outermost(options, body);
  RunOptions recorded = options;
  recorded.record = true;
  KernelRun run = run_outermost(recorded, body);
  (*observe)(run);
  return run;
}

}  // namespace

bool is_in_kernel() { return running_core != nullptr; }

Core& current_core() {
  if (running_core == nullptr)
    throw KernelError("kernel.outside",
                      "no kernel runs on this thread: nki.language and nki.isa are for functions that "
                      "simulate(...) or wrap_nki(...) starts");
  return *running_core;
}

void check_result(const Tensor& tensor) {
  if (tensor.defined() && is_on_chip(tensor.buffer()))
    throw KernelError("launch.result-buffer",
                      format("a kernel returns {}, which is gone when the kernel ends: copy it to HBM first",
                             tensor.describe()));
}

KernelRun run_on_cores(const RunOptions& options, const std::function<void()>& body,
                       const std::source_location& where) {
  try {
    return run_checked(options, body);
  } catch (const KernelError& error) {
    throw error.at(where);
  }
}

}  // namespace titan::nki
