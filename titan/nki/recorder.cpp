#include "titan/nki/recorder.h"

#include "titan/nki/memory.h"
#include "titan/nki/operands.h"

namespace titan::nki {

void Recorder::record(Instruction instruction) {
  for_each_tensor(instruction, [this](Tensor& tensor) { detach(tensor); });
  instructions_.push_back(std::move(instruction));
}

void Recorder::detach(Tensor& tensor) {
  std::shared_ptr<const Tensor> offsets = tensor.indirection().offsets;
  if (offsets != nullptr) {
    Tensor copy = *offsets;
    detach(copy);
    offsets = std::make_shared<const Tensor>(std::move(copy));
  }
  if (is_on_chip(tensor.buffer()) || offsets != nullptr)
    tensor = tensor.moved_to(detached(tensor.allocation()), std::move(offsets));
}

std::shared_ptr<Allocation> Recorder::detached(const std::shared_ptr<Allocation>& allocation) {
  if (!is_on_chip(allocation->buffer)) return allocation;
  Copy& known = copies_[allocation.get()];
  if (known.of.lock() == allocation) return known.copy;
  auto copy = std::make_shared<Allocation>();
  copy->name = allocation->name;
  copy->buffer = allocation->buffer;
  copy->dtype = allocation->dtype;
  copy->shape = allocation->shape;
  copy->bytes = allocation->bytes;
  copy->without_data = true;
  copy->first_partition = allocation->first_partition;
  copy->num_partitions = allocation->num_partitions;
  copy->byte_offset = allocation->byte_offset;
  copy->partition_bytes = allocation->partition_bytes;
  known = {allocation, copy};
  return copy;
}

}  // namespace titan::nki
