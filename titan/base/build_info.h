#pragma once

#include <filesystem>
#include <string>

namespace titan {

/// How this copy of titan was built.
struct BuildInfo {
  std::string version;   ///< "0.1.0"
  std::string commit;    ///< short git hash, "-dirty" after it where files differed; "unknown" without git
  std::string compiler;  ///< path of the C++ compiler
  std::string compiler_version;     ///< "GNU 12.2.0"
  std::string build_type;           ///< "Release" or "Debug"
  std::string torch_version;        ///< of the headers: "2.13.0"
  std::string headers;              ///< SHA-256 of the headers that user modules include
  std::filesystem::path torch_dir;  ///< holds torch's include/ and lib/
};

const BuildInfo& build_info();

/// The folder to hand to -I for `#include <titan/recipes.h>`: include/ of an installed copy, the source tree
/// of a built one.
std::filesystem::path include_folder();

}  // namespace titan
