#include "titan/launch/host_link.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "titan/base/build_info.h"
#include "titan/base/clock.h"
#include "titan/base/error.h"
#include "titan/base/log.h"
#include "titan/launch/worker_env.h"

namespace titan {

HostLink::HostLink(const TorchrunOptions& options, OwnedFd listener, Events events, EventLoop& loop)
    : options_(options),
      events_(std::move(events)),
      loop_(loop),
      listener_(std::move(listener)),
      store_(loop),
      coordinator_(options, {.send = [this](int64_t node, const Json& message) { send(node, message); },
                             .open_store = [this] { return open_store(); },
                             .on_enough =
                                 [this] {
                                   loop_.at(Clock::now() + options_.times.last_call,
                                            [this] { coordinator_.close_call(); });
                                 }}) {
  if (listener_.open()) loop_.watch(listener_.get(), POLLIN, [this] { accept_node(); });
  loop_.post([this] {
    const auto refusal = coordinator_.join(Coordinator::kOwnNode, NodeHello::of(options_));
    check(!refusal.has_value(), "a node agrees with itself");
    wait_for_nodes();
  });
}

HostLink::~HostLink() {
  if (listener_.open()) loop_.unwatch(listener_.get());
}

void HostLink::wait_for_nodes() {
  if (!coordinator_.gathering()) return;
  log_info("rendezvous at {}: waiting for {} nodes",
           Endpoint{options_.endpoint.host, port_of(listener_.get())}.text(), options_.max_nodes);
  loop_.at(Clock::now() + options_.times.join, [this] {
    coordinator_.close_call();
    if (!coordinator_.gathering()) return;
    const std::string why = format(
        "rendezvous at {}: only {} came in {} s. Are the other launchers running, with the same "
        "--rdzv_endpoint "
        "(or --master_addr and --master_port) and --rdzv_id, and may they reach this port?",
        options_.endpoint.text(), coordinator_.present(), options_.times.join.count() / 1000);
    for (const auto& [node, peer] : peers_) refuse(node, why);
    events_.on_error(why);
  });
}

void HostLink::accept_node() {
  OwnedFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket.open()) return;  // the caller has gone again
  const int64_t node = next_node_++;
  LineConnection::Events events{.on_line = [this, node](const std::string& line) { on_line(node, line); },
                                .on_end =
                                    [this, node](const std::string& why) {
                                      loop_.post([this, node] { peers_.erase(node); });
                                      coordinator_.lost(node, why);
                                    }};
  peers_[node].connection =
      std::make_unique<LineConnection>(std::move(socket), std::move(events), options_.times, loop_);
}

void HostLink::on_line(int64_t node, const std::string& line) {
  Peer& peer = peers_.at(node);
  if (!peer.joined) return greet(node, line);
  try {
    coordinator_.message(node, Json::parse(line, "a launcher's message"));
  } catch (const ValueError& error) {
    drop(node);
    coordinator_.lost(node, error.what());
  }
}

void HostLink::greet(int64_t node, const std::string& line) {
  Peer& peer = peers_.at(node);
  if (line.empty() || line.front() != '{') {
    warn_once(
        format("rendezvous at {}: {} speaks another protocol{}; launchers of one job must all be titan's",
               options_.endpoint.text(), peer.connection->peer(),
               !line.empty() && line.front() == '\0' ? ", that of Python's torchrun" : ""));
    return drop(node);
  }
  try {
    const NodeHello hello = NodeHello::from_json(Json::parse(line, "a launcher's greeting"));
    peer.joined = true;
    Json welcome = Json::object();
    welcome.append_member("titan_rendezvous", build_info().version);
    send(node, welcome);
    if (const auto refusal = coordinator_.join(node, hello)) refuse(node, *refusal);
    if (coordinator_.gathering()) {
      log_info("rendezvous at {}: {} are here", options_.endpoint.text(), coordinator_.present());
    }
  } catch (const ValueError& error) {
    log_warning("rendezvous at {}: {} was refused: {}", options_.endpoint.text(), peer.connection->peer(),
                error.what());
    drop(node);
  }
}

void HostLink::refuse(int64_t node, const std::string& why) {
  Json message = Json::object();
  message.append_member("titan_rendezvous", build_info().version);
  message.append_member("refused", why);
  send(node, message);
  log_warning("rendezvous at {}: {} was refused: {}", options_.endpoint.text(),
              peers_.at(node).connection->peer(), why);
  drop(node);
}

void HostLink::drop(int64_t node) {
  peers_.at(node).connection->close();
  loop_.post([this, node] { peers_.erase(node); });  // it may be in the middle of a call
}

void HostLink::send(int64_t node, const Json& message) {
  if (node == Coordinator::kOwnNode) {
    loop_.post([this, message] { events_.on_message(message); });
  } else if (const auto peer = peers_.find(node); peer != peers_.end()) {
    peer->second.connection->send(message.dump());
  }
}

void HostLink::report(const Json& message) {
  loop_.post([this, message] { coordinator_.message(Coordinator::kOwnNode, message); });
}

void HostLink::close() {
  loop_.finish_posted();
  for (const auto& [node, peer] : peers_) peer.connection->close();
  peers_.clear();
}

Coordinator::StoreAddress HostLink::open_store() {
  Endpoint address{options_.endpoint.host, 0};
  if (options_.backend == RendezvousBackend::fixed) {
    // Workers expect the store at the port where the launchers have met.
    if (!store_listener_.open()) {
      loop_.unwatch(listener_.get());
      store_listener_ = std::move(listener_);
    }
  } else {
    int error = 0;
    store_listener_ = listen_at({"", 0}, error);
    if (!store_listener_.open())
      throw ValueError("cannot open a port for the store: {}", std::strerror(error));
    const bool own = options_.max_nodes == 1 || is_loopback(options_.endpoint.host);
    if (own) address.host = own_address();
    if (!options_.local_addr.empty()) address.host = options_.local_addr;
  }
  address.port = port_of(store_listener_.get());
  if (!serves_store() && options_.backend == RendezvousBackend::c10d) {
    store_listener_.reset();  // the port is free for rank 0
    return {address.host, address.port};
  }
  store_.start(store_listener_.get(), [this] {
    Failure failure;
    failure.time = wall_time();
    failure.host = host_name();
    failure.message = "the job's store (`titan store`) ended; its own message stands above";
    Json message = Json::object();
    message.append_member("type", "failed");
    message.append_member("failure", failure.to_json());
    report(message);
  });
  return {address.host, address.port};
}

}  // namespace titan
