#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>

#include "apps/titan/commands.h"
#include "titan/base/clock.h"
#include "titan/base/cpu_isa.h"
#include "titan/base/env.h"
#include "titan/base/error.h"
#include "titan/base/json.h"
#include "titan/base/strings.h"

namespace titan {

namespace {

/// The message without control characters (names in damaged files may hold some).
std::string printable(std::string_view message) {
  // libtorch appends where in its code an error came from, or all devices that it knows; that helps no user.
  for (const char* rest :
       {"\nException raised from", "\nframe #", " This could be because the operator doesn't"})
    message = message.substr(0, message.find(rest));
  std::string shown;
  for (const char c : message) {
    if (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t') shown += c;
  }
  if (shown.find("can't allocate memory") != shown.npos) {
    shown += ". Lower training.local_batch_size or training.seq_len, or let activation_checkpoint keep less";
  }
  return shown;
}

/// Whose fault an error is, as far as the rank that meets it can tell.
enum class Fault {
  own,     ///< nobody else may know of it
  common,  ///< every rank meets it alike
  peer,    ///< another rank is gone or late
};

/// Leaves the message where torchrun and `titan torchrun` look for that of a failed worker. False when nobody
/// looks, or the file cannot be written.
bool tell_launcher(const std::string& message, Fault fault) {
  const auto file = env("TORCHELASTIC_ERROR_FILE");
  if (!file) return false;
  Json extra = Json::object();
  extra.set("timestamp", wall_time());  // a number: PyTorch's torchrun makes whole seconds of it
  if (fault == Fault::peer) extra.set("peer_failure", true);
  Json inner = Json::object();
  inner.set("message", message);
  inner.set("extraInfo", std::move(extra));
  Json report = Json::object();
  report.set("message", std::move(inner));
  std::ofstream out(*file);
  out << report.dump() << std::flush;
  return bool(out);
}

/// Says what went wrong on stderr, and to the launcher. What all ranks meet is printed by rank 0 alone where
/// a launcher repeats the message of the rank that failed first.
int fail(std::string_view what, int exit_code, Fault fault) {
  const std::string message = printable(what);
  const bool told = tell_launcher(message, fault);
  if (told && fault != Fault::own && env("RANK").value_or("0") != "0") return exit_code;
  std::cerr << "titan: error: " << message << std::endl;
  return exit_code;
}

}  // namespace

int run_command(CommandFunction* command, std::span<const std::string> args) {
  try {
    cpu_isa();  // refuses a wrong TITAN_CPU_ISA before work is done
    const int exit_code = command(args);
    std::cout.flush();
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !std::cout) {
      return fail("not everything could be written to standard output", 1, Fault::own);
    }
    return exit_code;
  } catch (const ConfigError& error) {
    return fail(error.what(), 2, Fault::common);
  } catch (const PeerError& error) {
    return fail(error.what(), 1, Fault::peer);
  } catch (const CommonError& error) {
    return fail(error.what(), 1, Fault::common);
  } catch (const std::exception& error) {
    return fail(error.what(), 1, Fault::own);
  } catch (...) {
    return fail("something was thrown that is no std::exception, by a module's own code", 1, Fault::own);
  }
}

int unknown_command(const std::string& name, std::span<const std::string> known) {
  std::cerr << "titan: error: no command '" << name << "'" << did_you_mean(name, {known.begin(), known.end()})
            << " (`titan --help` lists the commands)" << std::endl;
  return 2;
}

}  // namespace titan
