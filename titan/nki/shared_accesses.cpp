#include "titan/nki/shared_accesses.h"

#include <algorithm>

#include "titan/base/strings.h"
#include "titan/nki/error.h"
#include "titan/nki/memory.h"

namespace titan::nki {
namespace {

using ByteRanges = std::vector<std::pair<int64_t, int64_t>>;  // [begin, end)

/// The bytes between a pattern's first and last.
std::pair<int64_t, int64_t> span_of(const HostPattern& pattern) {
  int64_t begin = pattern.begin, end = pattern.begin + pattern.item;
  for (const auto& [count, bytes] : pattern.loops) (bytes < 0 ? begin : end) += (count - 1) * bytes;
  return {begin, end};
}

void add_ranges(const HostPattern& pattern, size_t loop, int64_t begin, ByteRanges& ranges) {
  if (loop == pattern.loops.size()) return ranges.emplace_back(begin, begin + pattern.item), void();
  const auto& [count, bytes] = pattern.loops[loop];
  if (loop + 1 == pattern.loops.size() && bytes == pattern.item) {
    ranges.emplace_back(begin, begin + count * bytes);
    return;
  }
  for (int64_t i = 0; i < count; ++i) add_ranges(pattern, loop + 1, begin + i * bytes, ranges);
}

/// In order, those that touch or meet as one.
ByteRanges ranges_of(const std::set<HostPattern>& patterns) {
  ByteRanges all, merged;
  for (const HostPattern& pattern : patterns) add_ranges(pattern, 0, pattern.begin, all);
  std::ranges::sort(all);
  for (const auto& range : all) {
    if (!merged.empty() && range.first <= merged.back().second) {
      merged.back().second = std::max(merged.back().second, range.second);
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

}  // namespace

SharedAccesses::Place& SharedAccesses::place_of(const Act& act, const Tensor& tensor) {
  const Allocation* allocation = tensor.allocation().get();
  const auto found = std::find_if(places_.rbegin(), places_.rend(), [&](const Place& place) {
    return place.allocation == allocation && place.act.writes == act.writes &&
           place.act.where.line() == act.where.line() && place.act.name == act.name &&
           place.act.where.file_name() == act.where.file_name();
  });
  if (found != places_.rend()) return *found;
  return places_.emplace_back(Place{act, allocation, tensor.describe(), INT64_MAX, INT64_MIN});
}

void SharedAccesses::note(const Act& act, const Tensor& tensor, HostPattern pattern) {
  Place& place = place_of(act, tensor);
  const auto [begin, end] = span_of(pattern);
  place.begin = std::min(place.begin, begin);
  place.end = std::max(place.end, end);
  place.patterns.insert(std::move(pattern));
}

void SharedAccesses::check_apart(const Place& a, const Place& b) {
  if ((!a.act.writes && !b.act.writes) || a.end <= b.begin || b.end <= a.begin) return;
  const ByteRanges of_a = ranges_of(a.patterns), of_b = ranges_of(b.patterns);
  for (auto x = of_a.begin(), y = of_b.begin(); x != of_a.end() && y != of_b.end();) {
    const int64_t first = std::max(x->first, y->first);
    if (first < std::min(x->second, y->second)) {
      const auto text = [](int core, const Place& place) {
        return format("core {} {} {} in {} at {}:{}", core, place.act.writes ? "writes" : "reads",
                      place.tensor, place.act.name, place.act.where.file_name(), place.act.where.line());
      };
      throw KernelError(
          "memory.race",
          format("{}, and {}: byte {} of it is the same place, and nothing orders the two. Let each core "
                 "write a part of its own by nl::program_id(), put a core_barrier between them, or start "
                 "the kernel on one core",
                 text(0, a), text(1, b), first - reinterpret_cast<int64_t>(a.allocation->data)),
          a.act.where);
    }
    (x->second < y->second ? x : y)++;
  }
}

void SharedAccesses::check_apart(const SharedAccesses& of_core_0, const SharedAccesses& of_core_1) {
  for (const Place& a : of_core_0.places_)
    for (const Place& b : of_core_1.places_) check_apart(a, b);
}

}  // namespace titan::nki
