#include <algorithm>
#include <bit>
#include <cstdlib>

#include "titan/base/available_memory.h"
#include "titan/base/error.h"
#include "titan/nki/error.h"
#include "titan/nki/memory.h"

namespace titan::nki {
namespace {

/// What the two cores of a pair have between them on trn2, 24 GiB: no tensor is larger.
constexpr int64_t kMostHbmBytes = int64_t{24} << 30;

/// Bytes of `shape`; KernelError for sizes below 1 or a total above the memory.
int64_t shape_bytes(const std::string& name, const std::vector<int64_t>& shape, Dtype dtype) {
  int64_t bytes = itemsize(dtype);
  for (int64_t size : shape) {
    if (size < 1) {
      throw KernelError("ndarray.shape", format("{} of shape {}: sizes are at least 1", ndarray_named(name),
                                                shape_text(shape)));
    }
    if (size > kMostHbmBytes / bytes) {
      throw KernelError(
          "ndarray.too-large",
          format("{} of shape {} {}: no memory of a core has more than {} bytes", ndarray_named(name),
                 shape_text(shape), dtype_name(dtype), with_commas(kMostHbmBytes)));
    }
    bytes *= size;
  }
  return bytes;
}

std::vector<Dim> contiguous_dims(const std::vector<int64_t>& shape, bool on_chip) {
  std::vector<Dim> dims(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    dims[i] = {shape[i], on_chip && i == 0 ? 1 : stride};
    stride *= shape[i];
  }
  return dims;
}

std::shared_ptr<Allocation> named_allocation(std::string name, Buffer buffer, Dtype dtype,
                                             const std::vector<int64_t>& shape) {
  auto allocation = std::make_shared<Allocation>();
  allocation->name = std::move(name);
  allocation->buffer = buffer;
  allocation->dtype = dtype;
  allocation->shape = shape;
  return allocation;
}

void check_chip_shape(const std::string& name, const std::vector<int64_t>& shape, Buffer buffer) {
  if (shape.size() < 2) {
    throw KernelError("ndarray.rank",
                      format("{} of shape {} in {}: on chip a tensor has partitions and a free dimension",
                             ndarray_named(name), shape_text(shape), buffer_name(buffer)));
  }
  if (shape[0] > CoreSizes::kPartitions) {
    throw KernelError(
        "ndarray.partitions",
        format("{} of shape {} in {}: dimension 0 is the partitions, of which there are {}",
               ndarray_named(name), shape_text(shape), buffer_name(buffer), CoreSizes::kPartitions));
  }
}

/// An explicit address keeps what is there; what nobody wrote yet is made to look so.
void prepare_bytes(Allocation& allocation, bool fresh) {
  ChipMemory& memory = *allocation.memory;
  const int64_t elements = allocation.partition_bytes / itemsize(allocation.dtype);
  for (int64_t p = 0; p < allocation.num_partitions; ++p) {
    const int64_t partition = allocation.first_partition + p;
    const int64_t bit = memory.bit(partition, allocation.byte_offset);
    if (fresh) memory.written().clear(bit, allocation.partition_bytes);
    if (fresh || !memory.written().touches(bit, allocation.partition_bytes)) {
      fill_unwritten(memory.at(partition, allocation.byte_offset), allocation.dtype, elements);
    }
  }
}

/// Asked before the bytes are taken: Linux promises more than it has, and ends the process that uses it.
void require_host_memory(const std::string& name, int64_t bytes, std::optional<int64_t> available) {
  constexpr int64_t kWorthAsking = int64_t{1} << 20;
  if (!available && bytes < kWorthAsking) return;
  const int64_t needed = bytes + bytes / 8;  // with WrittenBits
  const int64_t left = available.value_or(available_memory());
  if (needed <= left) return;
  throw KernelError("memory.host",
                    format("this machine has {} bytes of memory left, and {} of HBM takes {}",
                           with_commas(left), name.empty() ? "a tensor" : name, with_commas(needed)));
}

}  // namespace

Allocation::~Allocation() {
  if (const auto in = places.lock()) {
    in->release(first_partition, num_partitions, byte_offset, partition_bytes);
  }
}

Tensor chip_tensor(ChipMemory& memory, std::string name, std::vector<int64_t> shape, Dtype dtype,
                   std::optional<ChipAddress> address, bool without_data) {
  check_chip_shape(name, shape, memory.buffer());
  const int64_t partition_bytes = shape_bytes(name, shape, dtype) / shape[0];
  const int64_t item = itemsize(dtype);
  int64_t first = 0, byte = 0;
  if (address) {
    first = address->partition;
    byte = address->byte;
    if (byte % item != 0) {
      throw KernelError("memory.address-alignment",
                        format("{} of {} at byte {}: it begins at a multiple of {}", ndarray_named(name),
                               dtype_name(dtype), byte, item));
    }
    memory.claim(first, shape[0], byte, partition_bytes, name);
  } else {
    // Rows begin at a cache line of the host, but tensors of a few bytes do not waste one.
    const auto whole = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(partition_bytes)));
    byte = memory.reserve(0, shape[0], partition_bytes, std::clamp<int64_t>(whole, 4, 64), name);
  }
  auto allocation = named_allocation(std::move(name), memory.buffer(), dtype, shape);
  allocation->memory = &memory;
  allocation->places = memory.places();
  allocation->first_partition = first;
  allocation->num_partitions = shape[0];
  allocation->byte_offset = byte;
  allocation->partition_bytes = partition_bytes;
  allocation->reserved = !address;
  allocation->without_data = without_data;
  if (!without_data) prepare_bytes(*allocation, !address);
  return {std::move(allocation), dtype, contiguous_dims(shape, true), 0};
}

