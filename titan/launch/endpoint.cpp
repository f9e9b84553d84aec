#include "titan/launch/endpoint.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <memory>

#include "titan/base/error.h"

namespace titan {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

AddressList resolve_name(const std::string& host, int flags = 0) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) found = nullptr;
  return {found, ::freeaddrinfo};
}

/// Only an address of one of this machine's interfaces can be bound.
bool can_bind(const addrinfo& address) {
  const int fd = ::socket(address.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool bound = ::bind(fd, address.ai_addr, address.ai_addrlen) == 0;
  ::close(fd);
  return bound;
}

/// The name with a domain that the address of this machine's name has, else the name alone.
std::string full_name(const std::string& name) {
  const AddressList addresses = resolve_name(name);
  if (!addresses) return name;
  char found[NI_MAXHOST];
  const bool named = ::getnameinfo(addresses->ai_addr, addresses->ai_addrlen, found, sizeof found, nullptr, 0,
                                   NI_NAMEREQD) == 0;
  if (named && std::string_view(found).find('.') != std::string_view::npos) return found;
  const AddressList canonical = resolve_name(name, AI_CANONNAME);
  const char* canonical_name = canonical ? canonical->ai_canonname : nullptr;
  if (canonical_name != nullptr && std::string_view(canonical_name).find('.') != std::string_view::npos) {
    return canonical_name;
  }
  return named ? found : name;
}

}  // namespace

std::string Endpoint::text() const {
  return host.find(':') == std::string::npos ? format("{}:{}", host, port) : format("[{}]:{}", host, port);
}

Endpoint Endpoint::parse(std::string_view text, int64_t default_port, std::string_view flag) {
  const std::string whole(trim(text));
  if (whole.empty()) return {"localhost", default_port};
  Endpoint endpoint{whole, default_port};
  const size_t colon = whole.rfind(':');
  const bool bare_v6 = whole.front() != '[' && std::count(whole.begin(), whole.end(), ':') > 1;
  if (colon != std::string::npos && !bare_v6 && whole.back() != ']') {
    endpoint.host = whole.substr(0, colon);
    const char *begin = whole.data() + colon + 1, *end = whole.data() + whole.size();
    const auto [stopped, error] = std::from_chars(begin, end, endpoint.port);
    if (error != std::errc() || stopped != end || endpoint.port < 0 || endpoint.port > 65535) {
      throw ConfigError("{} must be HOST or HOST:PORT with a port from 0 to 65535, got {}", flag, whole);
    }
  }
  if (endpoint.host.size() > 1 && endpoint.host.front() == '[' && endpoint.host.back() == ']') {
    endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
  }
  const auto fits = [](unsigned char c) {
    return std::isalnum(c) || c == '.' || c == '-' || c == '_' || c == ':' || c == '%';
  };
  if (endpoint.host.empty() || !std::all_of(endpoint.host.begin(), endpoint.host.end(), fits)) {
    throw ConfigError("{} must be HOST or HOST:PORT with a host name or an address, got {}", flag, whole);
  }
  return endpoint;
}

std::map<std::string, std::string> parse_key_values(std::string_view text, std::string_view flag) {
  std::map<std::string, std::string> pairs;
  if (trim(text).empty()) return pairs;
  for (const std::string& piece : split(text, ',')) {
    const size_t equals = piece.find('=');
    const std::string key(trim(piece.substr(0, equals)));
    const std::string value(equals == std::string::npos ? ""
                                                        : trim(std::string_view(piece).substr(equals + 1)));
    if (key.empty() || value.empty()) {
      throw ConfigError("{} must be KEY=VALUE,KEY=VALUE, got {}", flag, std::string(text));
    }
    pairs[key] = value;
  }
  return pairs;
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

bool is_this_machine(const std::string& host) {
  if (is_loopback(host) || host == host_name()) return true;
  const AddressList addresses = resolve_name(host);
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
    if (can_bind(*address)) return true;
  }
  return false;
}

std::string own_address() {
  const std::string name = full_name(host_name());
  const AddressList addresses = resolve_name(name);
  const bool leads_here = addresses && can_bind(*addresses);
  return leads_here ? name : "127.0.0.1";
}

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace titan
