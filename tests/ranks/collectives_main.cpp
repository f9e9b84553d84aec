// One rank of a job: `collectives MODE [RANK]` with torchrun's environment; collectives_test.py starts them.

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <typeinfo>
#include <vector>

#include "titan/base/env.h"
#include "titan/base/error.h"
#include "titan/base/sha256.h"
#include "titan/distributed/world.h"
#include "titan/nn/placement.h"
#include "titan/ops/device.h"

namespace titan {
namespace {

/// The value that `rank` gives element `i`: sums of these depend on the order in which they are added.
double value_at(int64_t rank, int64_t i) {
  const auto mixed = static_cast<uint64_t>(i * 7919 + rank * 104729 + 1) * 0x9E3779B97F4A7C15ull;
  const double fraction = static_cast<double>(mixed >> 40) / static_cast<double>(1 << 24) - 0.5;
  return fraction * static_cast<double>(int64_t{1} << (mixed % 20));
}

/// Where the tensors lie: TEST_DEVICE=neuron is the emulated device.
at::Device device() {
  const ProvidedDevice* taken = taken_device();
  return taken ? taken->device : at::Device(at::kCPU);
}

at::Tensor zeros_of(const std::vector<int64_t>& shape, at::ScalarType dtype) {
  return at::zeros(shape, at::TensorOptions(dtype).device(device()));
}

at::Tensor tensor_of(int64_t rank, std::vector<int64_t> shape, at::ScalarType dtype) {
  at::Tensor values = at::empty(shape, at::kDouble);
  for (int64_t i = 0; i < values.numel(); ++i) values.data_ptr<double>()[i] = value_at(rank, i);
  return values.to(at::TensorOptions(dtype).device(device()));
}

at::Tensor wide(const at::Tensor& t) { return t.scalar_type() == at::kBFloat16 ? t.to(at::kFloat) : t; }

at::Tensor sum_in_order(int64_t ranks, const std::vector<int64_t>& shape, at::ScalarType dtype) {
  at::Tensor sum = wide(tensor_of(0, shape, dtype)).clone();
  for (int64_t r = 1; r < ranks; ++r) sum.add_(wide(tensor_of(r, shape, dtype)));
  return sum;
}

struct Case {
  std::vector<int64_t> shape;
  at::ScalarType from, to;
};

std::vector<Case> cases() {
  return {{{5, 3}, at::kFloat, at::kFloat},
          {{1}, at::kDouble, at::kDouble},
          {{64, 33}, at::kBFloat16, at::kFloat},
          {{7, 2}, at::kBFloat16, at::kBFloat16},
          {{0, 4}, at::kFloat, at::kFloat},
          {{130001, 5}, at::kFloat, at::kFloat},
          {{9}, at::kLong, at::kLong}};
}

/// Checks a group's collectives and gathers the bits of the results.
class Checks {
 public:
  explicit Checks(Group& group) : group_(group), size_(group.size()), me_(group.index()) {}

  std::string run() {
    all_gathers();
    reduce_scatters(false);
    reduce_scatters(true);
    all_reduces();
    broadcasts_and_gathers();
    order();
    group_.barrier();
    return sha256(bits_);
  }

 private:
  void expect(const at::Tensor& got, const at::Tensor& expected, const std::string& what) {
    const bool same =
        got.device() == device() && got.sizes() == expected.sizes() &&
        got.scalar_type() == expected.scalar_type() &&
        std::memcmp(got.contiguous().data_ptr(), expected.contiguous().data_ptr(), got.nbytes()) == 0;
    if (!same)
      throw ValueError("{} over group {} differs on member {} of {}", what, group_.name(), me_, size_);
  }

  void keep(const at::Tensor& t) { bits_.append(static_cast<const char*>(t.data_ptr()), t.nbytes()); }

  Range mine(int64_t rows) const { return chunk_of(rows, size_, me_); }

  at::Tensor my_rows(const at::Tensor& whole) const {
    const Range range = mine(whole.size(0));
    return whole.narrow(0, range.begin, range.count);
  }

  void all_gathers() {
    std::vector<at::Tensor> outs, ins, expected;
    for (const Case& c : cases()) {
      expected.push_back(tensor_of(99, c.shape, c.from));
      outs.push_back(zeros_of(c.shape, c.from));
      // Every other one is in place.
      const bool in_place = outs.size() % 2 == 0;
      if (in_place) my_rows(outs.back()).copy_(my_rows(expected.back()));
      ins.push_back(in_place ? my_rows(outs.back()) : my_rows(expected.back()).clone());
    }
    group_.all_gather(outs, ins).wait();
    for (size_t i = 0; i < outs.size(); ++i) expect(outs[i], expected[i], "all_gather");
    for (const at::Tensor& out : outs) keep(out);
  }

