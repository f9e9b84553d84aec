#include "titan/neuron/torch/memory.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "titan/neuron/torch/core.h"
#include "titan/neuron/torch/dtype.h"
#include "titan/neuron/torch/views.h"

namespace titan::neuron {
namespace {

/// Host memory and its entry in the books; the context of a DataPtr.
struct ChargedMemory {
  HbmBlock account;
  c10::DataPtr host;
  std::optional<c10::ScalarType> dtype;  ///< none: bytes, which count as they are
};

void charge(HbmBlock& block) {
  try {
    core().hbm.charge(block);
  } catch (const HbmFull& full) {
    throw c10::OutOfMemoryError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, full.what());
  }
}

void free_charged(void* context) {
  const std::unique_ptr<ChargedMemory> memory(static_cast<ChargedMemory*>(context));
  core().hbm.uncharge(memory->account);
}

c10::DataPtr device_pointer(std::unique_ptr<ChargedMemory> memory) {
  void* data = memory->host.get();
  return {data, memory.release(), &free_charged, neuron_device()};
}

std::unique_ptr<ChargedMemory> charged(int64_t host_bytes, std::optional<c10::ScalarType> dtype,
                                       const char* operation) {
  auto memory = std::make_unique<ChargedMemory>();
  memory->dtype = dtype;
  memory->account.bytes = dtype ? device_bytes(*dtype, host_bytes) : host_bytes;
  memory->account.origin = {
      .phase = core().phase, .operation = operation, .dtype = dtype ? dtype_name(*dtype) : "bytes"};
  charge(memory->account);
  return memory;
}

c10::DataPtr allocate_charged(int64_t host_bytes, std::optional<c10::ScalarType> dtype,
                              const char* operation) {
  auto memory = charged(host_bytes, dtype, operation);
  try {
    memory->host = c10::GetCPUAllocator()->allocate(static_cast<size_t>(host_bytes));
  } catch (...) {  // the host is out of memory: the books must not keep what was never there
    core().hbm.uncharge(memory->account);
    throw;
  }
  return device_pointer(std::move(memory));
}

c10::CachingAllocator::Stat stat_of(const HbmCount& count) {
  c10::CachingAllocator::Stat stat;
  stat.current = count.current;
  stat.peak = count.peak;
  stat.allocated = count.allocated;
  stat.freed = count.freed;
  return stat;
}

class HbmAllocator final : public c10::DeviceAllocator {
 public:
  /// Bytes of an unknown dtype count as they are.
  c10::DataPtr allocate(size_t bytes) override {
    return allocate_charged(static_cast<int64_t>(bytes), std::nullopt, "storage");
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}  // nothing is cached
  void recordStream(const c10::DataPtr&, c10::Stream) override {}

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override {
    const HbmStatistics now = core().hbm.statistics();
    c10::CachingDeviceAllocator::DeviceStats stats;
    constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    for (auto* bytes :
         {&stats.allocated_bytes, &stats.reserved_bytes, &stats.active_bytes, &stats.requested_bytes}) {
      (*bytes)[kAll] = stat_of(now.bytes);
    }
    for (auto* count : {&stats.allocation, &stats.segment, &stats.active}) {
      (*count)[kAll] = stat_of(now.allocations);
    }
    stats.num_alloc_retries = now.num_alloc_retries;
    stats.num_ooms = now.num_ooms;
    stats.num_device_alloc = now.allocations.allocated;
    stats.num_device_free = now.allocations.freed;
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override { core().hbm.reset_accumulated(); }
  void resetPeakStats(c10::DeviceIndex) override { core().hbm.reset_peak(); }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex) override {
    const int64_t total = core().hbm.capacity();
    return {static_cast<size_t>(total - core().hbm.statistics().bytes.current), static_cast<size_t>(total)};
  }
};

}  // namespace

c10::Device neuron_device() { return {c10::DeviceType::PrivateUse1, 0}; }

c10::Allocator& hbm_allocator() {
  static HbmAllocator* allocator = new HbmAllocator;  // outlives every tensor
  return *allocator;
}

c10::DataPtr allocate_hbm(int64_t host_bytes, c10::ScalarType dtype, const char* operation) {
  return allocate_charged(host_bytes, dtype, operation);
}

void resize_hbm(c10::StorageImpl& storage, int64_t host_bytes) {
  const ChargedMemory* now = storage.data_ptr().cast_context<ChargedMemory>(&free_charged);
  c10::DataPtr resized = allocate_charged(host_bytes, now ? now->dtype : std::nullopt, "aten::resize_");
  const size_t kept = std::min(static_cast<size_t>(host_bytes), storage.nbytes());
  if (kept > 0) std::memcpy(resized.get(), storage.data(), kept);
  storage.set_data_ptr_noswap(std::move(resized));
  storage.set_nbytes(static_cast<size_t>(host_bytes));
}

c10::DataPtr adopt(c10::DataPtr host, int64_t host_bytes, c10::ScalarType dtype, const char* operation) {
  auto memory = charged(host_bytes, dtype, operation);
  memory->host = std::move(host);
  return device_pointer(std::move(memory));
}

c10::DataPtr adopt(const c10::Storage& host, c10::ScalarType dtype, const char* operation) {
  c10::DataPtr shared(host.mutable_data(), c10::Storage(host).unsafeReleaseStorageImpl(), &release_storage,
                      c10::Device(c10::kCPU));
  return adopt(std::move(shared), static_cast<int64_t>(host.nbytes()), dtype, operation);
}

}  // namespace titan::neuron
