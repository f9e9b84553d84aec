#include "titan/launch/coordinator.h"

#include <algorithm>

#include "titan/base/build_info.h"
#include "titan/base/clock.h"
#include "titan/base/error.h"
#include "titan/base/log.h"
#include "titan/launch/worker_env.h"

namespace titan {
namespace {

std::string range_text(const TorchrunOptions& options) {
  return options.min_nodes == options.max_nodes ? format("{}", options.max_nodes)
                                                : format("{}:{}", options.min_nodes, options.max_nodes);
}

Json message_of_type(const char* type) {
  Json message = Json::object();
  message.append_member("type", type);
  return message;
}

}  // namespace

NodeHello NodeHello::of(const TorchrunOptions& options) {
  return {.version = build_info().version,
          .run_id = options.run_id,
          .nnodes = range_text(options),
          .backend = options.backend == RendezvousBackend::fixed ? "static" : "c10d",
          .host = host_name(),
          .role = options.role,
          .local_world_size = options.local_world_size,
          .node_rank = options.node_rank};
}

Json NodeHello::to_json() const {
  Json json = Json::object();
  json.append_member("titan_rendezvous", version);
  json.append_member("rdzv_id", run_id);
  json.append_member("nnodes", nnodes);
  json.append_member("rdzv_backend", backend);
  json.append_member("host", host);
  json.append_member("role", role);
  json.append_member("nproc_per_node", local_world_size);
  json.append_member("node_rank", node_rank);
  return json;
}

NodeHello NodeHello::from_json(const Json& json) {
  return {.version = json["titan_rendezvous"].as_string(),
          .run_id = json["rdzv_id"].as_string(),
          .nnodes = json["nnodes"].as_string(),
          .backend = json["rdzv_backend"].as_string(),
          .host = json["host"].as_string(),
          .role = json["role"].as_string(),
          .local_world_size = json["nproc_per_node"].as_int(),
          .node_rank = json["node_rank"].as_int()};
}

std::optional<std::string> Coordinator::mismatch(const NodeHello& hello) const {
  const NodeHello own = NodeHello::of(options_);
  const auto differs = [](const char* what, const std::string& theirs, const std::string& ours) {
    return theirs == ours
               ? std::nullopt
               : std::optional(format("{} is {} on this node and {} on the node that hosts the rendezvous",
                                      what, theirs, ours));
  };
  if (auto text = differs("titan's version", hello.version, own.version)) return text;
  if (auto text = differs("--rdzv_id", hello.run_id, own.run_id)) return text;
  if (auto text = differs("--rdzv_backend", hello.backend, own.backend)) return text;
  return differs("--nnodes", hello.nnodes, own.nnodes);
}

std::optional<std::string> Coordinator::join(int64_t node, const NodeHello& hello) {
  if (auto text = mismatch(hello)) return text;
  if (state_ == State::ended) return "the job that this rendezvous was for has ended";
  const auto same_rank = [&](const Node& other) { return other.hello.node_rank == hello.node_rank; };
  if (options_.backend == RendezvousBackend::fixed) {
    const auto taken = std::find_if(nodes_.begin(), nodes_.end(), same_rank);
    if (taken != nodes_.end()) {
      return format("--node_rank={} is taken by {}", hello.node_rank, taken->hello.host);
    }
  }
  if (static_cast<int64_t>(nodes_.size() + late_.size()) >= options_.max_nodes) {
    return format("the job has all its nodes already: {}", present());
  }
  if (state_ != State::gathering) {
    // A range of nodes: all start again, with the one that came.
    log_info("{} joins: starting all workers again", hello.host);
    late_.push_back({node, hello});
    if (state_ == State::running) stop();
    return std::nullopt;
  }
  nodes_.push_back({node, hello});
  const auto present_nodes = static_cast<int64_t>(nodes_.size());
  if (present_nodes == options_.max_nodes) {
    start();
  } else if (present_nodes >= options_.min_nodes && options_.backend == RendezvousBackend::c10d) {
    actions_.on_enough();
  }
  return std::nullopt;
}

void Coordinator::close_call() {
  if (state_ == State::gathering && static_cast<int64_t>(nodes_.size()) >= options_.min_nodes) start();
}

int64_t Coordinator::world_size(const std::vector<Node>& nodes, const std::string& role) const {
  int64_t size = 0;
  for (const Node& node : nodes)
    size += role.empty() || node.hello.role == role ? node.hello.local_world_size : 0;
  return size;
}

void Coordinator::start() {
  if (options_.backend == RendezvousBackend::fixed) {
    std::sort(nodes_.begin(), nodes_.end(),
              [](const Node& a, const Node& b) { return a.hello.node_rank < b.hello.node_rank; });
  }
  state_ = State::running;
  first_failure_.reset();
  const StoreAddress store = actions_.open_store();
  Assignment assignment;
  assignment.group_world_size = static_cast<int64_t>(nodes_.size());
  assignment.world_size = world_size(nodes_, "");
  assignment.master_addr = store.host;
  assignment.master_port = store.port;
  assignment.restart_count = restart_count_;
  std::map<std::string, int64_t> role_ranks;
  for (Node& node : nodes_) {
    node.done = node.stopped = false;
    assignment.first_role_rank = role_ranks[node.hello.role];
    assignment.role_world_size = world_size(nodes_, node.hello.role);
    Json message = message_of_type("start");
    message.append_member("assignment", assignment.to_json());
    actions_.send(node.number, message);
    ++assignment.group_rank;
    assignment.first_rank += node.hello.local_world_size;
    role_ranks[node.hello.role] += node.hello.local_world_size;
  }
}

void Coordinator::stop() {
  state_ = State::stopping;
  send_all(message_of_type("stop"));
}

void Coordinator::note(const Failure& failure) {
  if (!first_failure_ || is_earlier(failure, *first_failure_)) first_failure_ = failure;
}

Coordinator::Node* Coordinator::find(int64_t number) {
  const auto found =
      std::find_if(nodes_.begin(), nodes_.end(), [&](const Node& node) { return node.number == number; });
  return found == nodes_.end() ? nullptr : &*found;
}

void Coordinator::message(int64_t number, const Json& message) {
  Node* node = find(number);
  if (node == nullptr || state_ == State::ended) return;
  const std::string& type = message["type"].as_string();
  if (const Json* failure = message.find("failure")) note(Failure::from_json(*failure));
  if (type == "leaving") return lost(number, message["message"].as_string());
  if (type == "done") node->done = true;
  if (type == "stopped") node->stopped = true;
  if (type == "failed" && state_ == State::running) stop();
  check_progress();
}

void Coordinator::check_progress() {
  const auto all = [&](bool Node::* flag) {
    return std::all_of(nodes_.begin(), nodes_.end(), [&](const Node& node) { return node.*flag; });
  };
  if (state_ == State::running && all(&Node::done)) end();
  if (state_ == State::stopping && all(&Node::stopped)) after_stop();
}

void Coordinator::after_stop() {
  const bool enough = static_cast<int64_t>(nodes_.size() + late_.size()) >= options_.min_nodes;
  if (first_failure_ && (!enough || restart_count_ >= options_.max_restarts)) return end();
  if (first_failure_) {
    ++restart_count_;
    log_warning("{}\nStarting all workers again: restart {} of {}", first_failure_->describe(),
                restart_count_, options_.max_restarts);
  }
  nodes_.insert(nodes_.end(), late_.begin(), late_.end());
  late_.clear();
  start();
}

void Coordinator::end() {
  state_ = State::ended;
  Json message = message_of_type("end");
  if (first_failure_) message.append_member("failure", first_failure_->to_json());
  send_all(message);
}

void Coordinator::send_all(const Json& message) {
  for (const Node& node : nodes_) actions_.send(node.number, message);
  if (state_ != State::ended) return;
  for (const Node& node : late_) actions_.send(node.number, message);
}

void Coordinator::lost(int64_t number, const std::string& why) {
  std::erase_if(late_, [&](const Node& node) { return node.number == number; });
  const Node* node = find(number);
  if (node == nullptr || state_ == State::ended) return;
  const std::string host = node->hello.host;
  const auto rank = node - nodes_.data();
  nodes_.erase(nodes_.begin() + rank);
  if (state_ == State::gathering && number != kOwnNode) {
    log_warning("{} left before the job began: {}", host, why);
    return;
  }
  Failure failure;
  failure.time = wall_time();
  failure.host = host;
  failure.message = format("node {} ({}) left the job: {}", rank, host, why);
  note(failure);
  if (number == kOwnNode) return end();  // nobody is left to decide
  if (state_ == State::running) stop();
  check_progress();
}

std::string Coordinator::present() const {
  std::vector<std::string> hosts;
  for (const Node& node : nodes_) hosts.push_back(node.hello.host);
  return format("{} of {} nodes ({})", nodes_.size(), range_text(options_), titan::join(hosts, ", "));
}

}  // namespace titan
