#include "titan/launch/options.h"

#include <doctest/doctest.h>

#include <cstdlib>

#include "titan/base/error.h"

using namespace titan;

namespace {

TorchrunOptions parsed(std::vector<std::string> words) {
  words.insert(words.end(), {"--no_python", "program"});
  return parse_torchrun_options(words);
}

}  // namespace

TEST_CASE("the guide's launch line is understood") {
  const std::vector<std::string> words = {"--nproc_per_node=64",
                                          "--rdzv_backend",
                                          "c10d",
                                          "--rdzv_endpoint",
                                          "localhost:0",
                                          "--local-ranks-filter",
                                          "0",
                                          "--role",
                                          "rank",
                                          "--tee",
                                          "3",
                                          "-m",
                                          "titan.train",
                                          "--module",
                                          "qwen3",
                                          "--tee",
                                          "5"};
  const TorchrunOptions options = parse_torchrun_options(words);
  CHECK(options.local_world_size == 64);
  CHECK(options.endpoint == Endpoint{"localhost", 0});
  CHECK(options.local_ranks_filter == std::set<int64_t>{0});
  CHECK(options.role == "rank");
  CHECK(options.tee.out(63));
  CHECK(options.tee.err(0));
  CHECK(options.module);
  CHECK(options.program == "titan.train");
  CHECK(options.program_args == std::vector<std::string>{"--module", "qwen3", "--tee", "5"});
}

TEST_CASE("flags have both spellings, short forms and beginnings that mean one flag only") {
  CHECK(parsed({"--max-restarts", "2"}).max_restarts == 2);
  CHECK(parsed({"--max_restarts=2"}).max_restarts == 2);
  CHECK(parsed({"--max-r=2"}).max_restarts == 2);
  CHECK(parsed({"-t3"}).tee.out(0));
  CHECK(parsed({"-r", "2"}).redirects.err(0));
  CHECK_THROWS_WITH_AS(parsed({"--master", "x"}),
                       doctest::Contains("--master may be --master-addr or --master-port"), ConfigError);
  CHECK_THROWS_WITH_AS(parsed({"--tea", "3"}), doctest::Contains("did you mean --tee?"), ConfigError);
}

TEST_CASE("streams are one number, or one for each rank") {
  const StreamChoice map = StreamChoice::parse("0:3,2:1", "--tee");
  CHECK(map.out(0));
  CHECK(map.err(0));
  CHECK_FALSE(map.out(1));
  CHECK(map.out(2));
  CHECK_FALSE(map.err(2));
  for (const char* wrong : {"4", "", "x", "0:4", "0:", "0:1,2", ":1", "-1:1"}) {
    CHECK_THROWS_AS(StreamChoice::parse(wrong, "--tee"), ConfigError);
  }
}

TEST_CASE("endpoints have names, addresses, and ports or the default") {
  const auto endpoint = [](const char* text) { return Endpoint::parse(text, 29400, "--rdzv_endpoint"); };
  CHECK(endpoint("") == Endpoint{"localhost", 29400});
  CHECK(endpoint("node1") == Endpoint{"node1", 29400});
  CHECK(endpoint("node1:0") == Endpoint{"node1", 0});
  CHECK(endpoint("[fe80::1]:7") == Endpoint{"fe80::1", 7});
  CHECK(endpoint("[fe80::1]") == Endpoint{"fe80::1", 29400});
  CHECK(endpoint("fe80::1") == Endpoint{"fe80::1", 29400});
  CHECK(endpoint("[::1]:7").text() == "[::1]:7");
  for (const char* wrong : {"a:b", "a:", ":1", "a:65536", "a b:1", "a:-1"})
    CHECK_THROWS_AS(endpoint(wrong), ConfigError);
}

TEST_CASE("without rendezvous flags a node meets nobody, under an id of its own") {
  const TorchrunOptions options = parsed({});
  CHECK((options.backend == RendezvousBackend::c10d));
  CHECK(options.endpoint.port == 0);
  CHECK(options.run_id != parsed({}).run_id);
  const TorchrunOptions standalone = parsed({"--standalone", "--rdzv_id", "x"});
  CHECK(standalone.run_id.size() == 36);
}

