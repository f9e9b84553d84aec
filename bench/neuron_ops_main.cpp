// What an operator on tiny tensors costs on the emulated neuron device beside the same operator on the CPU:
// both in turn, medians of the rounds. Exit code 1 when one costs more than three times the CPU's.
// TITAN_NEURON_STATE_DIR, TORCH_NEURONX_NEFF_CACHE_DIR as for a run. Arguments: names of operators (all).

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "titan/base/error.h"
#include "titan/ops/autograd.h"
#include "titan/ops/device.h"

namespace titan {
namespace {

using at::Tensor;

constexpr int kRounds = 9, kCalls = 2000;
constexpr double kLargestRatio = 3;

/// What the operators work on.
struct Operands {
  explicit Operands(at::Device device)
      : a(at::rand({4, 4}).add(0.5).to(device)),
        b(at::rand({4, 4}).add(0.5).to(device)),
        out(at::zeros({4, 4}).to(device)),
        indices(at::tensor({2, 0}, at::kLong).to(device)),
        mask(at::eye(4).to(at::kBool).to(device)),
        number(at::ones({}).to(device)),
        cube(at::rand({2, 4, 4}).to(device)) {}

  Tensor a, b, out, indices, mask, number, cube;
};

struct Case {
  std::string name;
  std::function<void(Operands&)> run;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"add", [](Operands& t) { t.a.add(t.b); }},
      {"add, a number", [](Operands& t) { t.a.add(1.5); }},
      {"add_", [](Operands& t) { t.out.add_(t.b); }},
      {"add_out", [](Operands& t) { at::add_out(t.out, t.a, t.b); }},
      {"mul", [](Operands& t) { t.a.mul(t.b); }},
      {"mul_, a number", [](Operands& t) { t.out.mul_(0.5); }},
      {"div", [](Operands& t) { t.a.div(t.b); }},
      {"neg", [](Operands& t) { t.a.neg(); }},
      {"exp", [](Operands& t) { t.a.exp(); }},
      {"sqrt", [](Operands& t) { t.a.sqrt(); }},
      {"pow", [](Operands& t) { t.a.pow(2); }},
      {"silu", [](Operands& t) { at::silu(t.a); }},
      {"sigmoid", [](Operands& t) { t.a.sigmoid(); }},
      {"clamp", [](Operands& t) { t.a.clamp(0, 1); }},
      {"maximum", [](Operands& t) { at::maximum(t.a, t.b); }},
      {"lt", [](Operands& t) { t.a.lt(t.b); }},
      {"where", [](Operands& t) { at::where(t.mask, t.a, t.b); }},
      {"masked_fill", [](Operands& t) { t.a.masked_fill(t.mask, 0.0); }},
      {"sum", [](Operands& t) { t.a.sum(); }},
      {"mean of a dimension", [](Operands& t) { t.a.mean(1); }},
      {"amax", [](Operands& t) { t.a.amax(1); }},
      {"max of a dimension", [](Operands& t) { t.a.max(1); }},
      {"argmax", [](Operands& t) { t.a.argmax(1); }},
      {"cumsum", [](Operands& t) { t.a.cumsum(0); }},
      {"softmax", [](Operands& t) { t.a.softmax(1); }},
      {"mm", [](Operands& t) { t.a.mm(t.b); }},
      {"bmm", [](Operands& t) { t.cube.bmm(t.cube); }},
      {"addmm", [](Operands& t) { at::addmm(t.a, t.a, t.b); }},
      {"cat", [](Operands& t) { at::cat({t.a, t.b}); }},
      {"stack", [](Operands& t) { at::stack({t.a, t.b}); }},
      {"index_select", [](Operands& t) { t.a.index_select(0, t.indices); }},
      {"index", [](Operands& t) { t.a.index({t.indices}); }},
      {"embedding", [](Operands& t) { at::embedding(t.a, t.indices); }},
      {"sort", [](Operands& t) { t.a.sort(1); }},
      {"topk", [](Operands& t) { t.a.topk(2, 1); }},
      {"tril", [](Operands& t) { t.a.tril(); }},
      {"copy_", [](Operands& t) { t.out.copy_(t.a); }},
      {"clone", [](Operands& t) { t.a.clone(); }},
      {"to bfloat16", [](Operands& t) { t.a.to(at::kBFloat16); }},
      {"contiguous of a transposed", [](Operands& t) { t.a.t().contiguous(); }},
      {"zero_", [](Operands& t) { t.out.zero_(); }},
      {"fill_", [](Operands& t) { t.out.fill_(1); }},
      {"empty", [](Operands& t) { at::empty({4, 4}, t.a.options()); }},
      {"zeros", [](Operands& t) { at::zeros({4, 4}, t.a.options()); }},
      {"full", [](Operands& t) { at::full({4, 4}, 2, t.a.options()); }},
      {"arange", [](Operands& t) { at::arange(8, t.a.options()); }},
      {"view", [](Operands& t) { t.a.view({16}); }},
      {"narrow", [](Operands& t) { t.a.narrow(0, 1, 2); }},
      {"transpose", [](Operands& t) { t.a.transpose(0, 1); }},
      {"item", [](Operands& t) { t.number.item(); }},
      {"_foreach_mul_", [](Operands& t) { at::_foreach_mul_({t.out, t.out}, 0.5); }},
      {"_foreach_add", [](Operands& t) { at::_foreach_add({t.a, t.b}, 1.5); }},
  };
  return all;
}

/// Microseconds of a call.
double round_us(const Case& test, Operands& operands) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) test.run(operands);
  const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
  return time.count() / kCalls;
}

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
  return times[kRounds / 2];
}

/// Prints the row of a case; whether it keeps the promise.
bool measure(const Case& test, Operands& cpu, Operands& neuron) {
  std::vector<double> cpu_times, neuron_times;
  for (int i = 0; i < 50; ++i) {
    test.run(cpu);
    test.run(neuron);
  }
  for (int round = 0; round < kRounds; ++round) {
    cpu_times.push_back(round_us(test, cpu));
    neuron_times.push_back(round_us(test, neuron));
  }
  const double here = median(cpu_times), there = median(neuron_times);
  const bool kept = there <= kLargestRatio * here;
  std::printf("%-28s %8.2f us %8.2f us %6.2fx%s\n", test.name.c_str(), here, there, there / here,
              kept ? "" : "  more than 3x");
  return kept;
}

}  // namespace
}  // namespace titan

int main(int argc, char** argv) {
  using namespace titan;
  try {
    const at::Device device = take_neuron_device("emulator", 0, 0, 1).device;
    const NoGrad no_grad;
    Operands cpu(at::kCPU), neuron(device);
    const std::vector<std::string> names(argv + 1, argv + argc);
    std::printf("%-28s %11s %11s %7s\n", "operator, 4x4 float32", "cpu", "neuron", "ratio");
    int dear = 0;
    for (const Case& test : cases()) {
      if (!names.empty() && std::ranges::find(names, test.name) == names.end()) continue;
      if (!measure(test, cpu, neuron)) ++dear;
    }
    return dear == 0 ? 0 : 1;
  } catch (const ValueError& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
