#include "titan/neuron/torch/generator.h"

#include <ATen/CPUGeneratorImpl.h>

#include <utility>

#include "titan/base/error.h"
#include "titan/neuron/torch/memory.h"

namespace titan::neuron {
namespace {

/// A generator of the device around one of the CPU, which the kernels draw from.
class NeuronGenerator final : public c10::GeneratorImpl {
 public:
  explicit NeuronGenerator(at::Generator cpu)
      : GeneratorImpl(neuron_device(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        cpu_(std::move(cpu)) {}

  const at::Generator& cpu() const { return cpu_; }

  void set_current_seed(uint64_t seed) override { cpu_.set_current_seed(seed); }
  void set_offset(uint64_t offset) override { cpu_.set_offset(offset); }
  uint64_t get_offset() const override { return cpu_.get_offset(); }
  uint64_t current_seed() const override { return cpu_.current_seed(); }
  uint64_t seed() override { return cpu_.seed(); }
  void set_state(const c10::TensorImpl& state) override { cpu_.unsafeGetGeneratorImpl()->set_state(state); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return cpu_.unsafeGetGeneratorImpl()->get_state();
  }

 private:
  NeuronGenerator* clone_impl() const override { return new NeuronGenerator(cpu_.clone()); }

  at::Generator cpu_;
};

}  // namespace

const at::Generator& default_generator() {
  static const at::Generator generator = make_generator();
  return generator;
}

at::Generator make_generator() {
  return at::make_generator<NeuronGenerator>(at::detail::createCPUGenerator());
}

at::Generator host_generator(const std::optional<at::Generator>& given) {
  const bool none = !given || !given->defined();
  const at::Generator& generator = none ? default_generator() : *given;
  if (!generator.device().is_privateuseone()) {
    throw ValueError("a generator of {} was given for tensors on neuron; make one for neuron",
                     c10::str(generator.device()));
  }
  return static_cast<const NeuronGenerator*>(generator.unsafeGetGeneratorImpl())->cpu();
}

}  // namespace titan::neuron
