#include "titan/ops/wrap_nki.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "titan/base/env.h"
#include "titan/base/error.h"
#include "titan/ops/device.h"
#include "titan/ops/recorded_operators.h"

namespace titan {
namespace {

constexpr const char* kLncVariable = "NEURON_LOGICAL_NC_CONFIG";

/// Keeps a tensor alive as the owner of HBM, and is how it is found again.
struct TorchOwner {
  at::Tensor tensor;
  void operator()(void*) const {}
};

const at::Tensor* given_tensor(const nki::Tensor& tensor) {
  const TorchOwner* owner = std::get_deleter<TorchOwner>(tensor.allocation()->owner);
  return owner == nullptr ? nullptr : &owner->tensor;
}

nki::Dtype nki_dtype(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return nki::Dtype::float32;
    case at::kBFloat16:
      return nki::Dtype::bfloat16;
    case at::kHalf:
      return nki::Dtype::float16;
    case at::kFloat8_e5m2:
      return nki::Dtype::float8_e5m2;
    case at::kInt:
      return nki::Dtype::int32;
    case at::kUInt32:
      return nki::Dtype::uint32;
    case at::kShort:
      return nki::Dtype::int16;
    case at::kUInt16:
      return nki::Dtype::uint16;
    case at::kChar:
      return nki::Dtype::int8;
    case at::kByte:
    case at::kBool:
      return nki::Dtype::uint8;
    default:
      throw ValueError(
          "a kernel cannot take a tensor of {} ({}): NKI has float32, bfloat16, float16, float8_e5m2, and "
          "integers "
          "of up to 32 bits; convert it with .to()",
          c10::toString(tensor.scalar_type()), tensor.sizes());
  }
}

at::ScalarType torch_dtype(nki::Dtype dtype) {
  switch (dtype) {
    case nki::Dtype::float32:
    case nki::Dtype::tfloat32:
      return at::kFloat;
    case nki::Dtype::bfloat16:
      return at::kBFloat16;
    case nki::Dtype::float16:
      return at::kHalf;
    case nki::Dtype::float8_e5m2:
      return at::kFloat8_e5m2;
    case nki::Dtype::int32:
      return at::kInt;
    case nki::Dtype::uint32:
      return at::kUInt32;
    case nki::Dtype::int16:
      return at::kShort;
    case nki::Dtype::uint16:
      return at::kUInt16;
    case nki::Dtype::int8:
      return at::kChar;
    case nki::Dtype::uint8:
      return at::kByte;
    case nki::Dtype::float8_e4m3:
      break;  // torch's float8_e4m3fn has other bits: no infinities, and a larger range
  }
  throw ValueError("a kernel returns a tensor of {}, which torch does not have: convert it in the kernel",
                   nki::dtype_name(dtype));
}

void check_given(const at::Tensor& tensor) {
  if (!tensor.defined()) throw ValueError("a kernel was given an undefined tensor");
  if (!tensor.is_cpu() && !tensor.is_privateuseone() && !tensor.is_meta()) {
    throw ValueError(
        "a kernel was given a tensor on {}: kernels run in the simulator, on tensors of cpu, neuron "
        "or meta",
        c10::str(tensor.device()));
  }
  if (tensor.layout() != at::kStrided || !tensor.is_contiguous()) {
    throw ValueError(
        "a kernel was given a tensor that is not contiguous ({} with strides {}): call .contiguous() on "
        "it first",
        tensor.sizes(), tensor.layout() == at::kStrided ? tensor.strides() : at::IntArrayRef());
  }
  if (at::GradMode::is_enabled() && tensor.requires_grad()) {
    throw ValueError(
        "a kernel was given a tensor {} that requires a gradient, and a kernel records none: call it in "
        "the body of an nki_op with .register_autograd(), or under titan::NoGrad",
        tensor.sizes());
  }
}

struct TorchLayout {
  std::vector<int64_t> sizes, strides;
};

TorchLayout layout_of(const nki::Tensor& tensor) {
  TorchLayout layout;
  for (const nki::Dim& dim : tensor.dims()) {
    layout.sizes.push_back(dim.count);
    layout.strides.push_back(dim.stride);
  }
  return layout;
}

bool is_whole(const nki::Tensor& tensor) {
  const nki::Allocation& allocation = *tensor.allocation();
  return tensor.offset() == 0 && tensor.dtype() == allocation.dtype && tensor.shape() == allocation.shape &&
         tensor.is_contiguous();
}

at::Tensor view_of_given(const at::Tensor& given, const nki::Tensor& result) {
  if (is_whole(result)) return given;
  if (result.dtype() != result.allocation()->dtype) {
    throw ValueError(
        "a kernel returns {}, an argument seen as another dtype: return it as it was given, and use "
        ".view() in torch",
        result.describe());
  }
  const TorchLayout layout = layout_of(result);
  return at::as_strided(given, layout.sizes, layout.strides, given.storage_offset() + result.offset());
}

using AllocationOwner = std::shared_ptr<nki::Allocation>;

/// Also the mark by which kernel_memory() knows such a tensor.
void release_allocation(void* owner) { delete static_cast<AllocationOwner*>(owner); }

/// HBM of the kernel's own, without a copy.
at::Tensor cpu_tensor(const nki::Tensor& result, at::ScalarType dtype) {
  const TorchLayout layout = layout_of(result);
  std::byte* data = result.allocation()->data + result.offset() * nki::itemsize(result.dtype());
  return at::for_blob(data, layout.sizes)
      .strides(layout.strides)
      .context(std::make_unique<AllocationOwner>(result.allocation()).release(), release_allocation)
      .options(at::TensorOptions(dtype))
      .make_tensor();
}

}  // namespace