  void reduce_scatters(bool accumulate) {
    std::vector<at::Tensor> outs, ins, expected;
    for (const Case& c : cases()) {
      ins.push_back(tensor_of(me_, c.shape, c.from));
      outs.push_back(at::full(my_rows(ins.back()).sizes(), 3, ins.back().options().dtype(c.to)));
      const at::Tensor sum = my_rows(sum_in_order(size_, c.shape, c.from));
      expected.push_back(accumulate ? outs.back().clone().add_(sum) : sum.to(c.to));
    }
    group_.reduce_scatter(outs, ins, accumulate).wait();
    for (size_t i = 0; i < outs.size(); ++i) expect(outs[i], expected[i], "reduce_scatter");
  }

  void all_reduces() {
    for (const Case& c : cases()) {
      at::Tensor t = tensor_of(me_, c.shape, c.from);
      group_.all_reduce(t).wait();
      expect(t, sum_in_order(size_, c.shape, c.from).to(c.from), "all_reduce");
      keep(t);
      t = tensor_of(me_, c.shape, c.from);
      group_.all_reduce(t, ReduceOp::max).wait();
      at::Tensor greatest = tensor_of(0, c.shape, c.from);
      for (int64_t r = 1; r < size_; ++r) greatest = greatest.max(tensor_of(r, c.shape, c.from));
      expect(t, greatest, "all_reduce (max)");
    }
  }

  void broadcasts_and_gathers() {
    const int64_t root = size_ - 1;
    for (const Case& c : cases()) {
      at::Tensor t = tensor_of(me_, c.shape, c.from);
      group_.broadcast(t, root);
      expect(t, tensor_of(root, c.shape, c.from), "broadcast");
      const at::Tensor whole = tensor_of(98, c.shape, c.from);
      const at::Tensor out = me_ == root ? zeros_of(c.shape, c.from) : at::Tensor();
      group_.gather(out, my_rows(whole).clone(), whole.size(0), root);
      if (me_ == root) expect(out, whole, "gather");
    }
  }

  /// Collectives started before any is waited for, and waited for in another order.
  void order() {
    std::vector<at::Tensor> reduced;
    std::vector<Pending> pending;
    for (int64_t i = 0; i < 6; ++i) {
      const int64_t n = i % 2 == 0 ? 100'003 : 11;
      reduced.push_back(tensor_of(me_, {n + i}, at::kFloat));
      pending.push_back(group_.all_reduce(reduced.back()));
    }
    for (const size_t i : {3, 5, 0, 1, 4, 2}) {
      pending[i].wait();
      expect(reduced[i], sum_in_order(size_, {reduced[i].size(0)}, at::kFloat), "all_reduce (started early)");
    }
  }

  Group& group_;
  int64_t size_, me_;
  std::string bits_;
};

int64_t number(const char* name, int64_t otherwise) {
  const auto text = env(name);
  return text ? std::stoll(*text) : otherwise;
}

/// Calls the collective until someone does not come.
void repeat(Group& group, const std::string& collective) {
  const Range range = chunk_of(1 << 20, group.size(), group.index());
  const at::Tensor whole = at::zeros({1 << 20}), part = at::zeros({range.count});
  while (true) {
    if (collective == "all_gather") group.all_gather({whole}, {part}).wait();
    if (collective == "reduce_scatter") group.reduce_scatter({part}, {whole}).wait();
    if (collective == "all_reduce") group.all_reduce(at::zeros({8})).wait();
  }
}

int run(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const Launch launch = Launch::from_env();
  const std::chrono::milliseconds timeout(number("TEST_TIMEOUT_MS", 60'000));
  const ParallelDims dims = ParallelDims::resolve({.dp_replicate = number("TEST_REPLICATE", 1),
                                                   .dp_shard = -1,
                                                   .tp = number("TEST_TP", 1),
                                                   .world_size = launch.world_size});
  if (env("TEST_DEVICE") == "neuron") {
    take_neuron_device("emulator", launch.rank, launch.rank,
                       launch.world_size);  // all nodes are this machine
  }
  World world(launch, dims, timeout);
  if (mode == "meet") return 0;
  if (mode == "check") {
    for (const Axis axis : {Axis::all, Axis::fsdp, Axis::dp_replicate, Axis::tp}) {
      Group& group = world.group(axis);
      std::cout << axis_name(axis) << " " << group.name() << " " << typeid(group).name() << " "
                << (group.size() > 1 ? Checks(group).run() : "") << "\n";
    }
    return 0;
  }
  Group& group = world.group(Axis::all);
  group.barrier();
  world.set_timeout(std::chrono::milliseconds(number("TEST_COLLECTIVE_TIMEOUT_MS", 60'000)));
  std::cout << "ready" << std::endl;
  if (number("TEST_IDLE_RANK", -1) == launch.rank) {
    while (true) pause();
  }
  if (number("TEST_THROWING_RANK", -1) == launch.rank) throw ValueError("this rank fails by itself");
  repeat(group, mode);
  return 0;
}

}  // namespace
}  // namespace titan

int main(int argc, char** argv) {
  try {
    return titan::run(argc, argv);
  } catch (const titan::ConfigError& error) {
    std::cerr << error.what() << std::endl;
    return 2;
  } catch (const titan::ValueError& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
