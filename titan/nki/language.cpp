#include "titan/nki/language.h"

#include "titan/base/error.h"
#include "titan/nki/error.h"
#include "titan/nki/memory.h"
#include "titan/nki/rendezvous.h"
#include "titan/nki/rows.h"

namespace titan::nki::language {
namespace {

bool without_data(Core& core) { return core.options().mode == RunMode::shapes; }

Tensor allocate(std::vector<int64_t> shape, Dtype dtype, NdarrayOptions options) {
  Core& core = current_core();
  const Buffer buffer = options.buffer;
  if (is_on_chip(buffer)) {
    std::optional<ChipAddress> address;
    if (options.address) address = {options.address->partition, options.address->byte};
    return chip_tensor(core.memory(buffer), std::move(options.name), std::move(shape), dtype, address,
                       without_data(core));
  }
  if (options.address) {
    throw KernelError("ndarray.hbm-address",
                      format("{} in {} has an address: only SBUF and PSUM are placed by the kernel",
                             ndarray_named(options.name), buffer_name(buffer)));
  }
  if (buffer == Buffer::shared_hbm) {
    return core.peers().shared_hbm(core.id(), options.name, shape, dtype, without_data(core));
  }
  return hbm_tensor(std::move(options.name), std::move(shape), dtype, buffer, without_data(core));
}

void check_axis(int64_t axis, const std::source_location& where) {
  if (axis == 0) return;
  throw KernelError("language.axis", format("axis {} of the grid: it has axis 0 only", axis), where);
}

}  // namespace

Tensor ndarray(std::vector<int64_t> shape, Dtype dtype, NdarrayOptions options,
               const std::source_location& where) {
  current_core().count_call("ndarray", where);
  try {
    return allocate(std::move(shape), dtype, std::move(options));
  } catch (const KernelError& error) {
    throw error.at(where);
  }
}

Tensor shared_constant(std::vector<int64_t> shape, Dtype dtype, const std::vector<float>& values,
                       const std::source_location& where) {
  Tensor constant =
      ndarray(std::move(shape), dtype, NdarrayOptions{.buffer = hbm, .name = "constant"}, where);
  if (constant.numel() != static_cast<int64_t>(values.size())) {
    throw KernelError(
        "language.constant",
        format("{} values for {}, which has {}", values.size(), constant.describe(), constant.numel()),
        where);
  }
  const Allocation& allocation = *constant.allocation();
  if (allocation.without_data) return constant;
  from_float(values.data(), dtype, allocation.data, constant.numel());
  allocation.written->mark(0, allocation.bytes);
  return constant;
}

Tensor shared_identity_matrix(int64_t n, Dtype dtype, const std::source_location& where) {
  Tensor identity = ndarray({n, n}, dtype, NdarrayOptions{.name = "identity"}, where);
  if (identity.allocation()->without_data) return identity;
  const Rows rows(identity);
  std::vector<float> row(static_cast<size_t>(n), 0);
  for (int64_t i = 0; i < n; ++i) {
    row[static_cast<size_t>(i)] = 1;
    rows.write(i, row.data());
    row[static_cast<size_t>(i)] = 0;
  }
  return identity;
}

int64_t program_id(int64_t axis, const std::source_location& where) {
  check_axis(axis, where);
  return current_core().id();
}

int64_t num_programs(int64_t axis, const std::source_location& where) {
  check_axis(axis, where);
  return current_core().options().lnc;
}

int64_t program_ndim() { return current_core().options().lnc > 1 ? 1 : 0; }

void fori_loop(const Register& lower, const Register& upper, const std::function<void(const Register&)>& body,
               int64_t step, const std::source_location& where) {
  fori_loop(lower.value(), upper.value(), body, step, where);
}

void fori_loop(int64_t lower, int64_t upper, const std::function<void(const Register&)>& body, int64_t step,
               const std::source_location& where) {
  if (step < 1)
    throw KernelError("language.loop-step", format("a loop's step is {}, and is to be at least 1", step),
                      where);
  Register index;
  for (int64_t i = lower; i < upper; i += step) {
    current_core().count_call("fori_loop", where);
    index.set(i);
    body(index);
    // What is left is positive, but may not fit into an int64.
    const uint64_t left = static_cast<uint64_t>(upper) - static_cast<uint64_t>(i);
    if (left <= static_cast<uint64_t>(step)) return;
  }
}

void device_print(std::string label, Tensor tensor, const std::source_location& where) {
  Instruction print;
  print.sources.push_back(std::move(tensor));
  print.attributes = DevicePrint{std::move(label)};
  print.where = where;
  current_core().issue(std::move(print));
}

}  // namespace titan::nki::language
