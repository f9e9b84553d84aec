#include "titan/config/validate.h"

#include <algorithm>

#include "titan/base/error.h"
#include "titan/base/log.h"
#include "titan/base/strings.h"
#include "titan/config/defaults.h"
#include "titan/config/module_error.h"
#include "titan/config/text.h"
#include "titan/config/walk.h"

namespace titan {

namespace {

std::string with_path(const std::string& fqn, std::string_view message) {
  if (fqn.empty() || message.find(fqn) != message.npos) return std::string(message);
  return format("{}: {}", fqn, message);
}

/// Whether a name is below another one, or below the root, which has none.
bool is_inside(std::string_view inner, std::string_view outer) {
  return outer.empty() || (inner.starts_with(outer) && inner.substr(outer.size()).starts_with('.'));
}

void validate_place(const Place& place, const TrainerConfig* trainer) {
  const NodeType& type = *place.node.type;
  try {
    if (type.validate != nullptr) type.validate(place.node.data);
    if (type.validate_in != nullptr && trainer != nullptr) type.validate_in(place.node.data, *trainer);
  } catch (const ConfigError& error) {
    throw ConfigError("{}", with_path(place.fqn, error.what()));
  } catch (...) {
    throw CommonError("{}", with_path(place.fqn, thrown_text()));
  }
}

int strictness(Status status) { return status == Status::refused ? 2 : status == Status::no_meaning ? 1 : 0; }

/// The strictest status of the field, of the sections it lies in, and of the alternative it holds.
Status status_of(const Difference& difference, const std::vector<std::pair<std::string, Status>>& sections) {
  Status status = difference.field.status;
  const auto tighten = [&](Status other) {
    if (strictness(other) > strictness(status)) status = other;
  };
  for (const auto& [fqn, section_status] : sections) {
    if (difference.fqn.starts_with(fqn + ".")) tighten(section_status);
  }
  if (difference.field.type->kind != Kind::slot) return status;
  const Node value = static_cast<Slot*>(difference.field.member)->node();
  for (const Alternative& alternative : difference.field.type->alternatives) {
    if (value && same_type(*value.type, *alternative.type)) tighten(alternative.status);
  }
  return status;
}

/// The sections that do not simply work.
std::vector<std::pair<std::string, Status>> sections_with_status(Node root) {
  std::vector<std::pair<std::string, Status>> sections;
  for (const Place& place : places_of(root)) {
    const Fields fields = fields_of(place.node);
    for (const Field& field : fields.list()) {
      if (is_leaf(*field.type) || field.status == Status::works) continue;
      sections.emplace_back(join_fqn(place.fqn, field.name), field.status);
    }
  }
  return sections;
}

}  // namespace

void check_status(Node root) {
  const auto sections = sections_with_status(root);
  for (const Difference& difference : differences_from_defaults(root)) {
    const Status status = status_of(difference, sections);
    if (status == Status::refused) {
      throw ConfigError("{} = {} is not built yet (default: {}; {})", difference.fqn, difference.text,
                        difference.default_text, difference.field.help);
    }
    if (status == Status::no_meaning) {
      warn_once(
          format("{} = {} has no effect here ({})", difference.fqn, difference.text, difference.field.help));
    }
  }
}

void validate(Node root, const TrainerConfig* trainer) {
  std::vector<Place> open;  // from the root down to the last place that was met
  const auto close_until = [&](std::string_view fqn) {
    while (!open.empty() && !is_inside(fqn, open.back().fqn)) {
      validate_place(open.back(), trainer);
      open.pop_back();
    }
  };
  for (const Place& place : places_of(root)) {
    close_until(place.fqn);
    open.push_back(place);
  }
  for (; !open.empty(); open.pop_back()) validate_place(open.back(), trainer);
}

}  // namespace titan
