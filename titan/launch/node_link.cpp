#include "titan/launch/node_link.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "titan/base/error.h"
#include "titan/launch/connection.h"
#include "titan/launch/coordinator.h"
#include "titan/launch/host_link.h"

namespace titan {
namespace {

/// Whether a c10d store serves that address: it sends a ping's number back.
bool is_c10d_store(const Endpoint& endpoint, EventLoop& loop) {
  constexpr std::array<unsigned char, 10> kPing = {0, 0xCE, 0xF7, 0x85, 0x3C, 13, 't', 'i', 't', 'a'};
  OwnedFd socket;
  bool timed_out = false;
  Dialer dialer(endpoint, std::chrono::milliseconds(0),
                {.on_connected = [&](OwnedFd connected) { socket = std::move(connected); },
                 .on_timeout = [&](const std::string&) { timed_out = true; }},
                loop);
  while (!socket.open() && !timed_out) loop.run_once();
  if (timed_out || ::send(socket.get(), kPing.data(), kPing.size(), MSG_NOSIGNAL) < 0) return false;
  pollfd polled{socket.get(), POLLIN, 0};
  char answer[4];
  return ::poll(&polled, 1, 1000) == 1 && ::recv(socket.get(), answer, sizeof answer, MSG_WAITALL) == 4 &&
         std::memcmp(answer, kPing.data() + 6, 4) == 0;
}

/// A node that joins the rendezvous of another.
class GuestLink : public NodeLink {
 public:
  GuestLink(const TorchrunOptions& options, Events events, EventLoop& loop)
      : options_(options),
        events_(std::move(events)),
        loop_(loop),
        dialer_(options.endpoint, options.times.join,
                {.on_connected = [this](OwnedFd socket) { greet(std::move(socket)); },
                 .on_timeout = [this](const std::string& message) { fail(message); }},
                loop) {}

  void report(const Json& message) override {
    if (connection_) connection_->send(message.dump());
  }

  void close() override {
    if (connection_) connection_->close();
  }

 private:
  void greet(OwnedFd socket) {
    loop_.cancel(silence_);
    connection_ = std::make_unique<LineConnection>(
        std::move(socket),
        LineConnection::Events{.on_line = [this](const std::string& line) { on_line(line); },
                               .on_end = [this](const std::string& why) { on_end(why); }},
        options_.times, loop_);
    connection_->send(NodeHello::of(options_).to_json().dump());
    silence_ = loop_.at(Clock::now() + std::chrono::seconds(5), [this] { on_silence(); });
  }

  void on_line(const std::string& line) {
    if (failed_) return;
    if (line.empty() || line.front() != '{') {
      return fail(
          format("what listens at {} is no launcher of titan's: it speaks another protocol", endpoint()));
    }
    try {
      const Json message = Json::parse(line, "the rendezvous host's message");
      if (const Json* refused = message.find("refused")) {
        return fail(format("refused by the rendezvous at {}: {}", endpoint(), refused->as_string()));
      }
      if (message.find("titan_rendezvous") != nullptr) {
        welcome_ = true;
        return;
      }
      events_.on_message(message);
    } catch (const ValueError& error) {
      fail(error.what());
    }
  }

  void on_end(const std::string& why) {
    if (failed_) return;
    if (welcome_) return fail(format("lost the rendezvous at {}: {}", endpoint(), why));
    // A job that is just ending, or something else altogether.
    loop_.post([this] {
      if (is_c10d_store(options_.endpoint, loop_)) return fail(store_message());
      connection_.reset();
      dialer_.retry("what listens there closes the connection, as no launcher of titan's does");
    });
  }

  void on_silence() {
    if (welcome_ || failed_) return;
    if (is_c10d_store(options_.endpoint, loop_)) return fail(store_message());
    fail(format("what listens at {} is no launcher of titan's: it does not answer", endpoint()));
  }

  std::string store_message() const {
    return format(
        "a c10d store listens at {}: an agent of Python's torchrun, or workers of another job. Launchers of "
        "one job must "
        "all be titan's; for another job choose another port",
        endpoint());
  }

  void fail(const std::string& message) {
    if (failed_) return;
    failed_ = true;
    events_.on_error(message);
  }

  std::string endpoint() const { return options_.endpoint.text(); }

  const TorchrunOptions& options_;
  Events events_;
  EventLoop& loop_;
  Dialer dialer_;
  std::unique_ptr<LineConnection> connection_;
  bool welcome_ = false, failed_ = false;
  int64_t silence_ = 0;
};

}  // namespace

std::unique_ptr<NodeLink> make_node_link(const TorchrunOptions& options, NodeLink::Events events,
                                         EventLoop& loop) {
  const bool fixed = options.backend == RendezvousBackend::fixed;
  const bool hosts =
      fixed ? options.node_rank == 0 : options.is_host.value_or(is_this_machine(options.endpoint.host));
  const bool alone = options.max_nodes == 1;
  if (!hosts && alone) {
    throw ValueError(
        "--rdzv_endpoint={}: {} is no address of this machine, and a job of one node has no other to host "
        "it; use --standalone",
        options.endpoint.text(), options.endpoint.host);
  }
  if (!hosts) return std::make_unique<GuestLink>(options, std::move(events), loop);
  OwnedFd listener;
  int error = 0;
  if (!alone || fixed || options.endpoint.port != 0) {
    listener = listen_at(options.endpoint, error);
    // Two launchers of one machine: the first hosts.
    const bool another_may_host = !alone && !fixed && !options.is_host && options.endpoint.port != 0;
    if (error == EADDRINUSE && another_may_host) {
      return std::make_unique<GuestLink>(options, std::move(events), loop);
    }
    if (!listener.open()) {
      throw ValueError(
          "cannot listen at {}: {}. Another job may use that port: choose another, or port 0 with "
          "--rdzv_endpoint "
          "for a job of one node",
          options.endpoint.text(), std::strerror(error));
    }
  }
  return std::make_unique<HostLink>(options, std::move(listener), std::move(events), loop);
}

}  // namespace titan
