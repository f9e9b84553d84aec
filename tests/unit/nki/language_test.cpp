#include "titan/nki/language.h"

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/unit/nki/kernel_error.h"
#include "titan/nki/core.h"
#include "titan/nki/memory.h"
#include "titan/nki/rows.h"

using namespace titan::nki;
namespace nl = titan::nki::language;

namespace {

std::vector<float> language_row(const Tensor& tile, int64_t partition) {
  const Rows rows(tile);
  std::vector<float> row(static_cast<size_t>(rows.count()));
  rows.read(partition, row.data());
  return row;
}

struct NdarrayCase {
  std::vector<int64_t> shape;
  Dtype dtype;
  std::string name;
};

std::string rule_in_kernel(const std::function<void()>& body) {
  return broken_rule([&] { run_on_cores({}, body); });
}

}  // namespace

TEST_CASE("ndarray takes memory of the core that runs the kernel") {
  const KernelRun run = run_on_cores({}, [] {
    const Tensor a = nl::ndarray({128, 512}, nl::bfloat16, nl::sbuf);
    const Tensor b = nl::ndarray({64, 256}, nl::float32, {.buffer = nl::psum, .name = "acc"});
    CHECK(a.allocation()->memory == &current_core().sbuf());
    CHECK(b.allocation()->memory == &current_core().psum());
    CHECK(b.describe() == "acc psum[64, 256] float32");
    CHECK(nl::ndarray({7}, nl::int32, nl::private_hbm).buffer() == Buffer::private_hbm);
    CHECK(nl::ndarray({7}, nl::int32, nl::shared_hbm).buffer() == Buffer::shared_hbm);
    const Tensor placed = nl::ndarray({4, 8}, nl::float32, {.address = nl::Address{32, 4096}});
    CHECK(placed.allocation()->first_partition == 32);
    CHECK(placed.allocation()->byte_offset == 4096);
  });
  CHECK(run.cores[0].peak_sbuf_bytes == 1024 + 32);
  CHECK(run.cores[0].peak_psum_bytes == 1024);
}

TEST_CASE("a wrong ndarray names its rule and the kernel's line") {
  CHECK(rule_in_kernel([] { nl::ndarray({129, 8}, nl::float32); }) == "ndarray.partitions");
  CHECK(rule_in_kernel([] { nl::ndarray({128}, nl::float32); }) == "ndarray.rank");
  CHECK(rule_in_kernel([] { nl::ndarray({128, 49153}, nl::float32); }) == "memory.sbuf-full");
  CHECK(rule_in_kernel([] { nl::ndarray({1, 4097}, nl::float32, nl::psum); }) == "memory.psum-full");
  CHECK(rule_in_kernel([] { nl::ndarray({2, 2}, nl::float32, {.address = nl::Address{127, 0}}); }) ==
        "memory.address");
  CHECK(rule_in_kernel([] { nl::ndarray({2, 2}, nl::float32, {.address = nl::Address{0, 2}}); }) ==
        "memory.address-alignment");
  CHECK(rule_in_kernel([] {
          nl::ndarray({2, 2}, nl::float32, {.buffer = nl::hbm, .address = nl::Address{0, 0}});
        }) == "ndarray.hbm-address");
  CHECK_FALSE(broken_rule([] { nl::ndarray({2, 2}, nl::float32); }).empty());  // outside of a kernel
  std::string text;
  int line = 0;
  try {
    run_on_cores({}, [&] {
      line = __LINE__ + 1;
      nl::ndarray({129, 8}, nl::float32, {.name = "big"});
    });
  } catch (const KernelError& error) {
    text = error.what();
  }
  CAPTURE(text);
  CHECK(text.find("language_test.cpp:" + std::to_string(line) + ": ") != std::string::npos);
  CHECK(text.find("ndarray big of shape [129, 8] in sbuf") != std::string::npos);
  const std::vector<std::function<void()>> nameless = {
      [] { nl::ndarray({129, 8}, nl::float32); },
      [] { nl::ndarray({128}, nl::float32); },
      [] { nl::ndarray({1, 0}, nl::float32); },
      [] { nl::ndarray({1, INT64_MAX}, nl::float32); },
      [] { nl::ndarray({2, 2}, nl::float32, {.address = nl::Address{0, 2}}); },
      [] { nl::ndarray({2, 2}, nl::float32, {.buffer = nl::hbm, .address = nl::Address{0, 0}}); },
  };
  for (const auto& make : nameless) {
    try {
      run_on_cores({}, make);
      FAIL("it is refused");
    } catch (const KernelError& error) {
      CHECK(error.text.starts_with("ndarray "));
      CHECK(error.text.find("  ") == std::string::npos);
    }
  }
}

TEST_CASE("when only shapes are wanted no data is there") {
  run_on_cores({.mode = RunMode::shapes}, [] {
    CHECK(nl::ndarray({4, 4}, nl::float32).allocation()->without_data);
    CHECK(nl::ndarray({int64_t{1} << 30}, nl::float32, nl::private_hbm).allocation()->data == nullptr);
    CHECK(nl::shared_identity_matrix(128).shape() == std::vector<int64_t>{128, 128});
    CHECK(nl::shared_constant({2}, nl::float32, {1, 2}).numel() == 2);
  });
}

