#include "titan/data/lane.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "titan/base/error.h"
#include "titan/data/permutation.h"

namespace titan {

namespace {

constexpr size_t kProbeBytes = 4096;

/// The first bytes of `text`, not cut inside a character.
std::string_view beginning(std::string_view text) {
  if (text.size() <= kProbeBytes) return text;
  size_t size = kProbeBytes;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80) --size;
  return text.substr(0, size);
}

}  // namespace

Lane::Lane(LaneSource& source, int64_t lane)
    : source_(&source),
      lane_(lane),
      num_documents_(std::max<int64_t>(
          0, (source.corpus.num_documents() - lane + source.num_lanes - 1) / source.num_lanes)) {}

int64_t Lane::document_at(int64_t epoch, int64_t place) const {
  if (epoch > 0) {
    const uint64_t key = mix_key(static_cast<uint64_t>(source_->seed + epoch), static_cast<uint64_t>(lane_));
    place = static_cast<int64_t>(
        Permutation(static_cast<uint64_t>(num_documents_), key)(static_cast<uint64_t>(place)));
  }
  return lane_ + place * source_->num_lanes;
}

bool Lane::has_tokens() {
  for (int64_t place = 0; place < num_documents_; ++place) {
    // The beginning of a long document tells as much and costs less.
    if (source_->encode(beginning(source_->corpus.text(document_at(0, place)))).size() >= 2) return true;
  }
  return false;
}

/// Makes `tokens_` the document at `position_`, going on to the first that has pairs left; false at the end
/// of the data.
bool Lane::load() {
  // One epoch may end and the next begin on the way; a lane without tokens would go round for ever.
  for (int64_t passed = 0; passed <= 2 * num_documents_ + 2; ++passed) {
    if (!source_->infinite && position_.epoch > 0) return false;
    if (position_.document == num_documents_) {
      position_ = {.epoch = position_.epoch + 1};
      continue;
    }
    if (!loaded_) {
      tokens_ = source_->encode(source_->corpus.text(document_at(position_.epoch, position_.document)));
      loaded_ = true;
      if (position_.token > 0 && position_.document_tokens != std::ssize(tokens_))
        throw ValueError(
            "the data loader's saved state stands inside a document of {} tokens, which has {} now; was "
            "another tokenizer used?",
            position_.document_tokens, tokens_.size());
    }
    if (position_.token + 1 < std::ssize(tokens_)) return true;
    position_ = {.epoch = position_.epoch, .document = position_.document + 1};
    loaded_ = false;
  }
  throw ValueError("lane {} of the data has no document with two tokens or more", lane_);
}

/// Hands up to `wanted` pairs to take(done, count, tokens): `count` inputs, and one token more, from
/// tokens[0]. Afterwards position_ is that of the next pair, so that equal places have equal positions.
template <class Take>
int64_t Lane::take_pairs(int64_t wanted, Take take) {
  int64_t done = 0;
  while (load() && done < wanted) {
    const int64_t count = std::min(wanted - done, std::ssize(tokens_) - 1 - position_.token);
    take(done, count, tokens_.data() + position_.token);
    position_.token += count;
    position_.document_tokens = std::ssize(tokens_);
    done += count;
  }
  return done;
}

void Lane::fill(const RowView& row) {
  const auto seq_len = static_cast<int64_t>(row.input_ids.size());
  const int64_t done = take_pairs(seq_len, [&](int64_t at, int64_t count, const int32_t* tokens) {
    std::copy_n(tokens, count, row.input_ids.begin() + at);
    std::copy_n(tokens + 1, count, row.labels.begin() + at);
    std::iota(row.positions.begin() + at, row.positions.begin() + at + count, int64_t{0});
  });
  std::fill(row.input_ids.begin() + done, row.input_ids.end(), int64_t{0});
  std::fill(row.labels.begin() + done, row.labels.end(), kIgnoredLabel);
  std::iota(row.positions.begin() + done, row.positions.end(), int64_t{0});
}

void Lane::skip(int64_t seq_len) {
  take_pairs(seq_len, [](int64_t, int64_t, const int32_t*) {});
}

bool Lane::at_end() { return !source_->infinite && !load(); }

void Lane::seek(const LanePosition& position) {
  const bool token_inside = position.token == 0
                                ? position.document_tokens == 0
                                : position.token > 0 && position.token + 1 < position.document_tokens;
  if (position.epoch < 0 || position.document < 0 || position.document > num_documents_ || !token_inside)
    throw ValueError(
        "the data loader's saved state is damaged: lane {} cannot stand at epoch {}, document {} of {}, "
        "token {} of {}",
        lane_, position.epoch, position.document, num_documents_, position.token, position.document_tokens);
  position_ = position;
  loaded_ = false;
}

}  // namespace titan
