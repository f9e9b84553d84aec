#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "titan/distributed/group.h"

namespace c10d {
class Store;
}

namespace titan {

/// The network to use, by interfaces or by one of this machine's addresses.
struct GlooNetwork {
  std::vector<std::string> interfaces = {};
  std::string address = {};
};

/// The interfaces that GLOO_SOCKET_IFNAME names; else the address from which this machine reaches `master`. A
/// loopback address is only of use while all ranks are on one machine (`one_machine`): else another one of
/// this machine. ConfigError when GLOO_SOCKET_IFNAME names none of this machine's interfaces.
GlooNetwork choose_gloo_network(const std::string& master, bool one_machine);

/// A group whose members talk over TCP by Gloo. Gloo carries bytes; sums are made here, in rank order.
/// The members meet through `store`, whose keys are the group's own.
std::unique_ptr<Group> make_gloo_group(c10d::Store& store, std::string name, std::vector<int64_t> ranks,
                                       int64_t index, const GlooNetwork& network,
                                       std::chrono::milliseconds timeout);

}  // namespace titan
