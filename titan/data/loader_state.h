#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "titan/base/json.h"
#include "titan/data/row_stream.h"

namespace titan {

/// What a checkpoint keeps of a data loader: which data in which order, and how far.
struct LoaderState {
  std::string dataset;
  uint64_t fingerprint = 0;
  int64_t num_documents = 0;
  int64_t num_lanes = 0;
  int64_t seed = 0;
  StreamPosition position;
};

/// `{"dataset", "fingerprint", "documents", "lanes", "seed", "rows", "positions": {LANE: [epoch, document,
/// token, document_tokens]}}`
Json to_json(const LoaderState& state);

/// ValueError where a member is missing or of another kind.
LoaderState loader_state_from(const Json& json);

/// The positions of all ranks in one state. ValueError when the states are not of one step of one run.
Json merge_loader_states(std::span<const Json> states);

/// ValueError naming what differs when `saved` was made on other data, lanes or seed than `now`.
void require_same_data(const LoaderState& saved, const LoaderState& now);

}  // namespace titan
