#include <filesystem>
#include <iostream>

#include "apps/titan/commands.h"
#include "titan/base/error.h"
#include "titan/base/strings.h"

namespace titan {

int run_command(CommandFunction* command, std::span<const std::string> args) {
  try {
    return command(args);
  } catch (const ConfigError& error) {
    std::cerr << "titan: error: " << error.what() << std::endl;
    return 2;
  } catch (const ValueError& error) {
    std::cerr << "titan: error: " << error.what() << std::endl;
    return 1;
  } catch (const std::filesystem::filesystem_error& error) {
    // Its text names the operation, the path and the system's reason.
    std::cerr << "titan: error: " << error.what() << std::endl;
    return 1;
  }
}

int unknown_command(const std::string& name, std::span<const std::string> known) {
  std::cerr << "titan: error: no command '" << name << "'" << did_you_mean(name, {known.begin(), known.end()})
            << " (`titan --help` lists the commands)" << std::endl;
  return 2;
}

}  // namespace titan
