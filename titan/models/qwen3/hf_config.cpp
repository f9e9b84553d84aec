#include "titan/models/qwen3/hf_config.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "titan/base/error.h"

namespace titan::qwen3 {
namespace {

/// Reads keys of a config.json; errors name the file and the key.
class Reader {
 public:
  Reader(const Json& hf, std::string_view what) : hf_(hf), what_(what) {}

  /// The member, or null where it is missing or null.
  const Json* find(std::string_view key) const {
    const Json* value = hf_.find(key);
    return value && !value->is_null() ? value : nullptr;
  }

  int64_t positive(std::string_view key) const { return positive_of(key, require(key)); }
  int64_t positive(std::string_view key, int64_t otherwise) const {
    const Json* value = find(key);
    return value ? positive_of(key, *value) : otherwise;
  }

  double number(std::string_view key, double otherwise) const {
    const Json* value = find(key);
    if (!value) return otherwise;
    if (!value->is_number()) fail(key, "a number", *value);
    return value->as_double();
  }

  bool flag(std::string_view key, bool otherwise) const {
    const Json* value = find(key);
    if (!value) return otherwise;
    if (!value->is_bool()) fail(key, "true or false", *value);
    return value->as_bool();
  }

  std::string text(std::string_view key, std::string_view otherwise) const {
    const Json* value = find(key);
    if (!value) return std::string(otherwise);
    if (!value->is_string()) fail(key, "a string", *value);
    return value->as_string();
  }

  /// Stops at a setting that nothing here computes.
  [[noreturn]] void refuse(std::string_view key, std::string_view value) const {
    throw ValueError("{}: {} {} is not built yet for Qwen3", what_, key, value);
  }

  std::string_view what() const { return what_; }

 private:
  const Json& require(std::string_view key) const {
    const Json* value = find(key);
    if (!value) throw ValueError("{}: \"{}\" is missing; a Qwen3 config.json needs it", what_, key);
    return *value;
  }

  int64_t positive_of(std::string_view key, const Json& value) const {
    if (!value.is_int() || value.as_int() <= 0) fail(key, "a positive integer", value);
    // Far above any model; products of two sizes stay exact.
    constexpr int64_t kLargest = int64_t{1} << 30;
    if (value.as_int() > kLargest) fail(key, format("at most {}", kLargest), value);
    return value.as_int();
  }

  [[noreturn]] void fail(std::string_view key, std::string_view expected, const Json& value) const {
    throw ValueError("{}: \"{}\" must be {} (given: {})", what_, key, expected, value.dump());
  }

