#include "titan/data/tokenizer/split_step.h"

#include <algorithm>
#include <map>

#include "titan/data/tokenizer/unicode.h"

namespace titan {

namespace {

/// A stretch of a piece: a delimiter or what lies between two.
struct Stretch {
  ByteRange range;
  bool is_delimiter;
};

/// Joins neighbouring stretches as `behavior` asks. A delimiter joins the stretch on its left (right) side
/// only where that one is no delimiter.
std::vector<ByteRange> join(std::vector<Stretch> stretches, SplitBehavior behavior) {
  const bool backwards = behavior == SplitBehavior::merged_with_next;
  if (backwards) std::reverse(stretches.begin(), stretches.end());
  std::vector<ByteRange> result;
  bool previous = false;
  for (const Stretch& stretch : stretches) {
    const bool joins = behavior == SplitBehavior::contiguous ? stretch.is_delimiter == previous
                                                             : stretch.is_delimiter && !previous;
    if (!joins || result.empty())
      result.push_back(stretch.range);
    else if (backwards)
      result.back().begin = stretch.range.begin;
    else
      result.back().end = stretch.range.end;
    previous = stretch.is_delimiter;
  }
  if (backwards) std::reverse(result.begin(), result.end());
  return result;
}

/// Hands stretches, given in order, to a sink.
class Joiner {
 public:
  Joiner(std::string_view piece, SplitBehavior behavior, const PieceSink& sink)
      : piece_(piece), behavior_(behavior), sink_(sink) {}

  void operator()(size_t begin, size_t end, bool is_delimiter) {
    if (behavior_ == SplitBehavior::isolated || behavior_ == SplitBehavior::removed) {
      if (!is_delimiter || behavior_ == SplitBehavior::isolated) emit({begin, end});
    } else {
      stretches_.push_back({{begin, end}, is_delimiter});
    }
  }

  void finish() {
    for (const ByteRange range : join(std::move(stretches_), behavior_)) emit(range);
  }

 private:
  void emit(ByteRange range) {
    if (range.begin < range.end) sink_(piece_.substr(range.begin, range.end - range.begin));
  }

  std::string_view piece_;
  SplitBehavior behavior_;
  const PieceSink& sink_;
  std::vector<Stretch> stretches_;
};

class MatchStep : public PreTokenizer::Step {
 public:
  MatchStep(Regex regex, SplitBehavior behavior, bool invert)
      : regex_(std::move(regex)), behavior_(behavior), invert_(invert) {}

  void split(std::string_view piece, const PieceSink& sink) const override {
    Joiner joiner(piece, behavior_, sink);
    size_t done = 0;
    Regex::Matches matches(regex_, piece);
    while (const auto match = matches.next()) {
      if (done != match->begin) joiner(done, match->begin, invert_);
      joiner(match->begin, match->end, !invert_);
      done = match->end;
    }
    if (done != piece.size()) joiner(done, piece.size(), invert_);
    joiner.finish();
  }

 private:
  Regex regex_;
  SplitBehavior behavior_;
  bool invert_;
};

class CodePointStep : public PreTokenizer::Step {
 public:
  CodePointStep(std::function<bool(char32_t)> is_delimiter, SplitBehavior behavior)
      : is_delimiter_(std::move(is_delimiter)), behavior_(behavior) {}

  void split(std::string_view piece, const PieceSink& sink) const override {
    Joiner joiner(piece, behavior_, sink);
    size_t done = 0;
    for (size_t at = 0; at < piece.size();) {
      const auto point = unicode::code_point_at(piece, at);
      const size_t end = at + static_cast<size_t>(point.size);
      if (is_delimiter_(point.value)) {
        if (done != at) joiner(done, at, false);
        joiner(at, end, true);
        done = end;
      }
      at = end;
    }
    if (done != piece.size()) joiner(done, piece.size(), false);
    joiner.finish();
  }

 private:
  std::function<bool(char32_t)> is_delimiter_;
  SplitBehavior behavior_;
};

}  // namespace

SplitBehavior split_behavior_of(const Component& component) {
  static const std::map<std::string_view, SplitBehavior> behaviors{
      {"Removed", SplitBehavior::removed},
      {"Isolated", SplitBehavior::isolated},
      {"MergedWithPrevious", SplitBehavior::merged_with_previous},
      {"MergedWithNext", SplitBehavior::merged_with_next},
      {"Contiguous", SplitBehavior::contiguous}};
  const auto found = behaviors.find(component.text("behavior"));
  if (found == behaviors.end())
    component.fail("has the behavior \"" + component.text("behavior") +
                   "\"; known are Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous");
  return found->second;
}

std::unique_ptr<PreTokenizer::Step> split_at_matches(Regex regex, SplitBehavior behavior, bool invert) {
  return std::make_unique<MatchStep>(std::move(regex), behavior, invert);
}

std::unique_ptr<PreTokenizer::Step> split_at_code_points(std::function<bool(char32_t)> is_delimiter,
                                                         SplitBehavior behavior) {
  return std::make_unique<CodePointStep>(std::move(is_delimiter), behavior);
}

}  // namespace titan
