#include "titan/neuron/torch/hooks.h"

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CPUAllocator.h>

#include "titan/neuron/torch/generator.h"
#include "titan/neuron/torch/memory.h"

namespace titan::neuron {
namespace {

class NeuronHooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  void init() const override {}

  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  void setCurrentDevice(c10::DeviceIndex device) const override { require_device(device); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    require_device(device);
    return 0;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override { return 0; }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override { return default_generator(); }
  at::Generator getNewGenerator(c10::DeviceIndex) const override { return make_generator(); }

  at::Device getDeviceFromPtr(void*) const override { return neuron_device(); }
  bool isPinnedPtr(const void*) const override { return false; }
  c10::Allocator* getPinnedMemoryAllocator() const override { return c10::GetCPUAllocator(); }

  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize_hbm(*storage.unsafeGetStorageImpl(), static_cast<int64_t>(bytes));
  }

 private:
  static void require_device(c10::DeviceIndex device) {
    TORCH_CHECK(device <= 0, "device neuron:", static_cast<int>(device),
                " does not exist: a process sees one logical core, neuron:0");
  }
};

}  // namespace

void register_hooks() {
  static auto* hooks = new NeuronHooks;  // never destroyed, as torch wants it
  at::RegisterPrivateUse1HooksInterface(hooks);
}

}  // namespace titan::neuron
