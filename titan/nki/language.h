#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <ranges>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "titan/nki/core.h"
#include "titan/nki/operation.h"
#include "titan/nki/register.h"
#include "titan/nki/tensor.h"

/// nki.language: tensors, the program's place, sizes of tiles, names of operations.
namespace titan::nki::language {

using enum Operation;
using enum Dtype;

inline constexpr Buffer sbuf = Buffer::sbuf, psum = Buffer::psum, hbm = Buffer::private_hbm,
                        private_hbm = Buffer::private_hbm, shared_hbm = Buffer::shared_hbm;

/// Where an explicit tensor begins: partition, and byte within it. Tensors at one address share bytes.
struct Address {
  int64_t partition = 0, byte = 0;
};

struct NdarrayOptions {
  Buffer buffer = Buffer::sbuf;
  std::string name = {};
  std::optional<Address> address = {};
};

/// A tensor that was never written. On chip dimension 0 is the partitions and there is another one; without
/// an address it takes the lowest free bytes, until the last view of it is gone. In shared_hbm the n-th
/// tensor of each core is the same one.
Tensor ndarray(std::vector<int64_t> shape, Dtype dtype, NdarrayOptions options = {},
               const std::source_location& where = std::source_location::current());
inline Tensor ndarray(std::vector<int64_t> shape, Dtype dtype, Buffer buffer,
                      const std::source_location& where = std::source_location::current()) {
  return ndarray(std::move(shape), dtype, NdarrayOptions{.buffer = buffer}, where);
}

/// Values known when the kernel is written, in HBM.
Tensor shared_constant(std::vector<int64_t> shape, Dtype dtype, const std::vector<float>& values,
                       const std::source_location& where = std::source_location::current());
/// The identity of n x n (n <= 128) in SBUF.
Tensor shared_identity_matrix(int64_t n, Dtype dtype = Dtype::uint8,
                              const std::source_location& where = std::source_location::current());

/// This core's number among those that run the kernel, and how many there are. A grid has one axis.
int64_t program_id(int64_t axis = 0, const std::source_location& where = std::source_location::current());
int64_t num_programs(int64_t axis = 0, const std::source_location& where = std::source_location::current());
/// 1 where two cores run the kernel, else 0.
int64_t program_ndim();

struct TileSize {
  static constexpr int64_t pmax = 128;
  static constexpr int64_t psum_fmax = 512, psum_bank_fmax = 512, psum_bank_fmax_bytes = 2048;
  static constexpr int64_t psum_num_banks = 8;
  static constexpr int64_t gemm_stationary_fmax = 128, gemm_moving_fmax = 512;
  static constexpr int64_t bn_stats_fmax = 512;
};
inline constexpr TileSize tile_size;

/// 0 .. n - 1. The three say how the compiler may treat the loop; here they are one.
inline auto affine_range(int64_t n) { return std::views::iota(int64_t{0}, n); }
inline auto sequential_range(int64_t n) { return affine_range(n); }
inline auto static_range(int64_t n) { return affine_range(n); }

/// `body(i)` for i = lower, lower + step ... < upper, where the bounds may be registers of the core; they are
/// read once.
void fori_loop(const Register& lower, const Register& upper, const std::function<void(const Register&)>& body,
               int64_t step = 1, const std::source_location& where = std::source_location::current());
void fori_loop(int64_t lower, int64_t upper, const std::function<void(const Register&)>& body,
               int64_t step = 1, const std::source_location& where = std::source_location::current());

/// Prints "label [core 0]: ..." with the tensor's numbers to stderr when it is carried out.
void device_print(std::string label, Tensor tensor,
                  const std::source_location& where = std::source_location::current());

}  // namespace titan::nki::language
