// An operator made of NKI kernels is charged what its kernels did.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <string>

#include "neuron_device.h"
#include "titan/nki.h"
#include "titan/ops/autograd.h"
#include "titan/ops/nki_op.h"
#include "titan/ops/recorded_operators.h"
#include "titan/ops/wrap_nki.h"

namespace titan {
namespace {

using at::Tensor;
namespace nl = nki::language;
namespace nisa = nki::isa;

constexpr int64_t kColumns = 512;
constexpr double kVector = kColumns / 0.96e9, kScalar = kColumns / 1.2e9;  // seconds of all columns
constexpr double kBytes = 128 * kColumns * 4;

/// out = exp(2 x) for x [128, kColumns]; each core does its share of the columns.
nki::Tensor exp_of_double(nki::Tensor x) {
  const nki::Tensor out = nl::ndarray(x.shape(), x.dtype(), nl::shared_hbm);
  const int64_t share = kColumns / nl::num_programs();
  const nki::Slice columns = nki::ds(nl::program_id() * share, share);
  const nki::Tensor tile = nl::ndarray({128, share}, x.dtype());
  nisa::dma_copy(tile, x(nki::all, columns));
  nisa::tensor_scalar(tile, tile, nl::multiply, 2.0);
  nisa::activation(tile, nl::exp, tile);
  nisa::dma_copy(out(nki::all, columns), tile);
  return out;
}

const auto wrapped = wrap_nki(exp_of_double);
const auto with_kernel =
    nki_op("test_kernel_work::with_kernel", [](const Tensor& x) {
      return wrapped[2](x);
    }).register_autograd([](OpContext&, const Tensor& grad) { return wrapped[1](wrapped[1](grad)); });
const auto without_kernel = nki_op("test_kernel_work::without_kernel", [](const Tensor& x) { return x + 1; });

/// What each engine is charged while `work` runs, in seconds; engines without any are left out.
std::map<std::string, double> charged_by(const std::function<void()>& work) {
  const auto read = [] {
    std::map<std::string, double> seconds;
    for (const DeviceCount& count : device_counts()) {
      if (count.name.starts_with("simulated.")) seconds[count.name.substr(10)] = count.value;
    }
    return seconds;
  };
  const auto before = read();
  work();
  std::map<std::string, double> charged;
  for (const auto& [engine, seconds] : read()) {
    if (seconds != before.at(engine)) charged[engine] = seconds - before.at(engine);
  }
  return charged;
}

bool near(double value, double expected) { return value == doctest::Approx(expected).epsilon(1e-6).scale(0); }

Tensor input(at::Device device) {
  return at::empty({128, kColumns}, at::TensorOptions(at::kFloat).device(device)).zero_();
}

double hbm_rate() {
  const Tensor x = input(neuron());
  Tensor to = input(neuron());
  return 2 * kBytes / charged_by([&] { to.copy_(x); }).at("hbm_s");
}

void load() {
  static const bool loaded = [] {
    register_recorded_operators("kernel_work_test");
    return true;
  }();
  CHECK(loaded);
}

/// A kernel shared by two cores takes half as long, and moves as many bytes.
void check_kernels(const std::map<std::string, double>& charged, double kernels, double cores) {
  CHECK(charged.size() == 3);
  CHECK(near(charged.at("vector_s"), kernels * kVector / cores));
  CHECK(near(charged.at("scalar_s"), kernels * kScalar / cores));
  CHECK(near(charged.at("hbm_s"), kernels * 2 * kBytes / hbm_rate()));
}

TEST_CASE("an operator of a kernel is charged the kernel's engines and bytes, at every call") {
  const Tensor x = input(neuron());
  load();
  for (int call = 0; call < 2; ++call) check_kernels(charged_by([&] { with_kernel(x); }), 1, 2);
}

TEST_CASE("a backward is charged each of its kernels") {
  load();
  const Tensor x = input(neuron()).requires_grad_();
  const Tensor y = with_kernel(x), grad = input(neuron());
  // The gradient that arrives is stored without work.
  check_kernels(charged_by([&] { backward(y, grad); }), 2, 1);
  CHECK(x.grad().defined());
}

TEST_CASE("an operator without a kernel is charged by its shapes") {
  const Tensor x = input(neuron());
  load();
  const auto charged = charged_by([&] { without_kernel(x); });
  CHECK(near(charged.at("hbm_s"), 2 * kBytes / hbm_rate()));
  CHECK_FALSE(charged.contains("scalar_s"));
}

TEST_CASE("a kernel called by itself is work of the device on its tensors, and not on the host's") {
  const Tensor x = input(neuron()), host = input(at::kCPU);
  check_kernels(charged_by([&] { wrapped[1](x); }), 1, 1);
  CHECK(charged_by([&] { wrapped[1](host); }).empty());
}

}  // namespace
}  // namespace titan
