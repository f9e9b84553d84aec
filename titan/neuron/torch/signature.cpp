#include "titan/neuron/torch/signature.h"

#include <string>
#include <utility>
#include <vector>

#include "titan/base/strings.h"
#include "titan/neuron/torch/core.h"
#include "titan/neuron/torch/dtype.h"
#include "titan/neuron/torch/streams.h"

namespace titan::neuron {
namespace {

/// A 64-bit hash of words, mixed as in splitmix64 (Steele et al. 2014).
class WordHash {
 public:
  void add(uint64_t word) {
    uint64_t mixed = state_ ^ (word + 0x9e3779b97f4a7c15 + (state_ << 6));
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    state_ = mixed ^ (mixed >> 27);
  }
  uint64_t value() const { return state_; }

 private:
  uint64_t state_ = 0x94d049bb133111eb;
};

void add_tensors(WordHash& hash, std::span<const at::Tensor> tensors) {
  hash.add(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) {
      hash.add(~uint64_t{0});
      continue;
    }
    hash.add(static_cast<uint64_t>(tensor.scalar_type()) << 8 | static_cast<uint64_t>(tensor.dim()));
    for (const int64_t size : tensor.sizes()) hash.add(static_cast<uint64_t>(size));
  }
}

std::vector<TensorShape> shapes_of(std::span<const at::Tensor> tensors) {
  std::vector<TensorShape> shapes;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    shapes.push_back({.dtype = device_dtype(tensor.scalar_type()), .sizes = tensor.sizes().vec()});
  }
  return shapes;
}

/// "(float32[4, 8], int64[4])"
std::string text_of(std::span<const at::Tensor> tensors) {
  std::vector<std::string> parts;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) {
      parts.emplace_back("none");
      continue;
    }
    std::vector<std::string> sizes;
    for (const int64_t size : tensor.sizes()) sizes.push_back(std::to_string(size));
    parts.push_back(format("{}[{}]", dtype_name(tensor.scalar_type()), join(sizes, ", ")));
  }
  return format("({})", join(parts, ", "));
}

}  // namespace

OperationName::OperationName(std::string name) : text(std::move(name)) {
  WordHash words;
  for (const char letter : text) words.add(static_cast<unsigned char>(letter));
  hash = words.value();
}

void note_call(const OperationName& operation, std::span<const at::Tensor> inputs,
               std::span<const at::Tensor> outputs, const std::optional<EngineTimes>& kernels) {
  Core& here = core();
  WordHash hash;
  hash.add(operation.hash);
  add_tensors(hash, inputs);
  add_tensors(hash, outputs);
  auto times = here.cache.find(hash.value());
  if (!times) {
    const EngineTimes cost =
        times_of(work_of(operation.text, shapes_of(inputs), shapes_of(outputs)), here.rates);
    const std::string signature = format("{}{} -> {}", operation.text, text_of(inputs), text_of(outputs));
    times = here.cache.compile(hash.value(), signature, cost);
    here.claim.report().compilations = here.cache.statistics().total_compilations;
  }
  here.timeline.run(current_stream_id(), kernels.value_or(*times));
}

void note_transfer(double bytes) {
  core().timeline.run(current_stream_id(), {.hbm = bytes / core().rates.hbm_bytes()});
}

}  // namespace titan::neuron
