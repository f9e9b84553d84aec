#include "titan/distributed/rendezvous.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <exception>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <system_error>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "titan/base/error.h"
#include "titan/base/strings.h"
#include "titan/distributed/quiet_c10d.h"
#include "titan/distributed/shared_memory.h"

namespace titan {
namespace {

using std::chrono::milliseconds;
using StorePtr = c10::intrusive_ptr<c10d::Store>;

constexpr milliseconds kConnectInterval{50};
constexpr milliseconds kPollInterval{20};
/// How long rank 0 keeps its store for others that are about to learn of a failure.
constexpr milliseconds kFailureTimeout{3000};
/// How long rank 0 keeps its store for ranks that are slow to end.
constexpr milliseconds kLeaveTimeout{30'000};

std::string seconds_of(milliseconds time) { return format("{} s", static_cast<double>(time.count()) / 1000); }

std::string first_line(const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  return text.substr(0, text.find('\n'));
}

/// "" when something accepts connections there, else why not.
std::string try_to_connect(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found)) return gai_strerror(error);
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, freeaddrinfo);
  std::string why = "no address";
  for (const addrinfo* to = found; to; to = to->ai_next) {
    const int connection = socket(to->ai_family, to->ai_socktype | SOCK_CLOEXEC, to->ai_protocol);
    if (connection < 0) continue;
    // A machine that does not answer at all must not hold up the next try for minutes.
    const timeval limit{.tv_sec = 5, .tv_usec = 0};
    setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    const int failed = connect(connection, to->ai_addr, to->ai_addrlen);
    const int error = errno;
    close(connection);
    if (failed == 0) return "";
    why = error == EINPROGRESS ? "no answer" : std::system_category().message(error);
  }
  return why;
}

/// Waits until the store's port is open: TCPStore itself would try once a second and log every failure.
void wait_for_port(const Launch& launch, milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::string why;
  do {
    why = try_to_connect(launch.master_addr, std::to_string(launch.master_port));
    if (why.empty()) return;
    std::this_thread::sleep_for(kConnectInterval);
  } while (std::chrono::steady_clock::now() < deadline);
  throw ValueError(
      "rank {} found no rendezvous at {}:{} in {} ({}); are MASTER_ADDR and MASTER_PORT right, and does {} "
      "run?",
      launch.rank, launch.master_addr, launch.master_port, seconds_of(timeout), why,
      launch.agent_store ? "the launcher there" : "rank 0");
}

/// A store being opened. Something else at the port may never answer, and TCPStore then waits for ever: the
/// thread that opens it shares this and is left alone after the timeout.
struct Opening {
  std::mutex mutex;
  std::condition_variable changed;
  StorePtr store;
  std::string failure;
};

std::string open_in_time(const Launch& launch, const c10d::TCPStoreOptions& options, StorePtr& store) {
  const auto opening = std::make_shared<Opening>();
  std::thread([opening, host = launch.master_addr, options] {
    StorePtr opened;
    std::string failure;
    try {
      opened = c10::make_intrusive<c10d::TCPStore>(host, options);
    } catch (const c10::Error& error) {
      failure = first_line(error);
    }
    const std::lock_guard lock(opening->mutex);
    opening->store = opened;
    opening->failure = failure;
    opening->changed.notify_all();
  }).detach();
  std::unique_lock lock(opening->mutex);
  opening->changed.wait_for(lock, options.timeout,
                            [&] { return opening->store || !opening->failure.empty(); });
  store = opening->store;
  return store || !opening->failure.empty() ? opening->failure : "it does not answer";
}

StorePtr open_store(const Launch& launch, milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(launch.master_port);
  options.isServer = !launch.agent_store && launch.rank == 0;
  options.waitWorkers = false;
  options.timeout = timeout;
  if (!options.isServer) wait_for_port(launch, timeout);
  StorePtr store;
  const std::string failure = open_in_time(launch, options, store);
  if (store) return store;
  if (options.isServer) {
    throw ValueError(
        "rank 0 cannot open the rendezvous at {}:{} ({}); is MASTER_ADDR this machine and MASTER_PORT free?",
        launch.master_addr, launch.master_port, failure);
  }
  throw ValueError(
      "what listens at {}:{} is no rendezvous of this job; are MASTER_ADDR and MASTER_PORT right? ({})",
      launch.master_addr, launch.master_port, failure);
}

