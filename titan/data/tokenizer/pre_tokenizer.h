#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "titan/data/tokenizer/component.h"

namespace titan {

inline constexpr std::string_view kSupportedPreTokenizers =
    "Split, ByteLevel, Digits, Punctuation, Whitespace, WhitespaceSplit, Sequence";

/// Receives one piece of text; the view is valid during the call.
using PieceSink = std::function<void(std::string_view)>;

/// The "pre_tokenizer" of a tokenizer.json: cuts text into words that the model reads one by one. None gives
/// the whole text as one word.
class PreTokenizer {
 public:
  /// One cut of a piece into smaller ones.
  class Step {
   public:
    virtual ~Step() = default;
    virtual void split(std::string_view piece, const PieceSink& sink) const = 0;
  };

  PreTokenizer() = default;
  /// Throws ValueError that names a component that is not supported.
  explicit PreTokenizer(const Component& component);

  /// The last step is ByteLevel: words come as plain bytes, each of which the model takes for its stand-in.
  bool words_are_bytes() const { return words_are_bytes_; }
  /// Calls `sink` with each word of `text`, in order; none is empty.
  void split(std::string_view text, const PieceSink& sink) const;

 private:
  void add(const Component& component, bool is_last);
  std::vector<std::unique_ptr<const Step>> steps_;
  bool words_are_bytes_ = false;
};

}  // namespace titan
