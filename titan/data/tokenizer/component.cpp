#include "titan/data/tokenizer/component.h"

#include <algorithm>

#include "titan/base/error.h"

namespace titan {

Component::Component(const Json& json, std::string where) : json_(&json), where_(std::move(where)) {
  if (!json.is_object()) fail(format("is {}, not an object", json.kind()));
}

const Json& Component::member(std::string_view key) const {
  const Json* found = json_->find(key);
  if (!found) fail(format("has no \"{}\"", key));
  return *found;
}

const std::string& Component::text(std::string_view key) const {
  const Json& value = member(key);
  if (!value.is_string()) fail(format("has {} as \"{}\", not a string", value.kind(), key));
  return value.as_string();
}

int64_t Component::integer(std::string_view key) const {
  const Json& value = member(key);
  if (!value.is_int()) fail(format("has {} as \"{}\", not an integer", value.kind(), key));
  return value.as_int();
}

Component Component::child(std::string_view key) const { return {member(key), format("{}.{}", where_, key)}; }

std::vector<Component> Component::children(std::string_view key) const {
  const Json& list = member(key);
  if (!list.is_array()) fail(format("has {} as \"{}\", not a list", list.kind(), key));
  std::vector<Component> result;
  for (size_t i = 0; i < list.size(); ++i)
    result.emplace_back(list.at(i), format("{}.{}[{}]", where_, key, i));
  return result;
}

bool Component::flag(std::string_view key) const {
  const Json& value = member(key);
  if (!value.is_bool()) fail(format("has {} as \"{}\", not true or false", value.kind(), key));
  return value.as_bool();
}

bool Component::flag_or(std::string_view key, bool otherwise) const {
  const Json* found = json_->find(key);
  return !found || found->is_null() ? otherwise : flag(key);
}

std::string Component::text_or(std::string_view key, std::string_view otherwise) const {
  const Json* found = json_->find(key);
  return !found || found->is_null() ? std::string(otherwise) : text(key);
}

void Component::require_known(std::initializer_list<std::string_view> keys) const {
  for (const auto& [key, value] : json_->items()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end())
      fail(format("has a member \"{}\" that is not supported", key));
  }
}

void Component::refuse_type(std::string_view supported) const {
  fail(format("is of type \"{}\", which is not supported; supported are {}", type(), supported));
}

void Component::fail(std::string_view problem) const { throw ValueError("{} {}", where_, problem); }

}  // namespace titan