/// The machine since its start and the processes' view of it.
std::string machine() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  file >> boot;
  std::error_code none;
  return boot + " " + std::filesystem::read_symlink("/proc/self/ns/pid", none).string();
}

std::string rank_key(int64_t rank) { return format("rank/{}", rank); }

std::vector<uint8_t> value_of(const std::string& text) { return {text.begin(), text.end()}; }

}  // namespace

struct Rendezvous::Impl {
  Launch launch;
  StorePtr store;
  std::vector<std::string> nodes;

  std::string place() const { return format("{}:{}", launch.master_addr, launch.master_port); }

  bool there(const std::string& key) const { return store->check({key}); }

  std::string text_at(const std::string& key) const {
    const std::vector<uint8_t> value = store->get(key);
    return {value.begin(), value.end()};
  }

  void meet(milliseconds timeout) {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    store->set(rank_key(launch.rank), value_of(format("{} {}", launch.group_rank, machine())));
    if (store->add("arrived", 1) == launch.world_size) store->set("everyone", value_of("1"));
    // By polling: a wait that times out logs.
    while (!there("everyone")) {
      if (std::chrono::steady_clock::now() >= deadline && !there("failure")) {
        store->set("failure", value_of(format("{} did not arrive within {} at {}", ranks_text(missing()),
                                              seconds_of(timeout), place())));
      }
      // All give the message of the first whose time is up.
      if (there("failure")) throw PeerError("{}", text_at("failure"));
      std::this_thread::sleep_for(kPollInterval);
    }
    std::vector<std::string> keys;
    for (int64_t rank = 0; rank < launch.world_size; ++rank) keys.push_back(rank_key(rank));
    for (const std::vector<uint8_t>& value : store->multiGet(keys))
      nodes.emplace_back(value.begin(), value.end());
  }

  std::vector<int64_t> missing() const {
    std::vector<int64_t> ranks;
    for (int64_t rank = 0; rank < launch.world_size; ++rank) {
      if (!store->check({rank_key(rank)})) ranks.push_back(rank);
    }
    return ranks;
  }

  /// The rank that holds the store goes last, unless the others take too long.
  void leave(milliseconds limit) {
    if (launch.agent_store) return;
    if (store->add("left", 1) == launch.world_size) store->set("everyone_left", value_of("1"));
    if (launch.rank != 0) return;
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (!there("everyone_left") && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(kPollInterval);
    }
  }
};

Rendezvous::Rendezvous(const Launch& launch, milliseconds timeout) : impl_(std::make_unique<Impl>()) {
  const QuietC10d quiet;
  impl_->launch = launch;
  impl_->store = c10::make_intrusive<c10d::PrefixStore>(
      format("titan/{}/{}", launch.run_id, launch.restart_count), open_store(launch, timeout));
  try {
    impl_->meet(timeout);
  } catch (const c10::Error& error) {
    throw PeerError("rank {} lost the rendezvous at {}; has {} ended? ({})", launch.rank, impl_->place(),
                    launch.agent_store ? "the launcher" : "rank 0", first_line(error));
  } catch (const ValueError&) {
    leave(kFailureTimeout);
    throw;
  }
}

Rendezvous::~Rendezvous() { leave(std::uncaught_exceptions() == 0 ? kLeaveTimeout : kFailureTimeout); }

void Rendezvous::leave(milliseconds limit) {
  const QuietC10d quiet;
  try {
    impl_->leave(limit);
  } catch (const c10::Error&) {
    // The store ended first.
  }
}

StorePtr Rendezvous::store(const std::string& prefix) const {
  return c10::make_intrusive<c10d::PrefixStore>(prefix, impl_->store);
}

const std::vector<std::string>& Rendezvous::nodes() const { return impl_->nodes; }

bool Rendezvous::one_machine() const {
  const auto machine_of = [](const std::string& node) { return node.substr(node.find(' ')); };
  return std::all_of(impl_->nodes.begin(), impl_->nodes.end(), [&](const std::string& node) {
    return machine_of(node) == machine_of(impl_->nodes[0]);
  });
}

}  // namespace titan
