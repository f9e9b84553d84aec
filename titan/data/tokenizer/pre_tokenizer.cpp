#include "titan/data/tokenizer/pre_tokenizer.h"

#include "titan/base/strings.h"
#include "titan/data/tokenizer/byte_level.h"
#include "titan/data/tokenizer/pattern.h"
#include "titan/data/tokenizer/split_step.h"
#include "titan/data/tokenizer/unicode.h"

namespace titan {

namespace {

// GPT-2's expression (openai/gpt-2, src/encoder.py).
constexpr std::string_view kByteLevelSplit =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// \w of the Rust regex crate, which this one pre-tokenizer uses; Oniguruma's differs.
constexpr std::string_view kWord =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200c}\x{200d}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";

class PrefixSpaceStep : public PreTokenizer::Step {
 public:
  void split(std::string_view piece, const PieceSink& sink) const override {
    if (piece.starts_with(' ')) return sink(piece);
    sink(std::string(" ").append(piece));
  }
};

class StandInStep : public PreTokenizer::Step {
 public:
  void split(std::string_view piece, const PieceSink& sink) const override {
    sink(byte_level::encode(piece));
  }
};

}  // namespace

PreTokenizer::PreTokenizer(const Component& component) { add(component, true); }

void PreTokenizer::add(const Component& component, bool is_last) {
  const std::string& type = component.type();
  if (type == "Sequence") {
    component.require_known({"type", "pretokenizers"});
    const auto children = component.children("pretokenizers");
    for (size_t i = 0; i < children.size(); ++i) add(children[i], is_last && i + 1 == children.size());
  } else if (type == "Split") {
    component.require_known({"type", "pattern", "behavior", "invert"});
    steps_.push_back(split_at_matches(pattern_of(component), split_behavior_of(component),
                                      component.flag_or("invert", false)));
  } else if (type == "ByteLevel") {
    component.require_known({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    if (component.flag_or("add_prefix_space", true)) steps_.push_back(std::make_unique<PrefixSpaceStep>());
    if (component.flag_or("use_regex", true))
      steps_.push_back(
          split_at_matches(Regex(kByteLevelSplit, component.where()), SplitBehavior::isolated, false));
    // The model reads bytes by itself; only a later step needs to see their stand-ins.
    if (is_last)
      words_are_bytes_ = true;
    else
      steps_.push_back(std::make_unique<StandInStep>());
  } else if (type == "Digits") {
    component.require_known({"type", "individual_digits"});
    steps_.push_back(split_at_code_points(unicode::is_numeric, component.flag_or("individual_digits", false)
                                                                   ? SplitBehavior::isolated
                                                                   : SplitBehavior::contiguous));
  } else if (type == "Punctuation") {
    component.require_known({"type", "behavior"});
    steps_.push_back(split_at_matches(Regex(R"([!-/:-@\[-`{-~\p{P}])", component.where()),
                                      split_behavior_of(component), false));
  } else if (type == "Whitespace") {
    component.require_known({"type"});
    steps_.push_back(split_at_matches(Regex(format("[{}]+|[^{}\\s]+", kWord, kWord), component.where()),
                                      SplitBehavior::removed, true));
  } else if (type == "WhitespaceSplit") {
    component.require_known({"type"});
    steps_.push_back(split_at_code_points(unicode::is_white_space, SplitBehavior::removed));
  } else {
    component.refuse_type(kSupportedPreTokenizers);
  }
}

void PreTokenizer::split(std::string_view text, const PieceSink& sink) const {
  if (text.empty()) return;
  const std::function<void(size_t, std::string_view)> run = [&](size_t step, std::string_view piece) {
    if (step == steps_.size()) return sink(piece);
    if (step + 1 == steps_.size()) return steps_[step]->split(piece, sink);
    steps_[step]->split(piece, [&run, step](std::string_view part) { run(step + 1, part); });
  };
  run(0, text);
}

}  // namespace titan