TEST_CASE("the program's place on one core and on two") {
  run_on_cores({}, [] {
    CHECK(nl::program_id() == 0);
    CHECK(nl::num_programs() == 1);
    CHECK(nl::program_ndim() == 0);
  });
  int64_t ids[2] = {-1, -1};
  run_on_cores({.lnc = 2}, [&] {
    const int64_t id = nl::program_id();
    ids[id] = id + 10 * nl::num_programs() + 100 * nl::program_ndim();
  });
  CHECK(ids[0] == 120);
  CHECK(ids[1] == 121);
  const std::string at = "language_test.cpp:" + std::to_string(__LINE__ + 2) + ": ";
  for (const bool asks_id : {true, false}) {
    const auto ask = [&] { asks_id ? nl::program_id(1) : nl::num_programs(-1); };
    try {
      run_on_cores({}, ask);
      FAIL("it is refused");
    } catch (const KernelError& error) {
      CHECK(error.rule == "language.axis");
      CHECK(std::string(error.what()).find(at) != std::string::npos);
    }
  }
}

TEST_CASE("the n-th shared tensor of two cores is one, private ones are each core's own") {
  Tensor shared[2][2], own[2];
  run_on_cores({.lnc = 2}, [&] {
    const int64_t id = nl::program_id();
    for (Tensor& tensor : shared[id]) tensor = nl::ndarray({8, 4}, nl::float32, nl::shared_hbm);
    own[id] = nl::ndarray({8, 4}, nl::float32, nl::private_hbm);
  });
  CHECK(shared[0][0].allocation() == shared[1][0].allocation());
  CHECK(shared[0][1].allocation() == shared[1][1].allocation());
  CHECK(shared[0][0].allocation() != shared[0][1].allocation());
  CHECK(own[0].allocation() != own[1].allocation());
  const auto differ = [](NdarrayCase mine) {
    return broken_rule([&] {
      run_on_cores({.lnc = 2}, [&] {
        const bool first = nl::program_id() == 0;
        nl::ndarray(first ? mine.shape : std::vector<int64_t>{8, 4}, first ? mine.dtype : Dtype::float32,
                    {.buffer = nl::shared_hbm, .name = first ? mine.name : "out"});
      });
    });
  };
  CHECK(differ({{8, 4}, Dtype::float32, "out"}).empty());
  CHECK(differ({{8, 5}, Dtype::float32, "out"}) == "lnc.shared-hbm-mismatch");
  CHECK(differ({{8, 4}, Dtype::int32, "out"}) == "lnc.shared-hbm-mismatch");
  CHECK(differ({{8, 4}, Dtype::float32, "in"}) == "lnc.shared-hbm-mismatch");
}

TEST_CASE("constants and the identity hold their values") {
  run_on_cores({}, [] {
    const Tensor constant = nl::shared_constant({2, 2}, nl::bfloat16, {1, 2, 3, 4.01F});
    float values[4];
    to_float(constant.allocation()->data, nl::bfloat16, values, 4);
    CHECK(values[3] == 4);
    CHECK(constant.allocation()->written->covers(0, 8));
    const Tensor identity = nl::shared_identity_matrix(3);
    CHECK(identity.dtype() == Dtype::uint8);
    CHECK(language_row(identity, 0) == std::vector<float>{1, 0, 0});
    CHECK(language_row(identity, 2) == std::vector<float>{0, 0, 1});
  });
  CHECK(rule_in_kernel([] { nl::shared_constant({3}, nl::float32, {1, 2}); }) == "language.constant");
  CHECK(rule_in_kernel([] { nl::shared_identity_matrix(129); }) == "ndarray.partitions");
}

TEST_CASE("loops count from the lower to below the upper bound") {
  run_on_cores({}, [] {
    std::vector<int64_t> seen;
    nl::fori_loop(2, 9, [&](const Register& i) { seen.push_back(i.value()); }, 3);
    CHECK(seen == std::vector<int64_t>{2, 5, 8});
    Register upper(2);
    seen.clear();
    nl::fori_loop(Register(0), upper, [&](const Register& i) {
      upper.set(100);  // the bounds were read before
      seen.push_back(i.value());
    });
    CHECK(seen == std::vector<int64_t>{0, 1});
    nl::fori_loop(5, 5, [](const Register&) { FAIL("no turn"); });
    nl::fori_loop(0, INT64_MAX, [&](const Register& i) { seen.push_back(i.value()); }, INT64_MAX - 1);
    CHECK(seen.back() == INT64_MAX - 1);
    seen.clear();
    nl::fori_loop(
        INT64_MIN, INT64_MAX, [&](const Register& i) { seen.push_back(i.value()); }, int64_t{1} << 62);
    CHECK(seen == std::vector<int64_t>{INT64_MIN, INT64_MIN / 2, 0, INT64_MAX / 2 + 1});
    CHECK(broken_rule([] { nl::fori_loop(0, 1, [](const Register&) {}, 0); }) == "language.loop-step");
    try {
      nl::fori_loop(Register(0), Register(1), [](const Register&) {}, -1);
      FAIL("it is refused");
    } catch (const KernelError& error) {
      CHECK(std::string(error.what()).find("language_test.cpp:" + std::to_string(__LINE__ - 3)) !=
            std::string::npos);
    }
  });
  CHECK(broken_rule([] { nl::fori_loop(0, 1, [](const Register&) {}); }) == "kernel.outside");
  int64_t sum = 0;
  for (int64_t i : nl::affine_range(4)) sum += i;
  CHECK(sum == 6);
}

TEST_CASE("device_print is an instruction with its label and its line") {
  const KernelRun run = run_on_cores({.mode = RunMode::shapes, .record = true}, [] {
    nl::device_print("scores", nl::ndarray({2, 2}, nl::float32, {.name = "s"}));
  });
  REQUIRE(run.cores[0].instructions.size() == 1);
  const Instruction& print = run.cores[0].instructions[0];
  CHECK(std::get<DevicePrint>(print.attributes).label == "scores");
  CHECK(print.where.line() == __LINE__ - 5);
}
