// With TITAN_TEST_DEVICE=neuron a test program runs on the emulated `neuron` device: what tests make without
// naming a device is made there. cmake/tests.cmake enters such runs beside those on the CPU.

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/ops/empty.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <execinfo.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string_view>

#include "titan/base/env.h"
#include "titan/base/error.h"
#include "titan/ops/device.h"

namespace titan {
namespace {

/// A key above all others that no kernel has: its fallback sees every call of an operator first.
constexpr c10::DispatchKey kKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

/// Whether the operator that is being called was called by the tests, not by the libraries under test, which
/// must say themselves where their tensors lie.
bool called_by_tests() {
  static const std::string_view program = [] {
    Dl_info own{};
    check(dladdr(reinterpret_cast<const void*>(&called_by_tests), &own) != 0, "the program has a name");
    return std::string_view(own.dli_fname);
  }();
  void* frames[64];
  const int depth = backtrace(frames, 64);
  bool past_torch = false;
  for (int i = 0; i < depth; ++i) {
    Dl_info info{};
    if (dladdr(frames[i], &info) == 0) continue;
    const std::string_view file = info.dli_fname, name = info.dli_sname ? info.dli_sname : "";
    const bool torch =
        file.find("/libtorch") != std::string_view::npos || file.find("/libc10") != std::string_view::npos;
    if (torch) past_torch = true;
    // Torch's inline functions are whoever's that came first.
    const bool inline_of_torch = name.starts_with("_ZN2at") || name.starts_with("_ZN3c10");
    if (past_torch && !torch && !inline_of_torch) return file == program;
  }
  return false;
}

/// Where the argument that names the device of an operator is, for operators that make tensors from none.
std::optional<size_t> device_argument(const c10::FunctionSchema& schema) {
  std::optional<size_t> found;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::TypePtr type = schema.arguments()[i].real_type();
    if (type->str().find("Tensor") != std::string::npos) return std::nullopt;
    if (type->str() == "Device?") found = i;
  }
  return found;
}

void choose_device(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  if (const auto index = device_argument(op.schema())) {
    c10::IValue& device = (*stack)[stack->size() - op.schema().arguments().size() + *index];
    if (device.isNone() && called_by_tests()) device = c10::Device(c10::DeviceType::PrivateUse1, 0);
  }
  const c10::impl::ExcludeDispatchKeyGuard below(kKey);
  op.callBoxed(stack);
}

class DefaultDevice final : public doctest::IReporter {
 public:
  explicit DefaultDevice(const doctest::ContextOptions&) {}

  void test_run_start() override {
    if (env("TITAN_TEST_DEVICE").value_or("cpu") != "neuron") return;
    take_neuron_device("emulator", 0, 0, 1);
    static torch::Library mode(torch::Library::IMPL, "_", kKey, __FILE__, __LINE__);
    mode.fallback(torch::CppFunction::makeFromBoxedFunction<&choose_device>());
    c10::impl::tls_set_dispatch_key_included(kKey, true);
    check(at::empty({1}).is_privateuseone(), "tests make their tensors on neuron");
    reset_peak_device_memory();
    allocated_ = device_count("allocation.all.allocated");
    on_neuron_ = true;
  }

  void test_run_end(const doctest::TestRunStats&) override {
    if (!on_neuron_ || device_count("allocation.all.allocated") > allocated_) return;
    std::cout << "no test made a tensor on neuron" << std::endl;
    std::_Exit(1);
  }

  void report_query(const doctest::QueryData&) override {}
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}

 private:
  bool on_neuron_ = false;
  double allocated_ = 0;
};

REGISTER_LISTENER("default_device", 1, DefaultDevice);

}  // namespace
}  // namespace titan
