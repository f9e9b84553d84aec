#pragma once

#include "titan/config/fields.h"

namespace titan {

/// Stops a setting that is not built yet, and warns once about each that has no effect here: every field of
/// that status whose value is not the default. ConfigError names the field, the value and the default.
void check_status(Node root);

/// Calls `validate() const` of every struct inside `root`, children first and in their order, and
/// `validate(const TrainerConfig&) const` with `trainer` where it is not null. The path of the struct is put
/// before the message of what they throw, where it lacks it.
void validate(Node root, const TrainerConfig* trainer = nullptr);

}  // namespace titan
