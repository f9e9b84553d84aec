#include <ATen/ops/from_blob.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <numeric>
#include <random>

#include "apps/titan/commands.h"
#include "apps/titan/commands/arguments.h"
#include "apps/titan/torch_commands/hf_folder_model.h"
#include "titan/base/error.h"
#include "titan/data/tokenizer.h"
#include "titan/models/common/kv_cache.h"

namespace titan {

namespace {

struct Sampling {
  double temperature = 0.0;  ///< 0: the most likely token
  int64_t top_k = 0;         ///< 0: all
  double top_p = 1.0;
};

/// Draws a token from logits [V]. Throws ValueError when they are not finite.
int32_t sample(std::span<const float> logits, const Sampling& sampling, std::mt19937_64& random) {
  if (!std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); })) {
    throw ValueError(
        "the model's output is not finite: its weights hold inf or nan, or are too large for --dtype");
  }
  if (sampling.temperature == 0.0) {
    return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  if (sampling.top_k > 0) order.resize(std::min(order.size(), static_cast<size_t>(sampling.top_k)));
  std::vector<double> cumulative;
  double total = 0.0;
  for (const int32_t id : order) {
    total += std::exp((static_cast<double>(logits[id]) - logits[order[0]]) / sampling.temperature);
    cumulative.push_back(total);
  }
  // The smallest set of most likely tokens that holds top_p of the probability (Holtzman et al. 2020).
  const auto last = std::lower_bound(cumulative.begin(), cumulative.end(), sampling.top_p * total);
  const double kept = last == cumulative.end() ? total : *last;
  const double drawn = std::uniform_real_distribution<double>(0.0, kept)(random);
  const auto chosen = std::upper_bound(cumulative.begin(), cumulative.end(), drawn);
  return order[std::min(static_cast<size_t>(chosen - cumulative.begin()), order.size() - 1)];
}

/// Prints what the ids decode to as far as it is settled: a character that lacks bytes yet waits for them.
class TextStream {
 public:
  explicit TextStream(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  void show(std::span<const int32_t> ids, bool finished) {
    std::string text = tokenizer_.decode(ids, {.skip_unknown_ids = true});
    constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
    if (!finished) {
      while (text.ends_with(kReplacement)) text.resize(text.size() - kReplacement.size());
    }
    if (text.size() <= shown_) return;
    std::fwrite(text.data() + shown_, 1, text.size() - shown_, stdout);
    std::fflush(stdout);
    shown_ = text.size();
  }

 private:
  const Tokenizer& tokenizer_;
  size_t shown_ = 0;
};

at::Tensor ids_tensor(std::span<const int32_t> ids) {
  std::vector<int64_t> wide(ids.begin(), ids.end());
  return at::from_blob(wide.data(), {1, static_cast<int64_t>(wide.size())}, at::kLong).clone();
}

std::string read_stdin() {
  if (::fcntl(STDIN_FILENO, F_GETFD) == -1) throw ValueError("--prompt -: standard input is closed");
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

std::vector<int32_t> encode_prompt(const Tokenizer& tokenizer, const std::string& prompt,
                                   const ModelConfig& config) {
  std::vector<int32_t> ids = tokenizer.encode(prompt);
  if (ids.empty()) {
    const auto start = tokenizer.bos_id() ? tokenizer.bos_id() : tokenizer.eos_id();
    if (!start) throw ValueError("--prompt: the text is empty and the tokenizer has no token to start from");
    ids.push_back(*start);
  }
  const int32_t highest = *std::max_element(ids.begin(), ids.end());
  if (highest >= config.vocab_size) {
    throw ValueError("{} gives the id {}, but the model has {} rows of vocabulary", tokenizer.path().string(),
                     highest, config.vocab_size);
  }
  return ids;
}

}  // namespace

extern "C" int generate_command(std::span<const std::string> args) {
  const Arguments arguments(
      "generate",
      {{"assets", "DIR", "Folder of a Hugging Face checkpoint with its tokenizer"},
       {"prompt", "TEXT", "Text to continue; - reads it from stdin"},
       {"max-new-tokens", "N", "Tokens to add at most (default 128)"},
       {"temperature", "X",
        "0 (default): the most likely token each time; above: sample at this temperature"},
       {"top-k", "N", "Sample among the N most likely tokens (default: all)"},
       {"top-p", "X", "Sample among the most likely tokens that hold this probability (default 1)"},
       {"seed", "N", "Seed of the sampling (default: drawn and printed)"},
       {"dtype", "NAME", "float32 (default) or bfloat16"}},
      args);
  if (arguments.help_shown()) return 0;
  const std::string assets = arguments.required("assets");
  if (!arguments.has("prompt")) arguments.required("prompt");
  std::string prompt = *arguments.text("prompt");
  if (prompt == "-") prompt = read_stdin();
  const Sampling sampling{arguments.number("temperature", 0.0, 0.0), arguments.integer("top-k", 0, 0),
                          arguments.number("top-p", 1.0, 0.0)};
  if (sampling.top_p > 1.0)
    throw ConfigError("titan generate: --top-p must be at most 1, got {}", sampling.top_p);
  const int64_t max_new_tokens = arguments.integer("max-new-tokens", 128, 1);
  const bool drawn = sampling.temperature > 0.0 && !arguments.has("seed");
  const int64_t seed = drawn ? static_cast<int64_t>(std::random_device{}()) : arguments.integer("seed", 0, 0);
  if (drawn) std::fprintf(stderr, "seed %lld\n", static_cast<long long>(seed));

  const Tokenizer tokenizer = Tokenizer::load(assets);
  const HfFolderModel loaded = load_hf_folder(assets, {.dtype = arguments.text("dtype").value_or("float32")});
  const ModelConfig& config = *loaded.spec.model;
  std::vector<int32_t> ids = encode_prompt(tokenizer, prompt, config);
  const auto prompt_tokens = static_cast<int64_t>(ids.size());
  const int64_t limit = std::min(prompt_tokens + max_new_tokens, config.max_seq_len());
  if (prompt_tokens >= limit) {
    throw ValueError("--prompt: {} tokens leave no room in the model's {} positions", prompt_tokens,
                     config.max_seq_len());
  }

  std::mt19937_64 random(static_cast<uint64_t>(seed));
  const auto cache = loaded.model->make_cache(1, limit);
  TextStream stream(tokenizer);
  stream.show(ids, false);
  at::Tensor next = ids_tensor(ids);
  while (static_cast<int64_t>(ids.size()) < limit) {
    const at::Tensor logits = loaded.model->next_logits(next, *cache).contiguous();
    ids.push_back(
        sample({logits.const_data_ptr<float>(), static_cast<size_t>(logits.numel())}, sampling, random));
    if (tokenizer.eos_id() == ids.back()) {
      ids.pop_back();
      break;
    }
    stream.show(ids, false);
    next = ids_tensor(std::span(ids).last(1));
  }
  stream.show(ids, true);
  std::printf("\n");
  return 0;
}

}  // namespace titan
