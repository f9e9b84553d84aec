#include "titan/launch/connection.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "titan/base/error.h"
#include "titan/base/log.h"

namespace titan {
namespace {

constexpr size_t kMostLine = 1 << 20;
constexpr auto kAttemptTime = std::chrono::seconds(5);

void set_option(int socket, int level, int option, int64_t value) {
  const int number = static_cast<int>(value);
  ::setsockopt(socket, level, option, &number, sizeof number);
}

OwnedFd listen_on(int family, const sockaddr* address, socklen_t size, int& error) {
  OwnedFd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (socket.open()) {
    set_option(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    if (family == AF_INET6) set_option(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  }
  // The queue holds the workers' connections until the store is ready to take them.
  if (socket.open() && ::bind(socket.get(), address, size) == 0 && ::listen(socket.get(), 4096) == 0) {
    return socket;
  }
  error = errno;
  return OwnedFd();
}

}  // namespace

OwnedFd listen_at(const Endpoint& endpoint, int& error) {
  error = 0;
  const auto port = htons(static_cast<uint16_t>(endpoint.port));
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = port;
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = port;
  if (endpoint.host == "::1") v6.sin6_addr = in6addr_loopback;
  const bool loopback = is_loopback(endpoint.host);
  if (loopback) v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (!loopback || endpoint.host == "::1") {
    OwnedFd socket = listen_on(AF_INET6, reinterpret_cast<sockaddr*>(&v6), sizeof v6, error);
    if (socket.open() || error == EADDRINUSE) return socket;
  }
  return listen_on(AF_INET, reinterpret_cast<sockaddr*>(&v4), sizeof v4, error);
}

int64_t port_of(int socket) {
  sockaddr_in6 address{};
  socklen_t size = sizeof address;
  check(::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0, "a socket has an address");
  return ntohs(address.sin6_port);  // at the same place for IPv4
}

LineConnection::LineConnection(OwnedFd socket, Events events, const RendezvousTimes& times, EventLoop& loop)
    : socket_(std::move(socket)), events_(std::move(events)), loop_(loop) {
  const int fd = socket_.get();
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  // A machine that vanished answers no probe.
  const int64_t interval = times.keep_alive_interval.count();
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, interval);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, interval);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, times.keep_alive_attempts);
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, interval * (times.keep_alive_attempts + 1) * 1000);
  watch();
}

LineConnection::~LineConnection() {
  if (socket_.open()) loop_.unwatch(socket_.get());
}

void LineConnection::watch() {
  const short events = static_cast<short>(POLLIN | (out_.empty() ? 0 : POLLOUT));
  loop_.watch(socket_.get(), events, [this] { on_event(); });
}

void LineConnection::send(std::string_view line) {
  if (!socket_.open()) return;
  out_.append(line).append("\n");
  write_some();
  watch();
}

void LineConnection::write_some() {
  while (!out_.empty()) {
    const ssize_t size = ::send(socket_.get(), out_.data(), out_.size(), MSG_NOSIGNAL);
    if (size <= 0) return;  // a broken connection shows when it is read
    out_.erase(0, static_cast<size_t>(size));
  }
}

void LineConnection::on_event() {
  const std::weak_ptr<bool> alive = alive_;
  write_some();
  const bool more = read_some();
  const std::string why = std::strerror(errno);
  take_lines();
  if (alive.expired() || !socket_.open()) return;
  if (!more) return end(why);
  if (in_.size() > kMostLine) return end("it sent no line");
  watch();
}

bool LineConnection::read_some() {
  char bytes[1 << 14];
  while (true) {
    const ssize_t size = ::recv(socket_.get(), bytes, sizeof bytes, 0);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return true;
    if (size == 0) errno = ECONNRESET;
    if (size <= 0) return false;
    in_.append(bytes, static_cast<size_t>(size));
    if (in_.size() > kMostLine) return true;
  }
}