  const Json& hf_;
  std::string what_;
};

/// The rotary base: transformers 4 writes it at the top, transformers 5 under rope_parameters, many files
/// both.
double read_theta(const Reader& reader) {
  const auto positive = [&](std::string_view key, const Json& value) {
    if (!value.is_number() || !(value.as_double() > 0)) {
      throw ValueError("{}: \"{}\" must be a positive number (given: {})", reader.what(), key, value.dump());
    }
    return value.as_double();
  };
  const Json* top = reader.find("rope_theta");
  const Json* nested = nullptr;
  for (const char* section : {"rope_parameters", "rope_scaling"}) {
    const Json* rope = reader.find(section);
    if (!rope) continue;
    for (const char* key : {"rope_type", "type"}) {
      const Json* type = rope->find(key);
      if (!type || type->is_null()) continue;
      if (type->dump() != "\"default\"") reader.refuse(std::string(section) + "." + key, type->dump());
    }
    if (!nested) nested = rope->find("rope_theta");
  }
  if (!top && !nested) {
    throw ValueError(
        "{}: neither \"rope_theta\" nor \"rope_parameters.rope_theta\" is there; a Qwen3 config.json "
        "needs one of them",
        reader.what());
  }
  const double theta =
      nested ? positive("rope_parameters.rope_theta", *nested) : positive("rope_theta", *top);
  if (top && positive("rope_theta", *top) != theta) {
    throw ValueError("{}: \"rope_theta\" {} contradicts \"rope_parameters.rope_theta\" {}; make them equal",
                     reader.what(), top->dump(), nested->dump());
  }
  return theta;
}

void refuse_unbuilt(const Reader& reader) {
  const std::string act = reader.text("hidden_act", "silu");
  if (act != "silu") reader.refuse("hidden_act", act);
  if (reader.flag("use_sliding_window", false)) reader.refuse("use_sliding_window", "true");
  if (reader.number("attention_dropout", 0) != 0) reader.refuse("attention_dropout", "other than 0");
  const Json* layers = reader.find("layer_types");
  if (!layers) return;
  for (const Json& type : layers->elements()) {
    if (type.dump() != "\"full_attention\"") reader.refuse("layer_types", type.dump());
  }
}

void read_experts(const Reader& reader, Qwen3Sizes& sizes) {
  sizes.num_experts = reader.positive("num_experts");
  sizes.top_k = reader.positive("num_experts_per_tok");
  sizes.hidden_dim = reader.positive("moe_intermediate_size");
  sizes.route_norm = reader.flag("norm_topk_prob", false);
  if (reader.positive("decoder_sparse_step", 1) != 1) reader.refuse("decoder_sparse_step", "other than 1");
  const Json* dense = reader.find("mlp_only_layers");
  if (dense && dense->size() > 0) reader.refuse("mlp_only_layers", dense->dump());
}

/// 5000000 -> "5e6", 1e-06 -> "1e-06": as people write them in a config function.
std::string brief(double value) {
  if (value >= 1e4 && value == std::floor(value)) {
    int exponent = 0;
    double mantissa = value;
    while (std::fmod(mantissa, 10) == 0) mantissa /= 10, ++exponent;
    if (exponent >= 4) return format("{}e{}", static_cast<int64_t>(mantissa), exponent);
  }
  return value == std::floor(value) ? std::to_string(static_cast<int64_t>(value)) : shortest(value);
}

std::string brief(int64_t value) { return std::to_string(value); }
std::string brief(bool value) { return value ? "true" : "false"; }

/// Calls visit(key, member of a, member of b, breaks_weights) for each number the two files share.
template <class Visit>
void for_each_number(const Qwen3Sizes& a, const Qwen3Sizes& b, Visit visit) {
  const bool sparse = a.num_experts > 0 && b.num_experts > 0;
  visit("vocab_size", a.vocab_size, b.vocab_size, true);
  visit("hidden_size", a.dim, b.dim, true);
  visit("num_hidden_layers", a.n_layers, b.n_layers, true);
  visit("num_attention_heads", a.n_heads, b.n_heads, true);
  visit("num_key_value_heads", a.n_kv_heads, b.n_kv_heads, true);
  visit("head_dim", a.head_dim, b.head_dim, true);
  visit("num_experts", a.num_experts, b.num_experts, true);
  visit(sparse ? "moe_intermediate_size" : "intermediate_size", a.hidden_dim, b.hidden_dim, true);
  if (sparse) {
    visit("num_experts_per_tok", a.top_k, b.top_k, true);
    visit("norm_topk_prob", a.route_norm, b.route_norm, true);
  }
  visit("tie_word_embeddings", a.tied, b.tied, true);
  visit("attention_bias", a.attention_bias, b.attention_bias, true);
  visit("rms_norm_eps", a.norm_eps, b.norm_eps, true);
  visit("rope_theta", a.rope_theta, b.rope_theta, true);
  visit("max_position_embeddings", a.max_seq_len, b.max_seq_len, false);
}

std::vector<Contradiction> differences(const Qwen3Sizes& theirs, const Qwen3Sizes& ours) {
  std::vector<Contradiction> found;
  for_each_number(theirs, ours, [&](std::string_view key, auto a, auto b, bool breaks) {
    if (a != b) found.push_back({std::string(key), brief(a), brief(b), breaks});
  });
  return found;
}

/// Whether model_registry's options can turn a flavor of `ours` into `theirs`.
bool only_options_differ(const std::vector<Contradiction>& found) {
  return std::all_of(found.begin(), found.end(), [](const auto& one) {
    return one.key == "rope_theta" || one.key == "max_position_embeddings";
  });
}

/// The call of model_registry that gives `theirs`, or "" when no flavor does.
std::string registry_call(const ModelSpec& spec, const Qwen3Sizes& theirs) {
  auto names = flavors();
  const auto current = std::find(names.begin(), names.end(), spec.flavor);
  if (current != names.end()) std::rotate(names.begin(), current, current + 1);
  for (const auto& name : names) {
    const Qwen3Sizes sizes = flavor_sizes(name);
    if (!only_options_differ(differences(theirs, sizes))) continue;
    std::vector<std::string> options;
    const AttnBackend backend = spec.model->layers.front()->attention->attn_backend;
    for (const auto& [word, value] : titan::names<AttnBackend>) {
      if (value == backend && backend != AttnBackend::flex) {
        options.push_back(format(".attn_backend = AttnBackend::{}", word));
      }
    }
    if (theirs.rope_theta != sizes.rope_theta) {
      options.push_back(format(".rope_theta = {}", brief(theirs.rope_theta)));
    }
    if (theirs.max_seq_len != sizes.max_seq_len) {
      options.push_back(format(".max_position_embeddings = {}", theirs.max_seq_len));
    }
    if (options.empty()) return format("model_registry(\"{}\")", name);
    return format("model_registry(\"{}\", {{}})", name, join(options, ", "));
  }
  return "";
}

}  // namespace

Qwen3Sizes hf_sizes(const Json& hf, std::string_view what) {
  if (!hf.is_object()) throw ValueError("{}: expected an object, found {}", what, hf.kind());
  const Reader reader(hf, what);
  const std::string type = reader.text("model_type", "");
  if (type != "qwen3" && type != "qwen3_moe") {
    throw ValueError("{}: \"model_type\" is \"{}\", but this model reads qwen3 and qwen3_moe", what, type);
  }
  refuse_unbuilt(reader);
  Qwen3Sizes sizes;
  sizes.vocab_size = reader.positive("vocab_size");
  sizes.dim = reader.positive("hidden_size");
  sizes.n_layers = reader.positive("num_hidden_layers");
  constexpr int64_t kMostLayers = 10000;
  if (sizes.n_layers > kMostLayers) {
    throw ValueError("{}: \"num_hidden_layers\" must be at most {} (given: {})", what, kMostLayers,
                     sizes.n_layers);
  }
  sizes.n_heads = reader.positive("num_attention_heads");
  sizes.n_kv_heads = reader.positive("num_key_value_heads");
  // An explicit head_dim wins over hidden_size / heads; transformers' Qwen3 takes 128 where there is none.
  sizes.head_dim = reader.positive("head_dim", 128);
  if (sizes.n_heads % sizes.n_kv_heads != 0) {
    throw ValueError("{}: \"num_attention_heads\" {} is no multiple of \"num_key_value_heads\" {}", what,
                     sizes.n_heads, sizes.n_kv_heads);
  }
  if (sizes.head_dim % 2 != 0) {
    throw ValueError("{}: \"head_dim\" {} is odd; rotary embedding turns pairs", what, sizes.head_dim);
  }
  sizes.max_seq_len = reader.positive("max_position_embeddings", 32768);
  sizes.norm_eps = reader.number("rms_norm_eps", 1e-6);
  if (!(sizes.norm_eps > 0 && sizes.norm_eps < 1)) {
    throw ValueError("{}: \"rms_norm_eps\" must be between 0 and 1 (given: {})", what,
                     shortest(sizes.norm_eps));
  }
  sizes.init_std = reader.number("initializer_range", 0.02);
  sizes.tied = reader.flag("tie_word_embeddings", false);
  sizes.attention_bias = reader.flag("attention_bias", false);
  sizes.rope_theta = read_theta(reader);
  if (type == "qwen3_moe") {
    read_experts(reader, sizes);
  } else {
    if (reader.find("num_experts")) {
      throw ValueError(
          "{}: \"num_experts\" is set but \"model_type\" is \"qwen3\"; a mixture of experts is "
          "\"qwen3_moe\"",
          what);
    }
    sizes.hidden_dim = reader.positive("intermediate_size");
  }
  return sizes;
}

Qwen3Sizes read_hf_sizes(const std::string& assets) {
  const auto path = std::filesystem::path(assets) / "config.json";
  return hf_sizes(Json::parse_file(path), path.string());
}

Qwen3Sizes sizes_of(const ModelConfig& model) {
  const auto of_layer = [&](const TransformerBlockConfig& layer) {
    const auto& attention = *layer.attention;
    Qwen3Sizes sizes{.vocab_size = model.vocab_size,
                     .dim = model.dim,
                     .n_layers = model.n_layers(),
                     .n_heads = attention.n_heads,
                     .n_kv_heads = attention.n_kv_heads,
                     .head_dim = attention.head_dim,
                     .max_seq_len = attention.rope->max_seq_len,
                     .rope_theta = attention.rope->theta,
                     .norm_eps = layer.attention_norm->eps,
                     .init_std = attention.qkv_linear->wq->init_std,
                     .tied = model.enable_weight_tying,
                     .attention_bias = attention.qkv_linear->wq->bias};
    if (layer.feed_forward) {
      sizes.hidden_dim = layer.feed_forward->w1->out_features;
    } else {
      sizes.num_experts = layer.moe->num_experts;
      sizes.top_k = layer.moe->router->top_k;
      sizes.route_norm = layer.moe->router->route_norm;
      sizes.hidden_dim = layer.moe->routed_experts->inner_experts->hidden_dim;
    }
    return sizes;
  };
  const Qwen3Sizes first = of_layer(*model.layers.front());
  for (size_t i = 1; i < model.layers.size(); ++i) {
    const auto found = differences(of_layer(*model.layers[i]), first);
    if (found.empty()) continue;
    throw ConfigError(
        "model_spec.model.layers.{}: {} is {}, but {} in layer 0; Hugging Face files cannot say that", i,
        found.front().key, found.front().assets, found.front().model);
  }
  return first;
}

HfComparison compare(const ModelSpec& spec, const Json& hf, std::string_view what) {
  const Qwen3Sizes theirs = hf_sizes(hf, what);
  HfComparison result{.contradictions = differences(theirs, sizes_of(*spec.model)), .mend = {}};
  if (result.contradictions.empty()) return result;
  const std::string call = registry_call(spec, theirs);
  result.mend = call.empty() ? "config.model_spec = qwen3::from_assets(ASSETS)"
                             : format("config.model_spec = qwen3::{}", call);
  if (only_options_differ(result.contradictions)) result.mend += ", or with the option .from_assets = ASSETS";
  return result;
}

Json hf_config(const ModelSpec& spec) {
  const Qwen3Sizes sizes = sizes_of(*spec.model);
  const bool sparse = sizes.num_experts > 0;
  Json hf = Json::object();
  hf.set("architectures", Json::Array{sparse ? "Qwen3MoeForCausalLM" : "Qwen3ForCausalLM"});
  hf.set("model_type", sparse ? "qwen3_moe" : "qwen3");
  hf.set("vocab_size", sizes.vocab_size);
  hf.set("hidden_size", sizes.dim);
  hf.set("num_hidden_layers", sizes.n_layers);
  hf.set("num_attention_heads", sizes.n_heads);
  hf.set("num_key_value_heads", sizes.n_kv_heads);
  hf.set("head_dim", sizes.head_dim);
  hf.set("hidden_act", "silu");
  hf.set("intermediate_size", sizes.hidden_dim);
  if (sparse) {
    hf.set("moe_intermediate_size", sizes.hidden_dim);
    hf.set("num_experts", sizes.num_experts);
    hf.set("num_experts_per_tok", sizes.top_k);
    hf.set("norm_topk_prob", sizes.route_norm);
    hf.set("decoder_sparse_step", 1);
    hf.set("mlp_only_layers", Json::array());
  }
  hf.set("max_position_embeddings", sizes.max_seq_len);
  hf.set("rms_norm_eps", sizes.norm_eps);
  // Both places, so that transformers 4 and 5 and other readers find it.
  hf.set("rope_theta", sizes.rope_theta);
  Json rope = Json::object();
  rope.set("rope_theta", sizes.rope_theta);
  rope.set("rope_type", "default");
  hf.set("rope_parameters", rope);
  hf.set("attention_bias", sizes.attention_bias);
  hf.set("attention_dropout", 0.0);
  hf.set("use_sliding_window", false);
  hf.set("sliding_window", nullptr);
  hf.set("tie_word_embeddings", sizes.tied);
  hf.set("initializer_range", sizes.init_std);
  hf.set("use_cache", true);
  return hf;
}

}  // namespace titan::qwen3
