#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "titan/data/lane.h"
#include "titan/data/loader.h"

namespace titan {

/// How far a run has read: rows of all ranks together, and each lane's place behind them.
struct StreamPosition {
  int64_t rows = 0;
  std::map<int64_t, LanePosition> lanes;
};

/// The batches of one data-parallel rank, in order.
///
/// [Note: rows and lanes] The documents are dealt to a fixed number of lanes, each of which packs its own
/// rows. Of the M lanes that hold any token, global row g is the next row of the (g mod M)-th. Rank r of n
/// trains on rows r, r + n, r + 2n, ...: none depends on n. Where n divides M a rank packs only its own M / n
/// lanes. Otherwise it packs the M / gcd(n, M) lanes its rows come from, whole, that is n / gcd(n, M) times
/// the rows it returns.
class RowStream {
 public:
  /// ValueError when no document has two tokens. `source` is borrowed.
  RowStream(LaneSource& source, const LoaderOptions& options);

  /// The next local_batch_size rows; nothing when every lane of this rank is at its end.
  std::optional<Batch> next();

  /// The lanes' places behind all rows of the batches returned, on whichever rank they were.
  StreamPosition position() const;
  /// Continues at `position`, which must hold every lane of this rank. ValueError otherwise.
  void seek(const StreamPosition& position);

  /// Rows this rank packs for each that it returns.
  int64_t packing_cost() const;
  int64_t num_own_lanes() const { return static_cast<int64_t>(lanes_.size()); }
  int64_t num_active_lanes() const { return static_cast<int64_t>(active_.size()); }

 private:
  struct OwnLane {
    Lane lane;
    int64_t slot;  ///< place in active_
    int64_t rows;  ///< rows passed: written or skipped
  };

  void advance(OwnLane& own, int64_t rows);
  /// Goes past the rows of one batch on all ranks; also where this rank has none left, since the others may.
  void finish_batch();
  /// Rows below `row` that come from the lane in `slot`.
  int64_t rows_before(int64_t row, int64_t slot) const;

  LaneSource* source_;
  LoaderOptions options_;
  std::vector<int64_t> active_;
  std::vector<OwnLane> lanes_;
  std::map<int64_t, size_t> by_slot_;
  int64_t rows_ = 0;  ///< global rows behind the last batch
};

/// The number of lanes where none is set: 64, or the largest power of two not above a quarter of the
/// documents.
int64_t default_lanes(int64_t num_documents);

}  // namespace titan