TEST_CASE("the static backend takes node 0's address and port and a rank for each node") {
  const TorchrunOptions options =
      parsed({"--nnodes=2", "--node_rank=1", "--master_addr=10.0.0.1", "--master_port=1234"});
  CHECK((options.backend == RendezvousBackend::fixed));
  CHECK(options.endpoint == Endpoint{"10.0.0.1", 1234});
  CHECK(options.node_rank == 1);
  CHECK(options.run_id == "none");
  CHECK(parsed({"--nnodes=2"}).endpoint == Endpoint{"127.0.0.1", 29500});
  CHECK(parsed({"--nnodes=1:4"}).min_nodes == 4);
}

TEST_CASE("rendezvous settings are used, said to be without effect, or refused") {
  const TorchrunOptions options =
      parsed({"--rdzv_backend=c10d", "--rdzv_conf",
              "join_timeout=7, is_host=false,last_call_timeout=0,read_timeout=3"});
  CHECK(options.times.join == std::chrono::seconds(7));
  CHECK(options.times.last_call == std::chrono::seconds(0));
  CHECK(options.is_host == false);
  CHECK(options.warnings.size() == 1);
  for (const char* wrong :
       {"a=1", "join_timeout", "join_timeout=", "join_timeout=x", "is_host=maybe", "store_type=file"}) {
    CHECK_THROWS_AS(parsed({"--rdzv_backend=c10d", "--rdzv_conf", wrong}), ConfigError);
  }
}

TEST_CASE("words of filters are cut at commas, and a double comma is one") {
  const TorchrunOptions options = parsed({"--duplicate-stdout-filters", "a,b,,c,"});
  CHECK(options.stdout_filters == std::vector<std::string>{"a", "b,c"});
}

TEST_CASE("the grace comes from the flag, torchrun's variable, or is 30 seconds") {
  CHECK(parsed({}).shutdown_timeout == std::chrono::seconds(30));
  setenv("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "4", 1);
  CHECK(parsed({}).shutdown_timeout == std::chrono::seconds(4));
  CHECK(parsed({"--shutdown_timeout=0"}).shutdown_timeout == std::chrono::seconds(0));
  unsetenv("TORCH_ELASTIC_SHUTDOWN_TIMEOUT");
}

TEST_CASE("auto means the visible cores of the emulated Neuron machine where that is asked for") {
  const auto count = [](std::initializer_list<std::pair<const char*, const char*>> variables) {
    for (const auto& [name, value] : variables) setenv(name, value, 1);
    const int64_t processes = parsed({"--nproc_per_node=auto"}).local_world_size;
    for (const char* name :
         {"TITAN_NEURON_PROVIDER", "NEURON_LOGICAL_NC_CONFIG", "NEURON_RT_VISIBLE_CORES"}) {
      unsetenv(name);
    }
    return processes;
  };
  const int64_t elsewhere = count({{"NEURON_RT_VISIBLE_CORES", "3-1"}});  // not a matter of Neuron then
  CHECK(elsewhere >= 1);
  CHECK(count({{"TITAN_NEURON_PROVIDER", "emulator"}}) == 64);
  CHECK(count({{"TITAN_NEURON_PROVIDER", "emulator"}, {"NEURON_LOGICAL_NC_CONFIG", "1"}}) == 128);
  CHECK(count({{"TITAN_NEURON_PROVIDER", "emulator"}, {"NEURON_RT_VISIBLE_CORES", "0-2,9"}}) == 4);
  setenv("TITAN_NEURON_PROVIDER", "emulator", 1);
  CHECK(parsed({"--nproc_per_node=3"}).local_world_size == 3);
  setenv("NEURON_LOGICAL_NC_CONFIG", "3", 1);
  CHECK_THROWS_WITH_AS(parsed({"--nproc_per_node=auto"}), doctest::Contains("NEURON_LOGICAL_NC_CONFIG"),
                       ConfigError);
  unsetenv("NEURON_LOGICAL_NC_CONFIG");
  setenv("TITAN_NEURON_PROVIDER", "/some/libdevice.so", 1);
  CHECK_THROWS_WITH_AS(parsed({"--nproc_per_node=auto"}),
                       doctest::Contains("TITAN_NEURON_PROVIDER names the library /some/libdevice.so"),
                       ConfigError);
  CHECK(parsed({"--nproc_per_node=3"}).local_world_size == 3);
  unsetenv("TITAN_NEURON_PROVIDER");
}
