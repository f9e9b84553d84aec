#include <algorithm>
#include <array>
#include <cstdlib>
#include <span>
#include <type_traits>

#include "titan/nki/check_rules.h"
#include "titan/nki/error.h"
#include "titan/nki/memory.h"
#include "titan/nki/strides.h"

namespace titan::nki {

namespace {

/// Of the first source and of those after it.
using Names = std::array<std::string_view, 2>;

template <class T>
constexpr Names source_names() {
  if constexpr (std::is_same_v<T, TensorTensor>) return {"data1", "data2"};
  if constexpr (std::is_same_v<T, ScalarTensorTensor>) return {"data", "operand1"};
  if constexpr (std::is_same_v<T, Matmul>) return {"stationary", "moving"};
  if constexpr (std::is_same_v<T, TensorCopyPredicated>) return {"src", "predicate"};
  if constexpr (std::is_same_v<T, AffineSelect> || std::is_same_v<T, RangeSelect>) return {"on_true_tile"};
  if constexpr (std::is_same_v<T, DevicePrint>) return {"tensor"};
  if constexpr (std::is_same_v<T, DmaCopy> || std::is_same_v<T, DmaTranspose> ||
                std::is_same_v<T, TensorCopy> || std::is_same_v<T, StreamShuffle> ||
                std::is_same_v<T, SendRecv>) {
    return {"src"};
  }
  return {"data", "data"};
}

/// Scalar operands that are tensors.
template <class T>
void add_scalars(const T& attributes, std::vector<NamedOperand>& operands) {
  const auto add = [&](std::string_view name, const ScalarOperand& operand) {
    if (operand.is_tensor()) operands.push_back({name, &operand.tensor, true});
  };
  if constexpr (requires { attributes.operand0; }) add("operand0", attributes.operand0);
  if constexpr (requires { attributes.operand1; }) add("operand1", attributes.operand1);
  if constexpr (requires { attributes.reduce_init; }) add("reduce_init", attributes.reduce_init);
  if constexpr (std::is_same_v<T, Activation>) {
    add("bias", attributes.bias);
    add("scale", attributes.scale);
  }
  if constexpr (std::is_same_v<T, RangeSelect>) {
    add("bound0", attributes.bound0);
    add("bound1", attributes.bound1);
  }
}

template <class T>
constexpr bool has_dst() {
  return !std::is_same_v<T, CoreBarrier> && !std::is_same_v<T, DevicePrint>;
}

template <class T>
bool needs_reduce_dst(const T& attributes) {
  if constexpr (std::is_same_v<T, Activation>) return attributes.is_reduce;
  return false;
}

/// [0, 32) and so on: the engines reach partitions through ports of 32.
bool may_start_at(int64_t first, int64_t count) {
  if (count > 64) return first == 0;
  if (count > 32) return first == 0 || first == 64;
  return first % 32 == 0;
}

std::string_view allowed_starts(int64_t count) {
  if (count > 64) return "partition 0";
  return count > 32 ? "partition 0 or 64" : "partition 0, 32, 64 or 96";
}

void check_access_pattern(const Checked& checked, const NamedOperand& operand) {
  const std::vector<Dim> dims = merged_dims(operand.tensor->dims(), 1);
  checked.require(
      dims.size() <= 4, "access-pattern-dims",
      "{} takes {} free dimensions, an engine steps through the partitions and at most 4: copy in parts",
      operand.name, dims.size());
  for (const Dim& dim : operand.tensor->dims()) {
    checked.require(dim.count <= UINT16_MAX, "access-pattern-size",
                    "a dimension of {} has {} elements, sizes are of 16 bits (at most 65535): split it",
                    operand.name, dim.count);
  }
  for (const Dim& dim : dims) {
    checked.require(dim.stride >= INT16_MIN && dim.stride <= INT16_MAX, "access-pattern-stride",
                    "{} steps by {} elements, strides are signed and of 16 bits (at most 32767)",
                    operand.name, dim.stride);
  }
}

/// What one operand may be read or written through: as much as a partition has.
void check_partition_holds(const Checked& checked, const NamedOperand& operand) {
  const Tensor& tensor = *operand.tensor;
  const CoreSizes sizes = CoreSizes::of(checked.options.generation);
  const int64_t most = is_psum(tensor) ? sizes.psum_partition_bytes : sizes.physical_sbuf_partition_bytes;
  const int64_t item = itemsize(tensor.dtype());
  checked.require(tensor.free_size() <= most / item, "partition-elements",
                  "{} has {} elements a partition, at most the {} that a partition of {} has room for: split "
                  "it",
                  operand.name, tensor.free_size(), most / item, buffer_name(tensor.buffer()));
}

void check_start_partition(const Checked& checked, const NamedOperand& operand) {
  const Tensor& tensor = *operand.tensor;
  const int64_t first = first_partition(tensor);
  const int64_t count = tensor.partitions();
  checked.require(may_start_at(first, count), "start-partition",
                  "{} starts at partition {}, an engine reads or writes {} partitions from {} on: place it "
                  "there or copy it by dma_copy",
                  operand.name, first, count, allowed_starts(count));
}

}  // namespace

std::vector<NamedOperand> named_operands(const Instruction& instruction) {
  std::vector<NamedOperand> operands;
  operands.reserve(instruction.sources.size() + 4);
  std::visit(
      [&]<class T>(const T& attributes) {
        if (has_dst<T>()) operands.push_back({"dst", &instruction.dst});
        for (size_t i = 0; i < instruction.sources.size(); ++i) {
          operands.push_back({source_names<T>()[i == 0 ? 0 : 1], &instruction.sources[i]});
        }
        add_scalars(attributes, operands);
        if (needs_reduce_dst(attributes) || instruction.reduce_dst.defined()) {
          operands.push_back({"reduce_res", &instruction.reduce_dst, true});
        }
      },
      instruction.attributes);
  return operands;
}

void check_operands_are_there(const Checked& checked) {
  const Instruction& instruction = checked.instruction;
  // describe() needs what is missing here.
  for (const NamedOperand& operand : named_operands(instruction)) {
    if (operand.tensor->defined()) continue;
    throw KernelError(format("{}.operand-missing", instruction.name()),
                      format("{} was given no tensor as {}", instruction.name(), operand.name),
                      instruction.where);
  }
}

void check_engine_access(const Checked& checked) {
  for (const NamedOperand& operand : named_operands(checked.instruction)) {
    const Tensor& tensor = *operand.tensor;
    checked.require(is_on_chip(tensor.buffer()), "operand-in-hbm",
                    "{} is in HBM, engines reach SBUF and PSUM only: bring it by dma_copy", operand.name);
    checked.require(!checked.runs_on(Engine::gpsimd) || !is_psum(tensor), "gpsimd-psum",
                    "{} is in PSUM, which GpSimdE does not reach: use another engine, or copy it to SBUF by "
                    "tensor_copy",
                    operand.name);
    check_start_partition(checked, operand);
    check_access_pattern(checked, operand);
    check_partition_holds(checked, operand);
  }
  if (checked.dst().defined()) check_is_written_once(checked, "dst", checked.dst());
  const Tensor& reduced = checked.instruction.reduce_dst;
  if (reduced.defined()) check_is_written_once(checked, "reduce_res", reduced);
}

void check_is_written_once(const Checked& checked, std::string_view name, const Tensor& tensor) {
  // Partitions do not meet; rows with an index each have no stride of their own.
  const bool is_first_apart =
      is_on_chip(tensor.buffer()) || tensor.indirection().kind == Tensor::Indirection::Kind::vector;
  std::vector<Dim> steps;
  for (size_t i = is_first_apart ? 1 : 0; i < tensor.dims().size(); ++i) {
    const Dim& dim = tensor.dims()[i];
    if (dim.count > 1) steps.push_back({dim.count, std::abs(dim.stride)});
  }
  std::ranges::sort(steps, {}, &Dim::stride);
  int64_t reach = 0;  // of the smaller steps, from the first element to the last
  for (const Dim& step : steps) {
    checked.require(
        step.stride > reach, "repeated-dst",
        "{} names elements more than once, or in steps that cross: a step of {} over {} does not "
        "lead out of the {} elements that smaller ones reach (broadcast sources, not destinations)",
        name, step.stride, step.count, reach + 1);
    reach += (step.count - 1) * step.stride;
  }
}

void check_same_sizes(const Checked& checked, const NamedOperand& a, const NamedOperand& b) {
  checked.require(a.tensor->partitions() == b.tensor->partitions(), "partitions",
                  "{} has {} partitions and {} has {}: they must agree", a.name, a.tensor->partitions(),
                  b.name, b.tensor->partitions());
  checked.require(a.tensor->free_size() == b.tensor->free_size(), "free-size",
                  "{} has {} elements a partition and {} has {}: they must agree", a.name,
                  a.tensor->free_size(), b.name, b.tensor->free_size());
}

void check_scalar_operand(const Checked& checked, std::string_view name, const ScalarOperand& operand) {
  if (!operand.is_tensor()) return;
  const int64_t partitions = checked.source(0).partitions();
  checked.require(operand.tensor.partitions() == partitions && operand.tensor.free_size() == 1,
                  "scalar-operand-shape", "{} must be a number or one number a partition, [{}, 1], got {}",
                  name, partitions, shape_text(operand.tensor));
}

}  // namespace titan::nki
