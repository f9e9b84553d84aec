#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>

#include "titan/base/env.h"
#include "titan/base/error.h"
#include "titan/distributed/gloo_group.h"

namespace titan {
namespace {

std::string numeric(const sockaddr* address, socklen_t length) {
  std::array<char, NI_MAXHOST> text{};
  const int failed = getnameinfo(address, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return failed ? "" : text.data();
}

bool is_loopback(const std::string& address) {
  return address.empty() || address.starts_with("127.") || address == "::1" || address == "::ffff:127.0.0.1";
}

/// The address of this machine from which packets to `host` leave; "" if there is no way. Nothing is sent.
std::string address_towards(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), "9", &hints, &found) != 0) return "";
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, freeaddrinfo);
  for (const addrinfo* to = found; to; to = to->ai_next) {
    const int connection = socket(to->ai_family, to->ai_socktype | SOCK_CLOEXEC, 0);
    if (connection < 0) continue;
    sockaddr_storage here{};
    socklen_t length = sizeof(here);
    auto* const address = reinterpret_cast<sockaddr*>(&here);
    const bool known = connect(connection, to->ai_addr, to->ai_addrlen) == 0 &&
                       getsockname(connection, address, &length) == 0;
    close(connection);
    if (known) return numeric(address, length);
  }
  return "";
}

std::string first_outside_address() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "";
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owned(all, freeifaddrs);
  for (const ifaddrs* one = all; one; one = one->ifa_next) {
    const bool usable = (one->ifa_flags & IFF_UP) && !(one->ifa_flags & IFF_LOOPBACK);
    if (one->ifa_addr && one->ifa_addr->sa_family == AF_INET && usable) {
      return numeric(one->ifa_addr, sizeof(sockaddr_in));
    }
  }
  return "";
}

}  // namespace

GlooNetwork choose_gloo_network(const std::string& master, bool one_machine) {
  if (const std::optional<std::string> names = env("GLOO_SOCKET_IFNAME")) {
    GlooNetwork network{.interfaces = split(*names, ',')};
    for (const std::string& name : network.interfaces) {
      if (if_nametoindex(name.c_str()) != 0) continue;
      throw ConfigError(
          "the environment variable GLOO_SOCKET_IFNAME is '{}', but this machine has no network "
          "interface '{}'",
          *names, name);
    }
    return network;
  }
  std::string address = address_towards(master);
  if (is_loopback(address) && !one_machine) address = first_outside_address();
  if (address.empty()) {
    throw ValueError(
        "no network interface of this machine reaches MASTER_ADDR '{}'; name one in the "
        "environment variable GLOO_SOCKET_IFNAME",
        master);
  }
  return {.address = address};
}

}  // namespace titan