void LineConnection::take_lines() {
  const std::weak_ptr<bool> alive = alive_;
  size_t line_end = 0;
  while ((line_end = in_.find('\n')) != std::string::npos) {
    const std::string line = in_.substr(0, line_end);
    in_.erase(0, line_end + 1);
    events_.on_line(line);
    if (alive.expired() || !socket_.open()) return;
  }
  // Another protocol begins with bytes that no line of ours has.
  if (!in_.empty() && in_.front() != '{') {
    events_.on_line(in_);
    if (!alive.expired()) in_.clear();
  }
}

void LineConnection::end(const std::string& why) {
  loop_.unwatch(socket_.get());
  socket_.reset();
  events_.on_end(why);
}

void LineConnection::close() {
  if (!socket_.open()) return;
  const auto deadline = Clock::now() + std::chrono::seconds(1);
  while (!out_.empty() && Clock::now() < deadline) {
    pollfd polled{socket_.get(), POLLOUT, 0};
    ::poll(&polled, 1, 100);
    write_some();
    if ((polled.revents & (POLLERR | POLLHUP)) != 0) break;
  }
  ::shutdown(socket_.get(), SHUT_WR);
  loop_.unwatch(socket_.get());
  socket_.reset();
}

std::string LineConnection::peer() const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  char host[NI_MAXHOST] = "?";
  if (::getpeername(socket_.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0) {
    ::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  }
  return host;
}

struct Dialer::Addresses {
  std::vector<std::pair<sockaddr_storage, socklen_t>> all;
};

Dialer::Dialer(Endpoint endpoint, std::chrono::milliseconds patience, Events events, EventLoop& loop)
    : endpoint_(std::move(endpoint)),
      patience_(patience),
      events_(std::move(events)),
      loop_(loop),
      addresses_(std::make_shared<Addresses>()) {
  timer_ = loop_.at(Clock::now(), [this] { attempt(); });
}

Dialer::~Dialer() {
  loop_.cancel(timer_);
  if (socket_.open()) loop_.unwatch(socket_.get());
}

void Dialer::attempt() {
  ++attempts_;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error =
      ::getaddrinfo(endpoint_.host.c_str(), format("{}", endpoint_.port).c_str(), &hints, &found);
  if (error != 0) return retry(format("its name cannot be resolved ({})", ::gai_strerror(error)));
  addresses_->all.clear();
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    sockaddr_storage copy{};
    std::memcpy(&copy, address->ai_addr, address->ai_addrlen);
    addresses_->all.emplace_back(copy, address->ai_addrlen);
  }
  ::freeaddrinfo(found);
  address_ = 0;
  next_address();
}

void Dialer::next_address() {
  if (address_ >= addresses_->all.size()) return retry(last_problem_);
  const auto& [address, size] = addresses_->all[address_++];
  socket_ = OwnedFd(::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_.open() || (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 &&
                          errno != EINPROGRESS)) {
    last_problem_ = std::strerror(errno);
    return next_address();
  }
  loop_.watch(socket_.get(), POLLOUT, [this] { finish_attempt(); });
  timer_ = loop_.at(Clock::now() + kAttemptTime, [this] {
    loop_.unwatch(socket_.get());
    last_problem_ = "it does not answer";
    next_address();
  });
}

void Dialer::finish_attempt() {
  loop_.cancel(timer_);
  loop_.unwatch(socket_.get());
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error == 0) return events_.on_connected(std::move(socket_));
  last_problem_ = std::strerror(error);
  next_address();
}

void Dialer::retry(const std::string& why) {
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin_);
  if (waited >= patience_) {
    return events_.on_timeout(
        format("no rendezvous at {}: {} (tried {} times in {} s). Is the launcher of that node running, with "
               "the same "
               "--rdzv_endpoint or --master_addr and --master_port, and may this node reach its port?",
               endpoint_.text(), why, attempts_, fixed(static_cast<double>(waited.count()) / 1000, 1)));
  }
  if (attempts_ == 5)
    log_warning("rendezvous at {}: {}; trying again for up to {} s", endpoint_.text(), why,
                patience_.count() / 1000);
  // Quick at first, when launchers start together, and at most every second.
  const auto pause = std::min(std::chrono::milliseconds(50 * attempts_), std::chrono::milliseconds(1000));
  timer_ = loop_.at(Clock::now() + std::min(pause, patience_ - waited), [this] { attempt(); });
}

}  // namespace titan
