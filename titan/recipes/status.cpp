#include "titan/recipes/status.h"

#include <algorithm>

#include "titan/base/strings.h"
#include "titan/config/locate.h"
#include "titan/config/text.h"
#include "titan/data/datasets.h"
#include "titan/data/tokenizer/decoder.h"
#include "titan/data/tokenizer/normalizer.h"
#include "titan/data/tokenizer/post_processor.h"
#include "titan/data/tokenizer/pre_tokenizer.h"
#include "titan/models/common/model_size.h"
#include "titan/models/families.h"
#include "titan/recipes/builtin.h"
#include "titan/recipes/qwen3.h"

namespace titan {
namespace {

std::string_view word(Status status) {
  switch (status) {
    case Status::works:
      return "works";
    case Status::refused:
      return "not built yet";
    case Status::no_meaning:
      return "no meaning here";
  }
  return "";
}

void row(std::string& out, const std::vector<std::string>& cells) {
  for (const auto& cell : cells) {
    out += "| ";
    for (const char c : cell) out += c == '|' ? std::string("\\|") : std::string(1, c);
    out += cell.empty() ? "" : " ";
  }
  out += "|\n";
}

void heading(std::string& out, const std::string& title, const std::vector<std::string>& columns) {
  out += "\n## " + title + "\n\n";
  row(out, columns);
  row(out, std::vector<std::string>(columns.size(), "---"));
}

std::string code(const std::string& text) { return text.empty() ? "" : "`" + text + "`"; }

/// "layers.0.attention" -> "layers.N.attention": every element of a list has the same fields.
std::string of_any_element(std::string fqn) {
  for (size_t at; (at = fqn.find(".0.")) != fqn.npos;) fqn.replace(at, 3, ".N.");
  return fqn;
}

void field_row(std::string& out, const std::string& fqn, const Located& field) {
  row(out, {code(of_any_element(fqn)), kind_name(*field.type), code(to_text(*field.type, field.member)),
            std::string(word(field.status)), field.help});
}

bool starts_with_any(const std::string& text, std::initializer_list<std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](auto prefix) { return text.starts_with(prefix); });
}

/// The sections of a run, with their defaults.
void sections(std::string& out) {
  TrainerConfig config;
  config.optimizer = default_adamw();
  heading(out, "Fields of a run", {"field", "type", "default", "status", "meaning"});
  for (const Located& field : leaves_of(node_of(config))) {
    if (!starts_with_any(field.fqn, {"model_spec.", "activation_checkpoint."}))
      field_row(out, field.fqn, field);
  }
}

void activation_checkpoint(std::string& out) {
  heading(out, "Kinds of activation checkpointing", {"field", "type", "default", "status", "meaning"});
  for (const Alternative& kind : alternatives<ActivationCheckpointConfig>) {
    const std::string name = format("activation_checkpoint:{}", kind.name);
    row(out, {code(name), "", "", std::string(word(kind.status)), std::string(kind.help)});
    const std::unique_ptr<void, void (*)(void*)> value(kind.type->create(), kind.type->destroy);
    for (const Located& field : leaves_of({value.get(), kind.type})) {
      field_row(out, name + "." + field.fqn, field);
    }
  }
}

void model(std::string& out) {
  const TrainerConfig config = qwen3::qwen3_demo();
  heading(out, "Fields of a model (values of `qwen3_demo`)", {"field", "type", "value", "status", "meaning"});
  for (const Located& field : leaves_of(node_of(config.model_spec), 1)) {
    field_row(out, "model_spec." + field.fqn, field);
  }
}

void recipes(std::string& out) {
  heading(out, "Config functions", {"module", "also called", "function", "model", "trains"});
  for (const auto& module : builtin_modules()) {
    std::vector<std::string> aliases;
    for (const auto alias : module.aliases) aliases.push_back(code(std::string(alias)));
    for (const auto& function : module.functions) {
      const ModelSpec spec = function.make().model_spec;
      row(out, {code(std::string(module.name)), join(aliases, ", "), code(std::string(function.name)),
                spec.name + " " + spec.flavor, spec.model->has_moe() ? "not built yet" : "works"});
    }
  }
}

void flavors(std::string& out) {
  heading(out, "Flavors", {"flavor", "parameters", "active", "FLOPs per token at 4,096", "trains"});
  for (const auto& name : qwen3::flavors()) {
    const ModelSpec spec = qwen3::model_registry(name);
    const ModelSize size = model_size(*spec.model);
    row(out, {"qwen3 " + name, with_commas(size.total()), with_commas(size.active()),
              with_commas(flops_per_token(*spec.model, 4096)),
              spec.model->has_moe() ? "not built yet; counted only" : "works"});
  }
}

void architectures(std::string& out) {
  heading(out, "Hugging Face architectures (`model_type`)", {"model_type", "family", "status"});
  for (const auto& family : model_families()) {
    for (const auto& [model_type, runs] : family.architectures) {
      row(out, {code(std::string(model_type)), std::string(family.name),
                runs ? "works" : "not built yet; counted only"});
    }
  }
}

void datasets(std::string& out) {
  heading(out, "Data sets", {"name", "bundled", "about"});
  for (const auto& entry : dataset_table()) {
    row(out, {code(std::string(entry.name)), entry.folder.empty() ? "no" : "yes", std::string(entry.about)});
  }
}

void tokenizers(std::string& out) {
  heading(out, "Tokenizer components (`tokenizer.json`)", {"part", "types"});
  row(out, {"model", "BPE"});
  row(out, {"normalizer", std::string(kSupportedNormalizers)});
  row(out, {"pre_tokenizer", std::string(kSupportedPreTokenizers)});
  row(out, {"post_processor", std::string(kSupportedPostProcessors)});
  row(out, {"decoder", std::string(kSupportedDecoders)});
}

}  // namespace

std::string status_markdown() {
  std::string out;
  sections(out);
  activation_checkpoint(out);
  model(out);
  recipes(out);
  flavors(out);
  architectures(out);
  datasets(out);
  tokenizers(out);
  return out;
}

}  // namespace titan
