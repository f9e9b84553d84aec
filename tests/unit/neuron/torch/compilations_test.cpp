// The first use of an operator with shapes and dtypes is a compilation, in this process and the next ones.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "neuron_device.h"
#include "titan/ops/autograd.h"
#include "titan/ops/device.h"

namespace titan {
namespace {

using at::Tensor;

// Sizes that no other test of this program has.
constexpr int64_t kOddRows = 37, kOddColumns = 41;

Tensor make(int64_t rows = kOddRows, at::ScalarType dtype = at::kFloat) {
  return at::empty({rows, kOddColumns}, at::TensorOptions(neuron()).dtype(dtype)).zero_();
}

int64_t compiled_by(const std::function<void()>& work) {
  const int64_t before = compilations();
  work();
  return compilations() - before;
}

int64_t counted(const char* name) { return static_cast<int64_t>(device_count(name)); }

/// A small forward and backward.
void train(at::Device device) {
  const Tensor weight = at::empty({kOddColumns, 23}, at::TensorOptions(device)).zero_().requires_grad_();
  const Tensor x = at::empty({kOddRows, kOddColumns}, at::TensorOptions(device)).zero_();
  backward(x.mm(weight).softmax(1).pow(2).sum());
}

constexpr const char* kSecondProcess = "a second process (started by another test)";

/// Runs the test case `kSecondProcess` in a program of its own, with this one's cache; its exit code.
int run_second_process() {
  const std::filesystem::path state =
      std::filesystem::temp_directory_path() / ("unit_neuron." + std::to_string(getpid()) + ".second");
  const std::string filter = std::string("-tc=") + kSecondProcess;
  const pid_t child = fork();
  if (child == 0) {
    setenv("TITAN_NEURON_STATE_DIR", state.c_str(), 1);
    execl("/proc/self/exe", "unit_neuron", "--no-skip", "-m", filter.c_str(), nullptr);
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  std::filesystem::remove_all(state);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("the first use of an operator compiles, the second does not") {
  const Tensor a = make();
  CHECK(compiled_by([&] { a.exp(); }) == 1);
  const int64_t hits = counted("in_memory_hits");
  CHECK(compiled_by([&] { a.exp(); }) == 0);
  CHECK(counted("in_memory_hits") == hits + 1);
  CHECK(compiled_by([&] { make().exp(); }) == 0);
  CHECK(compiled_by([&] { a.add(a); }) == 1);
  // Values are not part of a program.
  CHECK(compiled_by([&] { a.mul(2.5); }) == 1);
  CHECK(compiled_by([&] { a.mul(3.5); }) == 0);
}

TEST_CASE("another operator, overload, shape or dtype compiles") {
  const Tensor a = make();
  CHECK(compiled_by([&] { a.sin(); }) == 1);
  CHECK(compiled_by([&] { a.cos(); }) == 1);
  CHECK(compiled_by([&] { a.sin_(); }) == 1);
  CHECK(compiled_by([&] { make(kOddRows + 1).sin(); }) == 1);
  CHECK(compiled_by([&] { a.view({kOddColumns, kOddRows}).sin(); }) == 1);
  CHECK(compiled_by([&] { a.view({-1}).sin(); }) == 1);
  CHECK(compiled_by([&] { make(kOddRows, at::kBFloat16).sin(); }) == 1);
  CHECK(compiled_by([&] { make(kOddRows, at::kDouble).sin(); }) == 1);
  CHECK(compiled_by([&] { a.sum(0, false); }) == 1);
  CHECK(compiled_by([&] { a.sum(1, false); }) == 1);
  // A copy on the device is a program, and so is a change of dtype.
  CHECK(compiled_by([&] { a.clone(); }) == 1);
  CHECK(compiled_by([&] { a.to(at::kHalf); }) == 1);
  CHECK(compiled_by([&] { a.to(at::kHalf); }) == 0);
}

TEST_CASE("views, copies across the link, clearing, reading a number and making room compile nothing") {
  const int64_t rows = kOddRows + 2;
  CHECK(compiled_by([&] {
          const Tensor a = make(rows);
          a.view({-1}).narrow(0, 1, 5).unsqueeze(0);
          a.t().expand({2, kOddColumns, rows}).select(0, 1).as_strided({2}, {1});
          a.unfold(1, 3, 2).detach();
          a.unbind(0)[1].split(3)[0].detach();
        }) == 0);
  const Tensor a = make(rows);
  CHECK(compiled_by([&] { a.cpu(); }) == 0);
  CHECK(compiled_by([&] { at::ones({rows, kOddColumns}).to(neuron()); }) == 0);
  CHECK(compiled_by([&] { a.copy_(at::ones({rows, kOddColumns}, at::kHalf)); }) == 0);
  CHECK(compiled_by([&] { a.zero_(); }) == 0);
  CHECK(compiled_by([&] { at::zeros({rows, 5}, a.options()); }) == 0);
  CHECK(compiled_by([&] { a[1][2].item(); }) == 0);
  CHECK(compiled_by([&] { make(rows).resize_({rows + 9, kOddColumns}).resize_({3}); }) == 0);
  CHECK(compiled_by([&] { at::real(at::view_as_complex(make(rows).view({-1}).narrow(0, 0, 2))); }) == 0);
}

TEST_CASE("the counts of the cache belong together") {
  make(kOddRows + 3).tan();
  make(kOddRows + 3).tan();
  CHECK(counted("cache_misses") == counted("total_compilations"));
  CHECK(counted("persistent_misses") == counted("total_compilations"));
  CHECK(counted("total_entries") >= 1);
  CHECK(device_count("hit_rate") > 0);
  CHECK(device_count("memory_usage_bytes") > 0);
}

TEST_CASE("every call of an operator is counted, also one that compiled before") {
  const at::Tensor a = make(kOddRows);
  const int64_t before = counted("operator_calls");
  for (int i = 0; i < 3; ++i) a.sinh();
  CHECK(counted("operator_calls") == before + 3);
}

TEST_CASE("a second process with the same cache compiles nothing") {
  train(neuron());
  CHECK(compiled_by([] { train(neuron()); }) == 0);
  CHECK(run_second_process() == 0);
}

TEST_CASE(kSecondProcess* doctest::skip()) {
  const at::Device device = take_neuron_device("emulator", 0, 0, 1).device;
  train(device);
  CHECK(compilations() == 0);
  CHECK(counted("persistent_hits") > 5);
  CHECK(counted("in_memory_misses") == counted("persistent_hits"));
  at::empty({3, 2}, at::TensorOptions(device)).zero_().atan();
  CHECK(compilations() == 1);
}

}  // namespace titan
