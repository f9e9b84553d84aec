#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace titan {

/// A host and a port: `node1:29400`, `10.0.0.1`, `[fe80::1]:29400`.
struct Endpoint {
  std::string host;
  int64_t port = 0;

  std::string text() const;
  bool operator==(const Endpoint&) const = default;

  /// `default_port` stands where the text has none. Throws ConfigError that names `flag`.
  static Endpoint parse(std::string_view text, int64_t default_port, std::string_view flag);
};

/// How long launchers wait for one another.
struct RendezvousTimes {
  std::chrono::milliseconds join{600'000};      ///< for the least number of nodes
  std::chrono::milliseconds last_call{30'000};  ///< for more than those, where a range is given
  std::chrono::seconds keep_alive_interval{5};  ///< between probes of a silent connection
  int64_t keep_alive_attempts = 3;              ///< unanswered probes until a node counts as lost
};

/// `key=value,key=value` as keys and values. Throws ConfigError naming `flag`.
std::map<std::string, std::string> parse_key_values(std::string_view text, std::string_view flag);

/// Whether the name or address is one of this machine's.
bool is_this_machine(const std::string& host);

/// Whether it is `localhost` or an address that never leaves the machine.
bool is_loopback(const std::string& host);

/// The name by which this machine's own processes reach it: its fully qualified name where that leads here,
/// else 127.0.0.1.
std::string own_address();

/// The machine's name, for messages.
std::string host_name();

}  // namespace titan
