#pragma once

#include <string>
#include <vector>

namespace titan {

/// A setting that a folder's config.json and a model's tree disagree about.
struct Contradiction {
  std::string key;     ///< as config.json calls it
  std::string assets;  ///< what config.json says
  std::string model;   ///< what the tree says
  /// Whether weights of one would be wrong in the other; a longer max_position_embeddings is not.
  bool breaks_weights = true;
};

/// What config.json says against a model.
struct HfComparison {
  std::vector<Contradiction> contradictions;
  std::string mend;  ///< the line of a config function that makes them agree

  bool breaks_weights() const {
    for (const auto& found : contradictions) {
      if (found.breaks_weights) return true;
    }
    return false;
  }

  /// "rope_theta is 5e6 there and 1e6 in the model; ... To agree: config.model_spec = ..."; "" when they
  /// agree.
  std::string message() const {
    std::string text;
    for (const auto& [key, theirs, ours, breaks] : contradictions) {
      text += (text.empty() ? "" : "; ") + key + " is " + theirs + " there and " + ours + " in the model";
    }
    return text.empty() ? text : text + ". To agree: " + mend;
  }
};

}  // namespace titan