nki::Tensor nki_tensor(const at::Tensor& tensor) {
  check_given(tensor);
  const nki::Dtype dtype = nki_dtype(tensor);
  void* data = tensor.is_meta() ? nullptr : tensor.data_ptr();
  return nki::host_tensor("input", tensor.sizes().vec(), dtype, data,
                          std::shared_ptr<void>(data, TorchOwner{tensor}));
}

at::Tensor torch_tensor(const nki::Tensor& result, at::Device device) {
  if (!result.defined()) return {};
  if (result.indirection().kind != nki::Tensor::Indirection::Kind::none) {
    throw ValueError("a kernel returns {}, whose place is known at run time only: copy it to HBM first",
                     result.describe());
  }
  if (const at::Tensor* given = given_tensor(result)) return view_of_given(*given, result);
  const at::ScalarType dtype = torch_dtype(result.dtype());
  const at::TensorOptions options = at::TensorOptions(dtype).device(device);
  if (device.is_meta()) {
    const TorchLayout layout = layout_of(result);
    return at::empty_strided(layout.sizes, layout.strides, options);
  }
  const at::Tensor on_cpu = cpu_tensor(result, dtype);
  if (device.is_cpu()) return on_cpu;
  // The device's memory is the host's too.
  const at::Tensor whole = on_cpu.contiguous();
  at::Tensor there = at::empty(whole.sizes(), options);
  if (whole.numel() > 0) std::memcpy(there.data_ptr(), whole.const_data_ptr(), whole.nbytes());
  return there;
}

std::shared_ptr<const nki::Allocation> kernel_memory(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cpu() || !tensor.has_storage()) return nullptr;
  const auto* owner = tensor.storage().data_ptr().cast_context<AllocationOwner>(release_allocation);
  return owner == nullptr ? nullptr : *owner;
}

std::string get_logical_neuron_cores() {
  const auto given = env(kLncVariable);
  if (!given || *given == "1" || *given == "2") return given.value_or("2");
  record_load_problem(format(
      "get_logical_neuron_cores(): {} must be 1 or 2 (physical NeuronCores of a logical one; 2 when unset), "
      "got {}",
      kLncVariable, *given));
  return "2";
}

namespace detail {

GivenTensors::~GivenTensors() {
  for (const nki::Tensor& tensor : tensors_) {
    if (!tensor.allocation()->changed.exchange(false)) continue;
    const at::Tensor& given = *given_tensor(tensor);
    if (!given.is_inference()) given.unsafeGetTensorImpl()->bump_version();
  }
}

void GivenTensors::add(const nki::Tensor& tensor) {
  const at::Tensor* given = tensor.defined() ? given_tensor(tensor) : nullptr;
  if (given == nullptr) return;
  if (device_ && *device_ != given->device()) {
    throw ValueError("a kernel was given tensors on {} and on {}: bring them to one device with .to()",
                     c10::str(*device_), c10::str(given->device()));
  }
  device_ = given->device();
  tensors_.push_back(tensor);
}

nki::RunOptions kernel_run_options(int64_t lnc, at::Device device) {
  if (lnc != 1 && lnc != 2) {
    throw ValueError(
        "wrap_nki(kernel)[{}]: a kernel runs on 1 or 2 physical NeuronCores; "
        "get_logical_neuron_cores() says how many a logical one has",
        lnc);
  }
  if (nki::is_in_kernel()) {
    throw ValueError("wrap_nki(kernel)[{}] is called inside of a kernel: call the kernel's function there",
                     lnc);
  }
  return {.mode = device.is_meta() ? nki::RunMode::shapes : nki::RunMode::execute,
          .count_work = taken_device() != nullptr && !device.is_meta()};
}

void count_kernel_work(const nki::KernelRun& run, at::Device device) {
  if (!run.options.count_work) return;
  DeviceKernelWork work{.on_device = device.is_privateuseone() ? 1 : 0};
  for (const nki::CoreRecord& core : run.cores) {
    work.tensor_s = std::max(work.tensor_s, core.work.tensor);
    work.vector_s = std::max(work.vector_s, core.work.vector);
    work.scalar_s = std::max(work.scalar_s, core.work.scalar);
    work.gpsimd_s = std::max(work.gpsimd_s, core.work.gpsimd);
    work.hbm_bytes += core.work.hbm_bytes;
  }
  count_device_kernel(work);
}

}  // namespace detail

}  // namespace titan
