#include "titan/ops/wrap_nki.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <cstdlib>

#include "tests/unit/ops/outcome.h"
#include "tests/unit/ops/small_kernels.h"
#include "tests/unit/test_device.h"
#include "titan/base/env.h"
#include "titan/base/error.h"
#include "titan/nki/error.h"
#include "titan/ops/autograd.h"
#include "titan/ops/recorded_operators.h"

namespace titan::testing {
namespace {

using at::Tensor;

nki::Tensor left_half(nki::Tensor x) { return x(nki::all, nki::ds(0, x.size(1) / 2)); }
void only_writes(nki::Tensor x, nki::Tensor out) { nisa::dma_copy(out, loaded(x)); }
void writes_and_fails(nki::Tensor x, nki::Tensor out) {
  only_writes(x, out);
  throw ValueError("after the write");
}
void stores_a_register(nki::Tensor number) { nisa::register_store(number, nki::Register(7)); }
std::pair<nki::Tensor, std::vector<nki::Tensor>> several(nki::Tensor x, nki::Tensor out) {
  return {scale_into(x, out, {.factor = 2}), {scaled(x, {.factor = 3}), scaled(x, {.factor = 4})}};
}
struct OptionalFactor {
  std::optional<double> factor = {};
};
nki::Tensor scaled_by_optional(nki::Tensor x, OptionalFactor options) {
  return scaled(x, {.factor = options.factor.value_or(3)});
}
nki::Tensor transposed(nki::Tensor x) { return scaled(x, {.factor = 2}).permute({1, 0}); }
nki::Tensor refusing(nki::Tensor x) {
  if (x.size(1) % 128 != 0) throw ValueError("columns are {}, and must be a multiple of 128", x.size(1));
  return scaled(x, {});
}
nki::Tensor too_many_partitions(nki::Tensor x) {
  const nki::Tensor tile = nl::ndarray({129, 2}, x.dtype(), nl::sbuf);
  nisa::memset(tile, 0);
  return scaled(x, {});
}

TEST_CASE("A result that is an argument is the very tensor that was given") {
  for (const int64_t lnc : {1, 2}) {
    const Tensor x = normal({128, 8}, 1), out = at::empty_like(x);
    const Tensor result = wrapped_into[lnc](x, out, {.factor = 2});
    CHECK(result.is_same(out));
    CHECK(out.equal(x * 2));
  }
}

TEST_CASE("A result of the kernel's own is a tensor on the arguments' device, and outlives the call") {
  const Tensor x = normal({16, 6}, 2);
  const Tensor result = wrapped[2](x, {.factor = 3});
  CHECK((result.device() == x.device()));
  CHECK((result.scalar_type() == at::kFloat));
  CHECK(result.equal(x * 3));
  CHECK(wrap_nki(transposed)[1](x).equal((x * 2).t()));
}

TEST_CASE("Tensors in an options struct convert like arguments") {
  const Tensor x = normal({128, 4}, 3), by = normal({128, 4}, 4);
  CHECK(wrapped[1](x, {.factor = 2, .by = by}).equal(x * 2 * by));
}

TEST_CASE("Options may hold optional numbers") {
  const Tensor x = normal({128, 4}, 3);
  CHECK(wrap_nki(scaled_by_optional)[1](x, {}).equal(x * 3));
  CHECK(wrap_nki(scaled_by_optional)[1](x, {.factor = 2}).equal(x * 2));
}

TEST_CASE("Nothing, pairs and vectors come back as what they are") {
  const Tensor x = normal({32, 4}, 5), out = at::empty_like(x);
  static_assert(std::is_void_v<decltype(wrap_nki(only_writes)[1](x, out))>);
  wrap_nki(only_writes)[1](x, out);
  CHECK(out.equal(x));
  const auto [first, rest] = wrap_nki(several)[1](x, out);
  CHECK(first.is_same(out));
  REQUIRE(rest.size() == 2);
  CHECK(first.equal(x * 2));
  CHECK(rest[1].equal(x * 4));
}

TEST_CASE("A part of an argument comes back as a view of it") {
  const Tensor x = normal({32, 4}, 6);
  const Tensor half = wrap_nki(left_half)[1](x);
  CHECK(half.equal(x.narrow(1, 0, 2)));
  CHECK((half.storage().unsafeGetStorageImpl() == x.storage().unsafeGetStorageImpl()));
}

TEST_CASE("Writing an argument is noticed by those who saved it, also where it is not returned") {
  const auto meta = at::TensorOptions().device(at::kMeta);
  for (const Tensor& x : {normal({32, 4}, 7), at::empty({32, 4}, meta)}) {
    const Tensor out = at::empty_like(x);
    const auto before = out._version();
    wrapped_into[2](x, out, {});
    const auto between = out._version();
    CHECK(between > before);
    wrap_nki(only_writes)[1](x, out);
    CHECK(out._version() > between);
    CHECK(x._version() == 0);
  }
}

TEST_CASE("A kernel that fails has written what it wrote, and so has one that stores a register") {
  const Tensor x = normal({32, 4}, 7), out = at::empty_like(x);
  CHECK_THROWS_AS(wrap_nki(writes_and_fails)[1](x, out), ValueError);
  CHECK(out._version() == 1);
  const Tensor number = integers({1}, 8, 9, at::kInt);
  const auto before = number._version();
  wrap_nki(stores_a_register)[1](number);
  CHECK(number.item<int>() == 7);
  CHECK(number._version() > before);
}

TEST_CASE("A returned argument that was only read keeps its version") {
  const Tensor x = normal({32, 4}, 6);
  CHECK(wrap_nki(left_half)[1](x)._version() == 0);
  CHECK(x._version() == 0);
}

TEST_CASE("On Meta tensors shapes come out, and the instructions are checked") {
  const auto meta = at::TensorOptions().device(at::kMeta);
  const Tensor x = at::empty({128, 256}, meta.dtype(at::kBFloat16));
  const Tensor result = wrapped[2](x, {.factor = 2});
  CHECK(result.is_meta());
  CHECK((result.scalar_type() == at::kBFloat16));
  CHECK((result.sizes() == x.sizes()));
  CHECK(wrapped_into[2](x, result, {}).is_same(result));
  CHECK(mentions(error_of([&] { wrap_nki(refusing)[1](at::empty({128, 130}, meta)); }), {"columns are 130"}));
  CHECK_THROWS_AS(wrap_nki(too_many_partitions)[1](x), nki::KernelError);
}

TEST_CASE("Tensors of two devices are refused, in options too") {
  const Tensor x = normal({128, 4}, 8), shape = at::empty({128, 4}, at::TensorOptions().device(at::kMeta));
  CHECK(mentions(error_of([&] { wrapped_into[1](x, shape, {}); }), {"meta", ".to()"}));
  CHECK(mentions(error_of([&] { wrapped[1](x, {.by = shape}); }), {"meta", ".to()"}));
}

TEST_CASE("A tensor that is not contiguous is refused") {
  const Tensor x = normal({4, 128}, 9).t();
  CHECK(mentions(error_of([&] { wrapped[1](x, {}); }),
                 {"not contiguous", "[128, 4]", "[1, 128]", ".contiguous()"}));
  CHECK(wrapped[1](x.contiguous(), {}).equal(x));
}

TEST_CASE("Dtypes that NKI has convert, bool as uint8; others are refused") {
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const Tensor x = normal({8, 4}, 10, dtype), result = wrapped[1](x, {.factor = 2});
    CHECK((result.scalar_type() == dtype));
    CHECK(result.equal(x * 2));
  }
  for (const auto dtype : {at::kInt, at::kShort, at::kChar, at::kByte}) {
    const Tensor x = integers({8, 4}, 11, 100, dtype), out = at::empty_like(x);
    wrap_nki(only_writes)[1](x, out);
    CHECK(out.equal(x));
  }
  const Tensor flags = integers({8, 4}, 12, 2, at::kBool), bytes = at::empty_like(flags, at::kByte);
  wrap_nki(only_writes)[1](flags, bytes);
  CHECK(bytes.equal(flags.to(at::kByte)));
  CHECK(mentions(error_of([&] { wrapped[1](integers({8, 4}, 13, 9), {}); }), {"Long", "[8, 4]", ".to()"}));
}

TEST_CASE("A kernel starts on one or two cores, and not inside of another") {
  const Tensor x = normal({8, 4}, 14);
  for (const int64_t lnc : {-1, 0, 3}) {
    const std::string message = error_of([&] { wrapped[lnc](x, {}); });
    CHECK(mentions(message, {"[" + std::to_string(lnc) + "]", "1 or 2"}));
  }
  CHECK(error_of([&] {
          nki::simulate(+[] { detail::kernel_run_options(1, at::kCPU); })[1]();
        }).find("inside of a kernel") != std::string::npos);
}

TEST_CASE("Where gradients are recorded a kernel refuses a tensor that requires one") {
  const Tensor x = normal({8, 4}, 15).requires_grad_();
  CHECK(mentions(error_of([&] { wrapped[1](x, {}); }), {"requires a gradient", "nki_op", "NoGrad"}));
  const NoGrad guard;
  CHECK(wrapped[1](x, {.factor = 2}).equal(x * 2));
}

TEST_CASE("The number of logical cores is a text, and a wrong variable is reported after the load") {
  const char* variable = "NEURON_LOGICAL_NC_CONFIG";
  const auto before = env(variable);
  unsetenv(variable);
  CHECK(get_logical_neuron_cores() == "2");
  setenv(variable, "1", 1);
  CHECK(get_logical_neuron_cores() == "1");
  CHECK_NOTHROW(register_recorded_operators("module"));
  setenv(variable, "three", 1);
  CHECK(get_logical_neuron_cores() == "2");
  const std::string message = error_of([] { register_recorded_operators("my_module.cpp"); });
  CHECK(mentions(message, {"my_module.cpp", variable, "1 or 2", "three"}));
  CHECK_NOTHROW(register_recorded_operators("module"));
  before ? setenv(variable, before->c_str(), 1) : unsetenv(variable);
}

}  // namespace
}  // namespace titan::testing
