#include "titan/data/tokenizer/post_processor.h"

namespace titan {

namespace {

/// The ids of special token `name` of a template.
std::vector<int32_t> special_ids(const Component& component, const std::string& name) {
  const Component tokens = component.child("special_tokens");
  if (!tokens.find(name)) component.fail("uses \"" + name + "\", which its special_tokens lack");
  std::vector<int32_t> ids;
  for (const Json& id : tokens.child(name).member("ids").elements())
    ids.push_back(static_cast<int32_t>(id.as_int()));
  return ids;
}

}  // namespace

PostProcessor::PostProcessor(const Component& component) { add(component); }

void PostProcessor::add(const Component& component) {
  const std::string& type = component.type();
  if (type == "Sequence") {
    component.require_known({"type", "processors"});
    for (const Component& child : component.children("processors")) add(child);
  } else if (type == "TemplateProcessing") {
    component.require_known({"type", "single", "pair", "special_tokens"});
    add_template(component);
  } else if (type == "ByteLevel") {
    // It trims offsets, which we do not give.
    component.require_known({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  } else {
    component.refuse_type(kSupportedPostProcessors);
  }
}

void PostProcessor::add_template(const Component& component) {
  std::vector<int32_t> before;
  std::vector<int32_t> after;
  bool has_text = false;
  for (const Component& piece : component.children("single")) {
    piece.require_known({"Sequence", "SpecialToken"});
    if (piece.find("SpecialToken")) {
      auto& side = has_text ? after : before;
      const auto ids = special_ids(component, piece.child("SpecialToken").text("id"));
      side.insert(side.end(), ids.begin(), ids.end());
    } else if (has_text || piece.child("Sequence").text("id") != "A") {
      piece.fail("is not the one sequence A that the template of a single text has");
    } else {
      has_text = true;
    }
  }
  if (!has_text) component.fail("has no sequence in its template of a single text");
  // A template around the result of an earlier one.
  before_.insert(before_.begin(), before.begin(), before.end());
  after_.insert(after_.end(), after.begin(), after.end());
}

}  // namespace titan
