// `titan shapes`: what a run's modules and kernels demand of their shapes, checked without a run.

#include <iostream>
#include <optional>

#include "apps/titan/commands.h"
#include "titan/base/warnings_said.h"
#include "titan/config/cli.h"
#include "titan/recipes/resolve.h"
#include "titan/train/shape_check.h"

namespace titan {
namespace {

constexpr const char* kShapesUsage =
    "titan shapes: check what modules and kernels demand of their shapes, as `titan train` does before it "
    "makes\n"
    "or reads a weight\n\n"
    "Usage: titan shapes --module M --config C [--section.field value ...]\n\n"
    "Prints what was checked, a line. `titan config` does the same where a module of the user's needs "
    "torch.\n";

}  // namespace

int shapes_command(std::span<const std::string> args) {
  for (const std::string& word : args) {
    if (word == "--help" || word == "-h") {
      std::cout << kShapesUsage;
      return 0;
    }
  }
  std::vector<std::string> words(args.begin(), args.end());
  const bool goes_on = take_flag(words, "said");
  std::optional<WarningsSaid> said;
  if (goes_on) said.emplace();  // `titan config`, which goes on as this, has resolved it too
  const ResolvedConfig resolved = resolve_config(words);
  said.reset();
  const std::string checked = check_shapes(*resolved.config);
  if (!goes_on && !checked.empty()) std::cout << checked << "\n";
  return 0;
}

}  // namespace titan
