#include "titan/nki/shared_accesses.h"

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/nki/kernel_error.h"
#include "titan/nki.h"
#include "titan/nki/memory.h"

using namespace titan::nki;
namespace nl = titan::nki::language;
namespace nisa = titan::nki::isa;

namespace {

/// What the cores do with HBM [128, 8] of the host, which both see.
using Act = std::function<void(const Tensor& x, int64_t core)>;

std::string error_of(const Act& act) {
  const auto values = std::make_shared<std::vector<float>>(128 * 8, 1.0F);
  const Tensor x = host_tensor("x", {128, 8}, Dtype::float32, values->data(), values);
  try {
    run_on_cores({.lnc = 2}, [&] { act(x, nl::program_id()); });
  } catch (const KernelError& error) {
    return error.what();
  }
  return "";
}

Tensor ones(std::vector<int64_t> shape, Dtype dtype = Dtype::float32) {
  const Tensor tile = nl::ndarray(std::move(shape), dtype);
  nisa::memset(tile, 1);
  return tile;
}

void write(const Tensor& x) { nisa::dma_copy(x, ones(x.shape())); }
void read(const Tensor& x) { nisa::dma_copy(nl::ndarray(x.shape(), x.dtype()), x); }
/// Row 0 of x as a number.
Tensor number(const Tensor& x) { return x(ds(0, 1), ds(0, 1)).view(Dtype::int32); }

}  // namespace

TEST_CASE("cores that write, or read and write, one place with nothing between are stopped") {
  const std::vector<std::pair<std::string, Act>> races = {
      {"both write all", [](const Tensor& x, int64_t) { write(x); }},
      {"one writes, one reads", [](const Tensor& x, int64_t core) { core == 0 ? write(x) : read(x); }},
      {"one reads, one writes", [](const Tensor& x, int64_t core) { core == 0 ? read(x) : write(x); }},
      {"parts that overlap by a row", [](const Tensor& x, int64_t core) { write(x(ds(core * 63, 64))); }},
      {"columns that overlap by one", [](const Tensor& x, int64_t core) { write(x(all, ds(core * 3, 4))); }},
      {"every other column, and one of them",
       [](const Tensor& x, int64_t core) { write(core == 0 ? x(all, Slice{0, 8, 2}) : x(all, ds(4, 1))); }},
      {"other views of the same bytes",
       [](const Tensor& x, int64_t core) {
         core == 0 ? write(x(ds(5, 1))) : read(x.reshape({1024})(ds(40, 3)).reshape({1, 3}));
       }},
      {"rows by a vector of indices",
       [](const Tensor& x, int64_t core) {
         if (core == 1) return read(x(ds(1, 1)));
         const Tensor index = nl::ndarray({4, 1}, Dtype::int32);
         nisa::iota(index, {{0, 1}}, {.channel_multiplier = 1});
         nisa::dma_copy(x.ap({.pattern = {{8, 4}, {1, 8}}, .vector_offset = index}), ones({4, 8}));
       }},
      {"rows from where a register says",
       [](const Tensor& x, int64_t core) {
         const Register row(core == 0 ? 7 : 8);
         write(x.ap({.pattern = {{8, 2}, {1, 8}}, .scalar_offset = row}));
       }},
      {"registers",
       [](const Tensor& x, int64_t core) {
         Register to(3);
         core == 0 ? nisa::register_load(to, number(x)) : nisa::register_store(number(x), to);
       }},
      {"a sum", [](const Tensor& x, int64_t) { nisa::dma_compute(x, {x, ones({128, 8})}); }},
      {"a transpose",
       [](const Tensor& x, int64_t core) {
         const Tensor square = x(ds(0, 8));
         core == 0 ? nisa::dma_transpose(ones({8, 8}), square, {.axes = {1, 0}}) : write(x(all, ds(7, 1)));
       }},
      {"what is printed",
       [](const Tensor& x, int64_t core) { core == 0 ? nl::device_print("x", x(ds(0, 1))) : write(x); }},
      {"again after a barrier",
       [](const Tensor& x, int64_t core) {
         if (core == 0) write(x);
         nisa::core_barrier(x);
         core == 0 ? write(x) : read(x);
       }},
      {"in front of a barrier that comes too late",
       [](const Tensor& x, int64_t core) {
         core == 0 ? write(x) : read(x);
         nisa::core_barrier(x);
       }},
  };
  for (const auto& [name, act] : races) {
    CAPTURE(name);
    const std::string error = error_of(act);
    CAPTURE(error);
    CHECK(error.find("[memory.race]") != std::string::npos);
  }
}

