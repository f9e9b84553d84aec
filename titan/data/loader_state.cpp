#include "titan/data/loader_state.h"

#include <charconv>

#include "titan/base/error.h"
#include "titan/data/fingerprint.h"

namespace titan {

namespace {

template <class T>
T parse_integer(std::string_view text, int base, std::string_view what) {
  T value{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (failure != std::errc() || end != text.data() + text.size())
    throw ValueError("{} \"{}\" is not a number", what, text);
  return value;
}

LoaderState parse_state(const Json& json) {
  LoaderState state{
      .dataset = json["dataset"].as_string(),
      .fingerprint = parse_integer<uint64_t>(json["fingerprint"].as_string(), 16, "fingerprint"),
      .num_documents = json["documents"].as_int(),
      .num_lanes = json["lanes"].as_int(),
      .seed = json["seed"].as_int(),
      .position = {.rows = json["rows"].as_int(), .lanes = {}}};
  if (state.position.rows < 0) throw ValueError("rows {} is negative", state.position.rows);
  for (const auto& [lane, place] : json["positions"].items()) {
    state.position.lanes[parse_integer<int64_t>(lane, 10, "lane")] = {
        .epoch = place.at(0).as_int(),
        .document = place.at(1).as_int(),
        .token = place.at(2).as_int(),
        .document_tokens = place.at(3).as_int()};
  }
  return state;
}

}  // namespace

Json to_json(const LoaderState& state) {
  Json positions = Json::object();
  for (const auto& [lane, place] : state.position.lanes)
    positions.set(std::to_string(lane),
                  Json::Array{place.epoch, place.document, place.token, place.document_tokens});
  return Json::Object{{"dataset", state.dataset},
                      {"fingerprint", hex(state.fingerprint)},
                      {"documents", state.num_documents},
                      {"lanes", state.num_lanes},
                      {"seed", state.seed},
                      {"rows", state.position.rows},
                      {"positions", std::move(positions)}};
}

LoaderState loader_state_from(const Json& json) {
  try {
    return parse_state(json);
  } catch (const ValueError& error) {
    throw ValueError("the data loader's saved state is damaged: {}", error.what());
  }
}

void require_same_data(const LoaderState& saved, const LoaderState& now) {
  const auto refuse = [](std::string_view what, const auto& then, const auto& given) {
    throw ValueError(
        "the checkpoint's data loader was saved with {} {}, this run has {}; give what was given then, or "
        "leave its place in the data behind with checkpoint.exclude_from_loading dataloader",
        what, then, given);
  };
  if (saved.num_documents != now.num_documents || saved.fingerprint != now.fingerprint)
    refuse("the data set",
           format("{} ({} documents, fingerprint {})", saved.dataset, with_commas(saved.num_documents),
                  hex(saved.fingerprint)),
           format("{} ({} documents, fingerprint {})", now.dataset, with_commas(now.num_documents),
                  hex(now.fingerprint)));
  if (saved.num_lanes != now.num_lanes) refuse("dataloader.lanes", saved.num_lanes, now.num_lanes);
  if (saved.seed != now.seed) refuse("dataloader.seed", saved.seed, now.seed);
}

Json merge_loader_states(std::span<const Json> states) {
  check(!states.empty(), "there is a state to merge");
  LoaderState merged = loader_state_from(states[0]);
  for (const Json& json : states.subspan(1)) {
    const LoaderState state = loader_state_from(json);
    require_same_data(merged, state);
    if (state.position.rows != merged.position.rows)
      throw ValueError("the data loaders of two ranks stand at different rows, {} and {}",
                       merged.position.rows, state.position.rows);
    for (const auto& [lane, place] : state.position.lanes) {
      const auto [kept, added] = merged.position.lanes.emplace(lane, place);
      check(added || kept->second == place, "ranks that share a lane stand at the same place in it");
    }
  }
  return to_json(merged);
}

}  // namespace titan
