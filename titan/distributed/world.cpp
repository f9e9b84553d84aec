#include "titan/distributed/world.h"

#include <algorithm>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

#include "titan/base/error.h"
#include "titan/base/log.h"
#include "titan/distributed/gloo_group.h"
#include "titan/distributed/lone_group.h"
#include "titan/distributed/rendezvous.h"
#include "titan/distributed/shared_memory_group.h"

namespace titan {

struct World::Impl {
  std::chrono::milliseconds timeout;
  std::unique_ptr<Rendezvous> rendezvous;  // none for one process
  std::map<std::vector<int64_t>, std::unique_ptr<Group>> groups;

  std::unique_ptr<Group> make_group(const Launch& launch, Axis axis,
                                    const std::vector<int64_t>& ranks) const {
    const std::string name(axis_name(axis));
    if (ranks.size() == 1) return std::make_unique<LoneGroup>(name, ranks[0]);
    std::vector<std::string> numbers;
    for (const int64_t rank : ranks) numbers.push_back(std::to_string(rank));
    const auto store = rendezvous->store("group/" + join(numbers, ","));
    const int64_t index = std::find(ranks.begin(), ranks.end(), launch.rank) - ranks.begin();
    const std::vector<std::string>& nodes = rendezvous->nodes();
    const bool one_node = std::all_of(ranks.begin(), ranks.end(), [&](int64_t rank) {
      return nodes[static_cast<size_t>(rank)] == nodes[static_cast<size_t>(launch.rank)];
    });
    if (one_node) {
      log_info("Group {}: {} ranks of one node, over shared memory", name, ranks.size());
      return std::make_unique<SharedMemoryGroup>(*store, name, ranks, index,
                                                 SharedMemoryOptions{.timeout = timeout});
    }
    const GlooNetwork network = choose_gloo_network(launch.master_addr, rendezvous->one_machine());
    log_info("Group {}: {} ranks of several nodes, over Gloo at {}", name, ranks.size(),
             network.address.empty() ? join(network.interfaces, ",") : network.address);
    return make_gloo_group(*store, name, ranks, index, network, timeout);
  }
};

World::World(const Launch& launch, const ParallelDims& dims, std::chrono::milliseconds timeout)
    : launch_(launch), mesh_(dims, launch.rank), impl_(std::make_unique<Impl>()) {
  check(dims.world_size == launch.world_size, "the mesh has the job's ranks");
  impl_->timeout = timeout;
  if (launch.world_size > 1) impl_->rendezvous = std::make_unique<Rendezvous>(launch, timeout);
}

World::~World() = default;

Group& World::group(Axis axis) {
  const std::vector<int64_t> ranks = mesh_.peers(axis);
  const auto made = impl_->groups.find(ranks);
  if (made != impl_->groups.end()) return *made->second;
  return *impl_->groups.emplace(ranks, impl_->make_group(launch_, axis, ranks)).first->second;
}

void World::set_timeout(std::chrono::milliseconds timeout) {
  impl_->timeout = timeout;
  for (const auto& [ranks, group] : impl_->groups) group->set_timeout(timeout);
}

GroupCounters World::counters() const {
  GroupCounters total;
  for (const auto& [ranks, group] : impl_->groups) total += group->counters();
  return total;
}

}  // namespace titan
