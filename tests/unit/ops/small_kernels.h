#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "titan/nki.h"
#include "titan/ops/wrap_nki.h"

// Kernels of a few instructions over HBM [P, F], P <= 128.
namespace titan::testing {

namespace nl = nki::language;
namespace nisa = nki::isa;

struct ScaleOptions {
  double factor = 1;
  std::optional<nki::Tensor> by = {};  ///< as x: multiplied in
};

inline nki::Tensor loaded(const nki::Tensor& x) {
  const nki::Tensor tile = nl::ndarray(x.shape(), x.dtype(), nl::sbuf);
  nisa::dma_copy(tile, x);
  return tile;
}

/// out = x * factor * by; each core does its share of the columns. Returns out.
inline nki::Tensor scale_into(nki::Tensor x, nki::Tensor out, ScaleOptions options) {
  const int64_t share = x.size(1) / nl::num_programs();
  const nki::Slice columns = nki::ds(nl::program_id() * share, share);
  const nki::Tensor tile = loaded(x(nki::all, columns));
  nisa::tensor_scalar(tile, tile, nl::multiply, options.factor);
  if (options.by) nisa::tensor_tensor(tile, tile, loaded((*options.by)(nki::all, columns)), nl::multiply);
  nisa::dma_copy(out(nki::all, columns), tile);
  return out;
}

/// The same into HBM of the kernel's own.
inline nki::Tensor scaled(nki::Tensor x, ScaleOptions options) {
  return scale_into(x, nl::ndarray(x.shape(), x.dtype(), nl::shared_hbm), options);
}

inline const auto wrapped = wrap_nki(scaled);
inline const auto wrapped_into = wrap_nki(scale_into);

/// What a function throws, or "".
inline std::string error_of(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

inline bool mentions(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    if (text.find(part) == std::string::npos) {
      MESSAGE("'" << part << "' is not in: " << text);
      return false;
    }
  }
  return true;
}

}  // namespace titan::testing