TEST_CASE("cores that share their work, or meet, are let through") {
  const std::vector<std::pair<std::string, Act>> orders = {
      {"both read all", [](const Tensor& x, int64_t) { read(x); }},
      {"halves", [](const Tensor& x, int64_t core) { write(x(ds(core * 64, 64))); }},
      {"halves in place",
       [](const Tensor& x, int64_t core) {
         const Tensor mine = x(ds(core * 64, 64));
         read(mine);
         write(mine);
       }},
      {"every other row", [](const Tensor& x, int64_t core) { write(x(Slice{core, 128, 2})); }},
      {"every other column", [](const Tensor& x, int64_t core) { write(x(all, Slice{core, 8, 2})); }},
      {"every other two bytes",
       [](const Tensor& x, int64_t core) {
         const Tensor halves = x.view(Dtype::int16)(all, Slice{core, 16, 2});
         nisa::dma_copy(halves, ones({128, 8}, Dtype::int16));
       }},
      {"every other row by index",
       [](const Tensor& x, int64_t core) {
         const Tensor index = nl::ndarray({4, 1}, Dtype::int32);
         nisa::iota(index, {{0, 1}}, {.offset = core, .channel_multiplier = 2});
         nisa::dma_copy(x.ap({.pattern = {{8, 4}, {1, 8}}, .vector_offset = index}), ones({4, 8}));
       }},
      {"a barrier between",
       [](const Tensor& x, int64_t core) {
         if (core == 0) write(x);
         nisa::core_barrier(x);
         if (core == 1) read(x);
         nisa::core_barrier(x);
         if (core == 1) write(x);
       }},
      {"a sendrecv between",
       [](const Tensor& x, int64_t core) {
         if (core == 0) write(x);
         nisa::sendrecv(ones({1, 1}), nl::ndarray({1, 1}, Dtype::float32),
                        {.send_to_rank = 1 - core, .recv_from_rank = 1 - core});
         if (core == 1) read(x);
       }},
      {"HBM of their own",
       [](const Tensor&, int64_t) {
         const Tensor mine = nl::ndarray({128, 8}, Dtype::float32, nl::private_hbm);
         write(mine);
         read(mine);
       }},
  };
  for (const auto& [name, act] : orders) {
    CAPTURE(name);
    CHECK(error_of(act) == "");
  }
}

TEST_CASE("a race names both cores, what they do, their lines and the place") {
  const std::string error = error_of([](const Tensor& x, int64_t core) {
    if (core == 0) nisa::dma_copy(x(ds(64, 64)), ones({64, 8}));
    if (core == 1) read(x(ds(0, 65)));
  });
  CAPTURE(error);
  CHECK(error.find("core 0 writes x shared_hbm[64, 8] float32 in dma_copy at ") != std::string::npos);
  CHECK(error.find("core 1 reads x shared_hbm[65, 8] float32 in dma_copy at ") != std::string::npos);
  CHECK(error.find("byte 2048 of it") != std::string::npos);
  CHECK(error.find("shared_accesses_test.cpp:" + std::to_string(__LINE__ - 7)) != std::string::npos);
}

TEST_CASE("races of shapes alone are not looked for") {
  const Tensor x = host_tensor("x", {128, 8}, Dtype::float32, nullptr, nullptr);
  run_on_cores({.lnc = 2, .mode = RunMode::shapes}, [&] { write(x); });
}

TEST_CASE("a core that reads before the other one has written is told of the barrier") {
  const std::string error = error_of([](const Tensor& x, int64_t core) {
    const Tensor scratch = nl::ndarray({128, 8}, Dtype::float32, nl::shared_hbm);
    if (core == 0) read(scratch);
    nisa::core_barrier(x, {0, 1});
    if (core == 1) write(scratch);
  });
  CHECK(error.find("never written so far (if the other core writes it, put a core_barrier") != error.npos);
  CHECK(error.find("[memory.unwritten]") != error.npos);
}
