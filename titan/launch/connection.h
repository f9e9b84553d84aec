#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "titan/launch/endpoint.h"
#include "titan/launch/event_loop.h"
#include "titan/launch/process.h"

namespace titan {

/// A socket that listens; port 0 takes a free one. A loopback host is only open to this machine. `error` gets
/// the system's errno where there can be none.
OwnedFd listen_at(const Endpoint& endpoint, int& error);
int64_t port_of(int socket);

/// Lines of text over a socket, in both directions.
class LineConnection {
 public:
  struct Events {
    std::function<void(const std::string& line)> on_line;
    std::function<void(const std::string& why)> on_end;  ///< once; nothing comes after it
  };

  LineConnection(OwnedFd socket, Events events, const RendezvousTimes& times, EventLoop& loop);
  ~LineConnection();
  LineConnection(const LineConnection&) = delete;
  LineConnection& operator=(const LineConnection&) = delete;

  void send(std::string_view line);
  /// Sends what waits, for at most a second, and closes.
  void close();
  /// The other side's address.
  std::string peer() const;

 private:
  void watch();
  void on_event();
  void write_some();
  bool read_some();
  void take_lines();
  void end(const std::string& why);

  OwnedFd socket_;
  Events events_;
  EventLoop& loop_;
  std::string in_, out_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

/// Connects to an endpoint, trying again until `deadline`.
class Dialer {
 public:
  struct Events {
    std::function<void(OwnedFd socket)> on_connected;
    std::function<void(const std::string& message)>
        on_timeout;  ///< what was tried, for how long, what to check
  };

  Dialer(Endpoint endpoint, std::chrono::milliseconds patience, Events events, EventLoop& loop);
  ~Dialer();
  Dialer(const Dialer&) = delete;
  Dialer& operator=(const Dialer&) = delete;

  /// Tries again after what was reached was not it.
  void retry(const std::string& why);

 private:
  void attempt();
  void next_address();
  void finish_attempt();

  Endpoint endpoint_;
  std::chrono::milliseconds patience_;
  Events events_;
  EventLoop& loop_;
  Clock::time_point begin_ = Clock::now();
  int64_t attempts_ = 0, timer_ = 0;
  size_t address_ = 0;
  std::string last_problem_;
  OwnedFd socket_;
  struct Addresses;
  std::shared_ptr<Addresses> addresses_;
};

}  // namespace titan