Tensor hbm_tensor(std::string name, std::vector<int64_t> shape, Dtype dtype, Buffer buffer, bool without_data,
                  std::optional<int64_t> available) {
  check(!is_on_chip(buffer), "the tensor is in HBM");
  const int64_t bytes = shape_bytes(name, shape, dtype);
  if (shape.empty()) shape = {1};
  auto allocation = named_allocation(std::move(name), buffer, dtype, shape);
  allocation->bytes = bytes;
  allocation->without_data = without_data;
  if (!without_data) {
    require_host_memory(allocation->name, bytes, available);
    auto* data = static_cast<std::byte*>(std::aligned_alloc(64, static_cast<size_t>((bytes + 63) / 64 * 64)));
    if (data == nullptr) {
      throw KernelError("memory.host", format("this machine gives no {} bytes for {}", with_commas(bytes),
                                              allocation->name.empty() ? "a tensor" : allocation->name));
    }
    allocation->owner = std::shared_ptr<void>(data, [](void* block) { std::free(block); });
    allocation->data = data;
    allocation->written = std::make_unique<WrittenBits>(bytes);
    fill_unwritten(data, dtype, bytes / itemsize(dtype));
  }
  return {std::move(allocation), dtype, contiguous_dims(shape, false), 0};
}

int64_t first_partition(const Tensor& view) {
  return view.allocation()->first_partition + view.partition_offset();
}

void require_core_lives(const Tensor& view) {
  if (!view.allocation()->places.expired()) return;
  throw KernelError("memory.core-gone",
                    format("{} is used after its core's kernel has ended", view.describe()));
}

std::string ndarray_named(const std::string& name) { return name.empty() ? "ndarray" : "ndarray " + name; }

void note_change(const Tensor& view) {
  if (is_on_chip(view.buffer())) return;
  view.allocation()->changed.store(true, std::memory_order_relaxed);  // the run's end orders it
}

void require_data(const Tensor& tensor) {
  if (tensor.indirection().offsets != nullptr) require_data(*tensor.indirection().offsets);
  if (!tensor.allocation()->without_data) return;
  throw KernelError("memory.without-data",
                    format("{} has a shape but no data; give it data, or run the kernel on shapes alone "
                           "(RunMode::shapes)",
                           tensor.describe()));
}

Tensor host_tensor(std::string name, std::vector<int64_t> shape, Dtype dtype, void* data,
                   std::shared_ptr<void> owner) {
  const int64_t bytes = shape_bytes(name, shape, dtype);
  if (shape.empty()) shape = {1};
  auto allocation = named_allocation(std::move(name), Buffer::shared_hbm, dtype, shape);
  allocation->bytes = bytes;
  allocation->data = static_cast<std::byte*>(data);
  allocation->owner = std::move(owner);
  allocation->without_data = data == nullptr;
  return {std::move(allocation), dtype, contiguous_dims(shape, false), 0};
}

}  // namespace titan::nki
