#pragma once

#include <cstdint>
#include <set>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "titan/nki/tensor.h"

namespace titan::nki {

/// Elements of `item` bytes from an address of the host on, in `loops` of {count, bytes apart}.
struct HostPattern {
  int64_t begin = 0, item = 1;
  std::vector<std::pair<int64_t, int64_t>> loops;
  auto operator<=>(const HostPattern&) const = default;
};

/// What one of two cores has read and written of shared HBM since they last met.
class SharedAccesses {
 public:
  /// What reads or writes a tensor of shared HBM, for messages.
  struct Act {
    std::string_view name;
    std::source_location where;
    bool writes;
  };
  void note(const Act& act, const Tensor& tensor, HostPattern pattern);
  void clear() { places_.clear(); }

  /// "memory.race" where one core wrote what the other one read or wrote; exact to the byte.
  static void check_apart(const SharedAccesses& of_core_0, const SharedAccesses& of_core_1);

 private:
  /// All that a line does with a tensor.
  struct Place {
    Act act;
    const Allocation* allocation;
    std::string tensor;
    int64_t begin, end;  ///< around all patterns
    std::set<HostPattern> patterns = {};
  };
  static void check_apart(const Place& a, const Place& b);
  Place& place_of(const Act& act, const Tensor& tensor);

  std::vector<Place> places_;
};

}  // namespace titan::nki
