#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "titan/data/corpus.h"
#include "titan/data/loader.h"

namespace titan {

/// One row of a batch, written in place: seq_len entries each.
struct RowView {
  std::span<int64_t> input_ids;
  std::span<int64_t> labels;
  std::span<int64_t> positions;
};

/// Where the next row of a lane begins.
struct LanePosition {
  int64_t epoch = 0;
  int64_t document = 0;         ///< documents of the epoch that are used up
  int64_t token = 0;            ///< tokens of the next document that are used up
  int64_t document_tokens = 0;  ///< length of that document, where `token` > 0: tells another tokenizer
  bool operator==(const LanePosition&) const = default;
};

/// What is the same for all lanes of a loader. Borrowed by the lanes.
struct LaneSource {
  std::string name;  ///< for messages
  Corpus corpus;
  DocumentEncoder encode;
  int64_t num_lanes = 1;
  int64_t seed = 42;
  bool infinite = true;
};

/// Packs the documents of one lane into rows.
///
/// [Note: packing] Document i belongs to lane i mod num_lanes. A document of n tokens gives n - 1 pairs:
/// inputs tokens[:-1], labels tokens[1:]; the last token never predicts the next document's first, and
/// documents of fewer than two tokens give nothing. The pairs of all documents are written one behind the
/// other and cut into rows of seq_len. Positions begin at 0 with each document, and at 0 again in a row that
/// begins inside one. Epoch 0 takes the lane's documents in order, epoch e > 0 in a random order keyed by
/// (seed + e, lane).
class Lane {
 public:
  Lane(LaneSource& source, int64_t lane);

  /// Writes the next row; what the end of the data leaves open is padding (label kIgnoredLabel).
  void fill(const RowView& row);
  /// Passes over a row of `seq_len` without writing it.
  void skip(int64_t seq_len);
  /// True behind the last row of the last epoch (never with `infinite`).
  bool at_end();

  const LanePosition& position() const { return position_; }
  /// ValueError when `position` cannot be one of this lane's.
  void seek(const LanePosition& position);

  /// Documents of this lane.
  int64_t num_documents() const { return num_documents_; }
  /// Whether some document gives a pair. Reads documents, in order, up to the first that does.
  bool has_tokens();

 private:
  int64_t document_at(int64_t epoch, int64_t place) const;
  bool load();
  template <class Take>
  int64_t take_pairs(int64_t wanted, Take take);

  LaneSource* source_;
  int64_t lane_;
  int64_t num_documents_;
  LanePosition position_;
  std::vector<int32_t> tokens_;  ///< of the document at position_, when loaded_
  bool loaded_ = false;
};

}  // namespace titan
