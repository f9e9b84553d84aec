#include <cstdio>
#include <exception>
#include <iostream>

#include "apps/titan/commands.h"
#include "titan/base/error.h"
#include "titan/base/strings.h"

namespace titan {

namespace {

/// Says what went wrong on stderr, as one message without control characters (names in damaged files may hold
/// some).
int fail(std::string_view message, int exit_code) {
  // libtorch appends where in its code an error came from; that helps no user.
  message = message.substr(0, message.find("\nException raised from"));
  std::string shown;
  for (const char c : message) {
    if (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t') shown += c;
  }
  std::cerr << "titan: error: " << shown << std::endl;
  return exit_code;
}

}  // namespace

int run_command(CommandFunction* command, std::span<const std::string> args) {
  try {
    const int exit_code = command(args);
    std::cout.flush();
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !std::cout) {
      return fail("not everything could be written to standard output", 1);
    }
    return exit_code;
  } catch (const ConfigError& error) {
    return fail(error.what(), 2);
  } catch (const std::exception& error) {
    return fail(error.what(), 1);
  } catch (...) {
    return fail("something was thrown that is no std::exception, by a module's own code", 1);
  }
}

int unknown_command(const std::string& name, std::span<const std::string> known) {
  std::cerr << "titan: error: no command '" << name << "'" << did_you_mean(name, {known.begin(), known.end()})
            << " (`titan --help` lists the commands)" << std::endl;
  return 2;
}

}  // namespace titan
