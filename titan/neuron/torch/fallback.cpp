#include "titan/neuron/torch/fallback.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/library.h>

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "titan/base/error.h"
#include "titan/neuron/torch/core.h"
#include "titan/neuron/torch/generator.h"
#include "titan/neuron/torch/kernel_work.h"
#include "titan/neuron/torch/memory.h"
#include "titan/neuron/torch/operator_facts.h"
#include "titan/neuron/torch/signature.h"
#include "titan/neuron/torch/views.h"

namespace titan::neuron {
namespace {

using at::Tensor;
using torch::jit::Stack;

/// [Note: one CPU kernel, two devices]
/// The device computes with the CPU's kernels on the same bytes: arguments go in as CPU tensors over the
/// device's storages, results come out as device tensors. Three things can happen to a result: it is one of
/// the arguments (in-place and out variants), it shares the bytes of one (views), or it is new and goes on
/// the books. An argument that is written may have got other sizes, and another storage where the old one was
/// too small.
class CpuCall {
 public:
  CpuCall(const OperatorFacts& facts, const c10::OperatorHandle& op, Stack& stack)
      : facts_(facts), op_(op), stack_(stack), begin_(stack.size() - facts.arguments.size()) {}

  void run() {
    core().operator_calls.fetch_add(1, std::memory_order_relaxed);
    for (size_t i = 0; i < facts_.arguments.size(); ++i) enter(i);
    if (outside_.defined() && !arguments_.empty()) refuse_mixture();
    {
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack_);
    }
    for (const Argument& argument : arguments_) {
      if (argument.written) follow(argument);
    }
    c10::SmallVector<Tensor, 4> outputs;
    for (size_t i = stack_.size() - facts_.num_returns; i < stack_.size(); ++i) leave(stack_[i], outputs);
    if (facts_.compiled) note(outputs);
  }

 private:
  struct Argument {
    Tensor device, cpu;
    bool written;
  };

  void enter(size_t index) {
    c10::IValue& value = stack_[begin_ + index];
    const OperatorFacts::Argument& fact = facts_.arguments[index];
    switch (fact.kind) {
      case OperatorFacts::Kind::tensor:
        if (value.isTensor()) value = entered(value.toTensor(), fact.written);
        break;
      case OperatorFacts::Kind::tensors:
        if (value.isTensorList()) {
          auto list = value.toTensorVector();
          for (Tensor& tensor : list) tensor = entered(tensor, fact.written);
          value = std::move(list);
        }
        break;
      case OperatorFacts::Kind::optional_tensors:
        if (value.isOptionalTensorList()) value = entered_indices(value.toOptionalTensorList());
        break;
      case OperatorFacts::Kind::device:
        if (value.isDevice()) value = c10::Device(c10::kCPU);
        break;
      case OperatorFacts::Kind::generator:
        value = host_generator(value.isNone() ? std::nullopt : std::optional(value.toGenerator()));
        break;
      case OperatorFacts::Kind::other:
        break;
    }
  }

  Tensor entered(const Tensor& tensor, bool written) {
    if (!tensor.defined()) return tensor;
    if (!tensor.is_privateuseone()) {
      if (written || (tensor.dim() > 0 && !facts_.takes_host_tensors)) outside_ = tensor;
      return tensor;
    }
    arguments_.push_back({.device = tensor, .cpu = cpu_view(tensor), .written = written});
    return arguments_.back().cpu;
  }

  /// Indices may lie on the host, as they may with other devices.
  c10::List<std::optional<Tensor>> entered_indices(const c10::List<std::optional<Tensor>>& indices) {
    c10::List<std::optional<Tensor>> list;
    for (const std::optional<Tensor>& index : indices) {
      const bool here = index && index->defined() && index->is_privateuseone();
      list.push_back(here ? std::optional(entered(*index, false)) : index);
    }
    return list;
  }

  [[noreturn]] void refuse_mixture() const {
    throw ValueError("{}: one argument is on {}, another on {} {}; bring them to one device with .to()",
                     facts_.name.text, c10::str(arguments_.front().device.device()),
                     c10::str(outside_.device()), c10::str(outside_.sizes()));
  }

  /// What the kernel made of an argument that it wrote.
  void follow(const Argument& argument) {
    const c10::Storage& cpu = argument.cpu.storage();
    c10::StorageImpl& storage = *argument.device.storage().unsafeGetStorageImpl();
    if (cpu.data() != storage.data() || cpu.nbytes() != storage.nbytes()) {
      const auto bytes = static_cast<int64_t>(cpu.nbytes());
      c10::DataPtr host = cpu.unsafeGetStorageImpl()->set_data_ptr(c10::DataPtr());
      storage.set_data_ptr_noswap(
          adopt(std::move(host), bytes, argument.cpu.scalar_type(), facts_.name.text.c_str()));
      storage.set_nbytes(static_cast<size_t>(bytes));
    }
    at::TensorImpl& impl = *argument.device.unsafeGetTensorImpl();
    const Tensor& now = argument.cpu;
    if (impl.sizes() != now.sizes() || impl.strides() != now.strides() ||
        impl.storage_offset() != now.storage_offset()) {
      impl.set_sizes_and_strides(now.sizes(), now.strides(), now.storage_offset());
    }
  }

