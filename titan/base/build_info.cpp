#include "titan/base/build_info.h"

#include "titan/base/file.h"
#include "titan_build_info.inc"

namespace titan {

const BuildInfo& build_info() {
  static const BuildInfo info{
      .version = TITAN_VERSION,
      .commit = TITAN_COMMIT,
      .compiler = TITAN_COMPILER,
      .compiler_version = TITAN_COMPILER_VERSION,
      .build_type = TITAN_BUILD_TYPE,
      .torch_version = TITAN_TORCH_VERSION,
      .headers = TITAN_HEADERS,
      .torch_dir = TITAN_TORCH_DIR,
  };
  return info;
}

std::filesystem::path include_folder() {
  const auto installed = executable_path().parent_path().parent_path() / "include";
  return std::filesystem::exists(installed / "titan") ? installed : std::filesystem::path(TITAN_SOURCE_DIR);
}

}  // namespace titan
