#include "titan/neuron/torch/streams.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "titan/neuron/torch/core.h"
#include "titan/neuron/torch/memory.h"

namespace titan::neuron {
namespace {

/// torch defines the current stream as a thread's own.
thread_local int64_t current_stream = Timeline::kDefaultStream;

c10::Stream stream_of(int64_t id) { return c10::Stream(c10::Stream::UNSAFE, neuron_device(), id); }

void require_device(c10::Device device) {
  TORCH_CHECK(device.is_privateuseone() && device.index() <= 0, "device ", device,
              " does not exist: a process sees one logical core, neuron:0");
}

int64_t event_id(void* event) { return static_cast<int64_t>(reinterpret_cast<intptr_t>(event)); }

/// One device; streams and events in simulated time. Every call has done its work when it returns, so that
/// synchronising waits for nothing and queries are true.
class NeuronGuard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return c10::DeviceType::PrivateUse1; }
  c10::Device exchangeDevice(c10::Device device) const override {
    require_device(device);
    return neuron_device();
  }
  c10::Device getDevice() const override { return neuron_device(); }
  void setDevice(c10::Device device) const override { require_device(device); }
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }

  c10::Stream getStream(c10::Device device) const override {
    require_device(device);
    return stream_of(current_stream);
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    require_device(device);
    return stream_of(Timeline::kDefaultStream);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return getNewStream(device, 0);
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    require_device(device);
    return stream_of(core().timeline.create_stream());
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    require_device(stream.device());
    TORCH_CHECK(core().timeline.has_stream(stream.id()), "stream ", stream.id(),
                " was not made on this device");
    const c10::Stream before = stream_of(current_stream);
    current_stream = stream.id();
    return before;
  }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
  void synchronizeDevice(c10::DeviceIndex) const override {}

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex,
              const c10::EventFlag) const override {
    require_device(stream.device());
    if (*event == nullptr)
      *event = reinterpret_cast<void*>(static_cast<intptr_t>(core().timeline.create_event()));
    core().timeline.record(event_id(*event), stream.id());
  }
  void block(void* event, const c10::Stream& stream) const override {
    require_device(stream.device());
    if (event != nullptr) core().timeline.wait(stream.id(), event_id(event));
  }
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override {}
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    if (event != nullptr) core().timeline.destroy_event(event_id(event));
  }
  /// Milliseconds of simulated time.
  double elapsedTime(void* from, void* to, c10::DeviceIndex) const override {
    return 1e3 * core().timeline.elapsed(event_id(from), event_id(to));
  }
};

}  // namespace

int64_t current_stream_id() { return current_stream; }

void register_guard() {
  static const auto* guard = new NeuronGuard;  // never destroyed, as torch wants it
  static const c10::impl::DeviceGuardImplRegistrar registrar(c10::DeviceType::PrivateUse1, guard);
}

}  // namespace titan::neuron