  void leave(c10::IValue& value, c10::SmallVectorImpl<Tensor>& outputs) {
    if (value.isTensor()) {
      outputs.push_back(left(std::move(value).toTensor()));
      value = outputs.back();
    } else if (value.isTensorList()) {
      auto list = value.toTensorVector();
      for (Tensor& tensor : list) outputs.push_back(tensor = left(std::move(tensor)));
      value = std::move(list);
    }
  }

  Tensor left(Tensor result) {
    if (!result.defined() || !result.is_cpu()) return result;
    for (const Argument& argument : arguments_) {
      if (argument.cpu.is_same(result)) return argument.device;
    }
    TORCH_CHECK(result.has_storage(), facts_.name.text, ": gives a ", result.layout(),
                " tensor, which the emulated neuron device does not hold");
    const c10::StorageImpl* bytes = result.storage().unsafeGetStorageImpl();
    for (const Argument& argument : arguments_) {
      if (argument.cpu.storage().unsafeGetStorageImpl() == bytes) {
        return device_tensor(argument.device.storage(), result);
      }
    }
    for (const auto& [cpu, device] : charged_) {
      if (cpu.unsafeGetStorageImpl() == bytes) return device_tensor(device, result);
    }
    const c10::Storage device = charged(result);
    if (facts_.num_returns > 1 || facts_.returns_list) charged_.emplace_back(result.storage(), device);
    return device_tensor(device, result);
  }

  c10::Storage charged(const Tensor& result) {
    const auto size = static_cast<int64_t>(result.storage().nbytes());
    return {c10::Storage::use_byte_size_t(), c10::SymInt(size),
            adopt(result.storage(), result.scalar_type(), facts_.name.text.c_str()), &hbm_allocator(), true};
  }

  void note(const c10::SmallVectorImpl<Tensor>& outputs) const {
    c10::SmallVector<Tensor, 6> inputs;
    for (const Argument& argument : arguments_) inputs.push_back(argument.device);
    note_call(facts_.name, {inputs.data(), inputs.size()}, {outputs.data(), outputs.size()},
              kernels_.times());
  }

  const OperatorFacts& facts_;
  const c10::OperatorHandle& op_;
  Stack& stack_;
  size_t begin_;
  c10::SmallVector<Argument, 6> arguments_;
  std::vector<std::pair<c10::Storage, c10::Storage>> charged_;
  KernelWork kernels_;
  Tensor outside_;
};

void require_cpu_kernel(const OperatorFacts& facts, const c10::OperatorHandle& op) {
  if (op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU)) return;
  throw ValueError(
      "operator {} has no kernel for the neuron device: the emulator runs CPU kernels, and it has none",
      facts.name.text);
}

/// The kernel of one operator that is known when the device starts.
class CpuKernel final : public c10::OperatorKernel {
 public:
  explicit CpuKernel(const c10::OperatorHandle& op) : facts_(op) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
    CpuCall(facts_, op, *stack).run();
  }

 private:
  OperatorFacts facts_;
};

/// Facts of operators that were registered after the device, or have no CPU kernel.
const OperatorFacts& facts_of(const c10::OperatorHandle& op) {
  static std::mutex mutex;
  static std::unordered_map<std::string, std::unique_ptr<const OperatorFacts>> known;
  const std::lock_guard lock(mutex);
  auto& facts = known[c10::toString(op.operator_name())];
  if (!facts) facts = std::make_unique<const OperatorFacts>(op);
  return *facts;
}

void late_operator(const c10::OperatorHandle& op, Stack* stack) {
  const OperatorFacts& facts = facts_of(op);
  require_cpu_kernel(facts, op);
  CpuCall(facts, op, *stack).run();
}

torch::Library& library_of(const std::string& name_space) {
  static std::unordered_map<std::string, std::unique_ptr<torch::Library>> libraries;
  auto& library = libraries[name_space];
  if (!library) {
    library = std::make_unique<torch::Library>(torch::Library::IMPL, name_space,
                                               c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  }
  return *library;
}

}  // namespace

void register_operators() {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (!op || !op->hasKernelForDispatchKey(c10::DispatchKey::CPU)) continue;
    if (op->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1)) continue;
    const auto name_space = name.getNamespace();
    if (!name_space) continue;
    library_of(std::string(*name_space))
        .impl(c10::toString(name).c_str(),
              torch::CppFunction::makeFromBoxedFunctor(std::make_unique<CpuKernel>(*op)));
  }
  static torch::Library rest(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  rest.fallback(torch::CppFunction::makeFromBoxedFunction<&late_operator>());
}

}  // namespace titan::neuron
