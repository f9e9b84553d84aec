#include "titan/config/poly.h"

#include "titan/base/error.h"

namespace titan {

namespace {

/// The address that has the same place in `copy` as `part` has in `original`.
void* same_place(void* copy, const void* original, const void* part) {
  return static_cast<char*>(copy) + (static_cast<const char*>(part) - static_cast<const char*>(original));
}

}  // namespace

Slot::Slot(const Slot& other) : base_(other.base_) {
  if (!other.node_) return;
  node_ = {other.node_.type->clone(other.node_.data), other.node_.type};
  part_ = same_place(node_.data, other.node_.data, other.part_);
}

Slot& Slot::operator=(const Slot& other) { return *this = Slot(other); }

Slot& Slot::operator=(Slot&& other) noexcept {
  std::swap(node_, other.node_);
  std::swap(part_, other.part_);
  return *this;
}

void Slot::assign(Node value) {
  void* part = upcast(value, *base_);
  if (part == nullptr) {
    throw ConfigError(
        "a {} does not fit here: it is not derived from {}{}", value ? type_name(*value.type) : "nothing",
        type_name(*base_),
        value ? " (its describe must begin with f.base<" + type_name(*base_) + ">(*this))" : "");
  }
  const Node copy{value.type->clone(value.data), value.type};
  part_ = same_place(copy.data, value.data, part);
  const Node old = std::exchange(node_, copy);
  if (old) old.type->destroy(old.data);  // last: `value` may lie inside it
}

void Slot::reset() {
  if (node_) node_.type->destroy(node_.data);
  node_ = {};
  part_ = nullptr;
}

void* Slot::part() const {
  check(static_cast<bool>(node_), "a Poly that is read holds a value");
  return part_;
}

ModulePtr Slot::build_value() const {
  check(static_cast<bool>(node_), "a Poly that is built holds a value");
  return node_.type->build(node_.data);
}

}  // namespace titan
