#include "titan/data/row_stream.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "titan/base/error.h"

namespace titan {

int64_t default_lanes(int64_t num_documents) {
  const auto quarter = static_cast<uint64_t>(std::max<int64_t>(1, num_documents / 4));
  return static_cast<int64_t>(std::bit_floor(std::min<uint64_t>(64, quarter)));
}

RowStream::RowStream(LaneSource& source, const LoaderOptions& options) : source_(&source), options_(options) {
  for (int64_t lane = 0; lane < source.num_lanes; ++lane)
    if (Lane(source, lane).has_tokens()) active_.push_back(lane);
  if (active_.empty()) {
    throw ValueError("{} has no usable token: it holds {} documents, none with two tokens or more",
                     source.name, source.corpus.num_documents());
  }
  const int64_t step = std::gcd(options.dp_world, num_active_lanes());
  for (int64_t slot = options.dp_rank % step; slot < num_active_lanes(); slot += step) {
    by_slot_[slot] = lanes_.size();
    lanes_.push_back({Lane(source, active_[static_cast<size_t>(slot)]), slot, 0});
  }
}

int64_t RowStream::packing_cost() const {
  return options_.dp_world / std::gcd(options_.dp_world, num_active_lanes());
}

int64_t RowStream::rows_before(int64_t row, int64_t slot) const {
  return (row - slot + num_active_lanes() - 1) / num_active_lanes();
}

void RowStream::advance(OwnLane& own, int64_t rows) {
  for (; own.rows < rows; ++own.rows) own.lane.skip(options_.seq_len);
}

void RowStream::finish_batch() {
  rows_ += options_.local_batch_size * options_.dp_world;
  for (OwnLane& own : lanes_) advance(own, rows_before(rows_, own.slot));
}

std::optional<Batch> RowStream::next() {
  if (std::all_of(lanes_.begin(), lanes_.end(), [](OwnLane& own) { return own.lane.at_end(); })) {
    finish_batch();
    return std::nullopt;
  }
  Batch batch{.rows = options_.local_batch_size, .seq_len = options_.seq_len};
  const auto size = static_cast<size_t>(batch.rows * batch.seq_len);
  for (auto* values : {&batch.input_ids, &batch.labels, &batch.positions}) values->resize(size);
  const auto seq_len = static_cast<size_t>(batch.seq_len);
  for (size_t i = 0; i < static_cast<size_t>(batch.rows); ++i) {
    const int64_t row = rows_ + static_cast<int64_t>(i) * options_.dp_world + options_.dp_rank;
    OwnLane& own = lanes_[by_slot_.at(row % num_active_lanes())];
    advance(own, row / num_active_lanes());
    own.lane.fill({std::span(batch.input_ids).subspan(i * seq_len, seq_len),
                   std::span(batch.labels).subspan(i * seq_len, seq_len),
                   std::span(batch.positions).subspan(i * seq_len, seq_len)});
    ++own.rows;
  }
  finish_batch();
  return batch;
}

StreamPosition RowStream::position() const {
  StreamPosition position{.rows = rows_, .lanes = {}};
  for (const OwnLane& own : lanes_)
    position.lanes[active_[static_cast<size_t>(own.slot)]] = own.lane.position();
  return position;
}

void RowStream::seek(const StreamPosition& position) {
  // Rank r continues with row rows + r, so the slot of its first row moves with the rows behind it.
  const int64_t step = std::gcd(options_.dp_world, num_active_lanes());
  const int64_t first = (position.rows + options_.dp_rank) % step;
  lanes_.clear();
  by_slot_.clear();
  for (int64_t slot = first; slot < num_active_lanes(); slot += step) {
    const int64_t lane = active_[static_cast<size_t>(slot)];
    const auto found = position.lanes.find(lane);
    if (found == position.lanes.end())
      throw ValueError(
          "the data loader's saved state lacks lane {}: it was not saved by all data-parallel ranks", lane);
    by_slot_[slot] = lanes_.size();
    lanes_.push_back({Lane(*source_, lane), slot, rows_before(position.rows, slot)});
    lanes_.back().lane.seek(found->second);
  }
  rows_ = position.rows;
}

}  // namespace titan
