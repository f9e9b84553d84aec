// 64-bit dtypes are torch's; the device would have 32 bits for them, and refuses what these do not hold.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "neuron_device.h"
#include "titan/base/error.h"

namespace titan {
namespace {

using at::Tensor;

Tensor to_device(const Tensor& host) { return host.to(neuron()); }

void check_refused(const Tensor& host, const char* dtype, const char* shape, const char* value) {
  const Tensor there = at::zeros(host.sizes(), host.options().device(neuron()));
  for (const char* part : {dtype, shape, value}) {
    CAPTURE(part);
    CHECK_THROWS_WITH_AS(to_device(host), doctest::Contains(part), ValueError);
    CHECK_THROWS_WITH_AS(there.copy_(host), doctest::Contains(part), ValueError);
  }
}

void check_passes(const Tensor& host) {
  const Tensor there = to_device(host);
  CHECK((there.scalar_type() == host.scalar_type()));
  CHECK(there.cpu().equal(host));
}

}  // namespace

TEST_CASE("int64 values outside int32 do not go to the device") {
  neuron();
  const int64_t largest = std::numeric_limits<int32_t>::max(), smallest = std::numeric_limits<int32_t>::min();
  check_passes(at::tensor({largest, smallest, int64_t{0}}, at::kLong));
  check_refused(at::tensor({int64_t{1}, largest + 1}, at::kLong).view({1, 2}), "int64", "[1, 2]",
                "2147483648");
  check_refused(at::tensor({smallest - 1}, at::kLong), "int64", "[1]", "-2147483649");
  check_refused(at::scalar_tensor(int64_t{1} << 40, at::kLong), "int64", "[]", "1099511627776");
  // A view counts by what it shows.
  check_passes(at::tensor({int64_t{7}, int64_t{1} << 40}, at::kLong).narrow(0, 0, 1));
  check_refused(at::tensor({int64_t{1} << 40}, at::kLong).expand({2, 3}), "int64", "[2, 3]", "1099511627776");
}

TEST_CASE("uint64 values outside uint32 do not go to the device") {
  neuron();
  const auto unsigned_of = [](int64_t value) { return at::tensor({value}, at::kLong).view(at::kUInt64); };
  CHECK(to_device(unsigned_of(4294967295)).view(at::kLong).item<int64_t>() == 4294967295);
  CHECK_THROWS_WITH_AS(to_device(unsigned_of(4294967296)), doctest::Contains("4294967296"), ValueError);
  CHECK_THROWS_WITH_AS(to_device(unsigned_of(-1)), doctest::Contains("18446744073709551615"), ValueError);
}

TEST_CASE("float64 values outside float32 do not go to the device; infinity and NaN do") {
  neuron();
  const double largest = std::numeric_limits<float>::max(),
               infinity = std::numeric_limits<double>::infinity();
  check_passes(at::tensor({largest, -largest, infinity, -infinity, 1e-300, 0.1}, at::kDouble));
  CHECK(to_device(at::tensor({std::nan("")}, at::kDouble)).isnan().all().item<bool>());
  check_refused(at::tensor({1.0, 1e39}, at::kDouble), "float64", "[2]", "1e+39");
  check_refused(at::tensor({-4e38}, at::kDouble), "float64", "[1]", "-4e+38");
  const Tensor complex = at::complex(at::zeros({2}, at::kDouble), at::full({2}, 1e300, at::kDouble));
  CHECK_THROWS_WITH_AS(to_device(complex), doctest::Contains("1e+300"), ValueError);
  CHECK_THROWS_WITH_AS(to_device(complex.conj()), doctest::Contains("complex64"), ValueError);
  CHECK(to_device(at::complex(at::ones({2}, at::kDouble), at::ones({2}, at::kDouble))).numel() == 2);
}

TEST_CASE("a copy that changes the dtype is judged by what arrives") {
  neuron();
  const auto options = at::TensorOptions(neuron());
  const Tensor large_floats = at::full({2}, 1e10, at::kFloat),
               large_numbers = at::full({2}, int64_t{1} << 40, at::kLong),
               huge = at::full({2}, 1e300, at::kDouble);
  // Into 64 bits on the device.
  const Tensor numbers = at::zeros({2}, options.dtype(at::kLong));
  CHECK_THROWS_WITH_AS(numbers.copy_(large_floats), doctest::Contains("10000000000"), ValueError);
  CHECK_THROWS_AS(large_floats.to(options.dtype(at::kLong)), ValueError);
  CHECK(numbers.sum().item<int64_t>() == 0);
  // Out of 64 bits on the host: the device gets what the host makes of them.
  CHECK(large_numbers.to(options.dtype(at::kFloat)).cpu().equal(large_numbers.to(at::kFloat)));
  CHECK(huge.to(options.dtype(at::kFloat)).isinf().all().item<bool>());
  CHECK(large_numbers.to(options.dtype(at::kDouble)).cpu().equal(large_numbers.to(at::kDouble)));
  CHECK(large_numbers.to(options.dtype(at::kInt)).cpu().equal(large_numbers.to(at::kInt)));
}

TEST_CASE("nothing is refused on the way to the host") {
  const auto options = at::TensorOptions(neuron());
  const Tensor numbers = at::full({2}, 3000000000, options.dtype(at::kLong)),
               floats = at::full({2}, 1e300, options.dtype(at::kDouble));
  CHECK(numbers.cpu().equal(at::full({2}, 3000000000, at::kLong)));
  CHECK(numbers.to(at::TensorOptions(at::kCPU).dtype(at::kDouble)).equal(at::full({2}, 3e9, at::kDouble)));
  CHECK(floats.cpu().equal(at::full({2}, 1e300, at::kDouble)));
  CHECK(floats.to(at::TensorOptions(at::kCPU).dtype(at::kFloat)).isinf().all().item<bool>());
  CHECK(at::zeros({2}, at::kLong).copy_(numbers)[1].item<int64_t>() == 3000000000);
  CHECK(numbers[0].item<int64_t>() == 3000000000);
}

TEST_CASE("dtypes that the device does not have are refused by name, and leave nothing on the books") {
  const auto options = at::TensorOptions(neuron());
  const int64_t before = allocated_bytes();
  for (const at::ScalarType dtype : {at::kFloat8_e4m3fn, at::kFloat8_e8m0fnu}) {
    const char* name = c10::toString(dtype);
    CHECK_THROWS_WITH_AS(at::empty({4}, options.dtype(dtype)), doctest::Contains(name), ValueError);
    CHECK_THROWS_WITH_AS(at::ones({4}).to(dtype).to(neuron()), doctest::Contains(name), ValueError);
    CHECK_THROWS_WITH_AS(at::ones({4}, options).to(dtype), doctest::Contains(name), ValueError);
  }
  CHECK(allocated_bytes() == before);
  CHECK(at::ones({4}, options).to(at::kFloat8_e5m2).element_size() == 1);
}

}  // namespace titan
