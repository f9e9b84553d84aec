#pragma once

#include <string>

namespace titan {

/// The part of docs/status.md that the program knows: every field with its status, from the describe lines,
/// and the tables of config functions, flavors, architectures and data sets. Markdown; tools/make_status.py
/// adds the rest.
std::string status_markdown();

}  // namespace titan
