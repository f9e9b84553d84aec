#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "titan/config/fields.h"

namespace titan {

/// What a path leads to: a member, or an element of a list of structs.
struct Located {
  std::string fqn;
  const char* help = "";
  Status status = Status::works;
  const MemberType* type = nullptr;  ///< of the member; of the whole list for an element
  void* member = nullptr;            ///< a leaf's address, or the Slot of a polymorphic place
  Node section;                      ///< the struct at this place; empty for leaves, lists and empty slots
  bool is_leaf() const;
};

/// All places that `path` leads to. `-` and `_` are alike in names, list indices may be globs (`layers.*`,
/// `layers.[0-3]`). Empty when there is none.
std::vector<Located> locate(Node root, std::string_view path);

/// Every leaf inside `node`, in order. Of lists of structs only the first `max_elements` elements are
/// entered.
std::vector<Located> leaves_of(Node node, size_t max_elements = SIZE_MAX);

}  // namespace titan
