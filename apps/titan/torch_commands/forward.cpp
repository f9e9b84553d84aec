#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "apps/titan/commands.h"
#include "apps/titan/commands/arguments.h"
#include "apps/titan/torch_commands/hf_folder_model.h"
#include "titan/base/error.h"
#include "titan/checkpoint/safetensors.h"
#include "titan/ops/autograd.h"
#include "titan/ops/linear_cross_entropy.h"

// B batch, T tokens, V vocabulary.
namespace titan {

namespace {

using Tensors = std::map<std::string, at::Tensor>;

/// The tensor as int64 [B, T]. Throws ValueError naming the file and the tensor.
at::Tensor token_matrix(const Tensors& tensors, const std::string& name, const std::string& file,
                        at::IntArrayRef shape) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) {
    std::vector<std::string> names;
    for (const auto& [known, tensor] : tensors) names.push_back(known);
    throw ValueError("{} has no tensor {}; it holds: {}", file, name, join(names, ", "));
  }
  const at::Tensor& tensor = found->second;
  if (!at::isIntegralType(tensor.scalar_type(), false) || tensor.dim() != 2 || tensor.numel() == 0) {
    throw ValueError("{}: {} must be integers of shape [batch, tokens], got {} {}", file, name,
                     c10::toString(tensor.scalar_type()), tensor.sizes());
  }
  if (!shape.empty() && tensor.sizes() != shape) {
    throw ValueError("{}: {} has shape {}, but input_ids has {}", file, name, tensor.sizes(), shape);
  }
  return tensor.to(at::kLong);
}

void check_range(const at::Tensor& values, int64_t least, int64_t limit, const std::string& what,
                 const std::string& file, bool ignore_allowed = false) {
  const int64_t* data = values.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < values.numel(); ++i) {
    if (ignore_allowed && data[i] == kIgnoreLabel) continue;
    if (data[i] < least || data[i] >= limit) {
      throw ValueError("{}: {} holds {} at [{}, {}], outside [{}, {})", file, what, data[i],
                       i / values.size(1), i % values.size(1), least, limit);
    }
  }
}

TokenBatch read_batch(const std::string& file, const ModelConfig& config) {
  const Tensors tensors = load_safetensors(file);
  const std::vector<std::string> taken = {"input_ids", "position_ids", "labels"};
  for (const auto& [name, tensor] : tensors) {
    if (std::ranges::find(taken, name) == taken.end()) {
      throw ValueError("{}: the tensor {} has no use here{}; there is: {}", file, name,
                       did_you_mean(name, taken), join(taken, ", "));
    }
  }
  TokenBatch batch;
  batch.input_ids_BT = token_matrix(tensors, "input_ids", file, {}).contiguous();
  const at::IntArrayRef shape = batch.input_ids_BT.sizes();
  check_range(batch.input_ids_BT, 0, config.vocab_size, "input_ids", file);
  const int64_t limit = config.max_seq_len();
  if (tensors.contains("position_ids")) {
    batch.positions_BT = token_matrix(tensors, "position_ids", file, shape).contiguous();
    check_range(batch.positions_BT, 0, limit, "position_ids", file);
  } else {
    if (shape[1] > limit) {
      throw ValueError("{}: rows of {} tokens are longer than the model's {} positions", file, shape[1],
                       limit);
    }
    batch.positions_BT = at::arange(shape[1], batch.input_ids_BT.options()).expand(shape).contiguous();
  }
  if (tensors.contains("labels")) {
    batch.labels_BT = token_matrix(tensors, "labels", file, shape).contiguous();
    check_range(batch.labels_BT, 0, config.vocab_size, "labels", file, true);
  }
  return batch;
}

int64_t count_labels(const at::Tensor& labels_BT) {
  const int64_t* data = labels_BT.const_data_ptr<int64_t>();
  return labels_BT.numel() - std::count(data, data + labels_BT.numel(), kIgnoreLabel);
}

}  // namespace

extern "C" int forward_command(std::span<const std::string> args) {
  const Arguments arguments(
      "forward",
      {{"assets", "DIR", "Folder of a Hugging Face checkpoint: config.json and safetensors"},
       {"in", "FILE", "safetensors with input_ids [batch, tokens], and position_ids and labels if wanted"},
       {"out", "FILE", "safetensors that gets logits, loss and gradients (float32)"},
       {"grads", "", "Also write grads.<Hugging Face name> of the loss; needs labels"},
       {"dtype", "NAME", "float32 (default) or bfloat16: activations and matmuls"},
       {"mask", "NAME", "document (default): position_ids that do not continue begin a document; or causal"}},
      args);
  if (arguments.help_shown()) return 0;
  const std::string assets = arguments.required("assets"), in = arguments.required("in"),
                    out = arguments.required("out");
  std::error_code ignored;
  if (std::filesystem::equivalent(in, out, ignored))
    throw ConfigError("titan forward: --out {} is the file of --in", out);
  const HfFolderModel loaded = load_hf_folder(assets, {.dtype = arguments.text("dtype").value_or("float32"),
                                                       .mask = arguments.text("mask").value_or("document")});
  const TokenBatch batch = read_batch(in, *loaded.spec.model);
  if (arguments.has("grads") && !batch.labels_BT.defined()) {
    throw ValueError("--grads needs labels, and {} has none", in);
  }

  std::vector<NamedTensor> results;
  {
    const NoGrad no_grad;
    results.push_back({"logits", loaded.model->logits(batch)});
  }
  if (batch.labels_BT.defined()) {
    const int64_t counted = count_labels(batch.labels_BT);
    if (counted == 0) throw ValueError("{}: every label is {}: there is no loss", in, kIgnoreLabel);
    const at::Tensor loss = loaded.model->loss(batch, static_cast<double>(counted));
    results.push_back({"loss", loss.detach()});
    if (arguments.has("grads")) {
      backward(loss);
      const auto parameters = loaded.model->named_parameters();
      const auto names = loaded.model->hf_names();
      for (size_t i = 0; i < parameters.size(); ++i) {
        const at::Tensor gradient = parameters[i].parameter->value.grad();
        check(gradient.defined() && names[i].native == parameters[i].name,
              "every parameter has a gradient and a name");
        results.push_back({"grads." + names[i].hf, gradient.to(at::kFloat)});
      }
    }
    std::printf("loss %.9g over %s labels\n", loss.item<double>(), with_commas(counted).c_str());
  }
  save_safetensors(out, results);
  return 0;
}

}  // namespace titan
