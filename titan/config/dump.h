#pragma once

#include <string>

#include "titan/base/json.h"
#include "titan/config/fields.h"

namespace titan {

/// The whole tree: one object per struct in the order of its fields, null for an empty slot. The root and the
/// structs in polymorphic places begin with their "type". load_config() reads it back.
Json to_json(Node root);

/// The tree for readers: one line per field, indented; equal neighbours in a list of structs are shown once.
std::string to_tree_text(Node root);

/// One line per field that differs from the defaults of `root`'s type, `training.steps: 10000 -> 10`, with a
/// line `activation_checkpoint: SelectiveACConfig -> FullACConfig` where a polymorphic place holds another
/// type.
std::string diff_text(Node root);

/// What `--help` lists: `--name TYPE (value) help` per field, under the name of its section, with its status
/// where it is not simply working, and the alternatives of polymorphic sections. Of lists of structs the
/// first element stands for all.
std::string help_text(Node root);

}  // namespace titan
