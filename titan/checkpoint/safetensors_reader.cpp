#include "titan/checkpoint/safetensors_reader.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "titan/base/error.h"
#include "titan/base/json.h"

namespace titan {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

constexpr uint64_t kLengthBytes = 8;
// The format's own limit.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr size_t kMaxDims = 64;
// Larger than any file, small enough that sums of sizes stay within 63 bits.
constexpr int64_t kMaxDataBytes = int64_t{1} << 60;

/// Begin and end of a tensor's data, counted from the end of the header.
struct DataRange {
  int64_t begin;
  int64_t end;
};

/// Bytes of `shape` elements; nothing when the product of the sizes overflows or ends inside a byte. A zero
/// does not hide an overflow, because strides are products of the other sizes.
std::optional<int64_t> data_bytes(const std::vector<int64_t>& shape, SafetensorsDtype dtype) {
  int64_t bits = dtype_bits(dtype);
  bool empty = false;
  for (const int64_t size : shape) {
    empty |= size == 0;
    if (__builtin_mul_overflow(bits, std::max<int64_t>(size, 1), &bits)) return {};
  }
  if (empty) return 0;
  if (bits % 8 != 0) return {};
  return bits / 8;
}

std::vector<int64_t> parse_sizes(const Json& list) {
  std::vector<int64_t> sizes;
  for (const Json& element : list.elements()) {
    const int64_t size = element.as_int();
    if (size < 0) throw ValueError("{} is negative", size);
    sizes.push_back(size);
  }
  return sizes;
}

std::map<std::string, std::string> parse_metadata(const Json& metadata) {
  std::map<std::string, std::string> result;
  for (const auto& [key, value] : metadata.items()) result.emplace(key, value.as_string());
  return result;
}

/// Reads one entry of the header; errors leave out the tensor's name, which the caller adds.
DataRange parse_entry(const Json& entry, TensorView& view) {
  const std::string& dtype = entry["dtype"].as_string();
  const auto known = find_dtype(dtype);
  if (!known) throw ValueError("unknown dtype {}", dtype);
  view.dtype = *known;
  view.shape = parse_sizes(entry["shape"]);
  if (view.shape.size() > kMaxDims) throw ValueError("{} dimensions", view.shape.size());
  const auto offsets = parse_sizes(entry["data_offsets"]);
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    throw ValueError("data_offsets must be begin and end, found {}", shape_text(offsets));
  }
  if (offsets[1] > kMaxDataBytes)
    throw ValueError("data_offsets {} lie beyond any file", shape_text(offsets));
  const auto expected = data_bytes(view.shape, view.dtype);
  if (!expected) {
    throw ValueError("shape {} of {} is not a whole number of bytes below 2^63", shape_text(view.shape),
                     dtype);
  }
  if (offsets[1] - offsets[0] != *expected) {
    throw ValueError("shape {} of {} takes {} bytes, but data_offsets {} hold {}", shape_text(view.shape),
                     dtype, *expected, shape_text(offsets), offsets[1] - offsets[0]);
  }
  return {offsets[0], offsets[1]};
}

/// The JSON text between the length and the data.
std::string_view header_text(std::string_view file, const std::string& path) {
  if (file.starts_with("version https://git-lfs")) {
    throw ValueError("{} is a Git LFS pointer, not the weights: fetch them with `git lfs pull`", path);
  }
  if (file.size() < kLengthBytes) {
    throw ValueError("{} is no safetensors file: it has {} bytes, the header's length alone takes {}", path,
                     file.size(), kLengthBytes);
  }
  uint64_t length = 0;
  std::memcpy(&length, file.data(), kLengthBytes);
  if (length > kMaxHeaderBytes) {
    throw ValueError("{} is no safetensors file: its first 8 bytes ask for a header of {} bytes (at most {})",
                     path, length, kMaxHeaderBytes);
  }
  if (length > file.size() - kLengthBytes) {
    throw ValueError(
        "{} is cut inside its header: expected at least {} bytes, the file has {}; copy or download it again",
        path, kLengthBytes + length, file.size());
  }
  const std::string_view text = file.substr(kLengthBytes, length);
  if (!text.starts_with('{'))
    throw ValueError("{} is no safetensors file: its header is not a JSON object", path);
  return text;
}

/// The data must be covered exactly once, in some order, and end with the file.
void check_coverage(const std::vector<TensorView>& tensors, const std::vector<DataRange>& ranges,
                    int64_t available, int64_t header_end, const std::string& path) {
  int64_t end = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (ranges[i].begin == end) {
      end = ranges[i].end;
      continue;
    }
    throw ValueError("{}: the data of tensor {} begins at {} but the data before it ends at {}: they {}",
                     path, tensors[i].name, ranges[i].begin, end,
                     ranges[i].begin < end ? "overlap" : "leave a gap");
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (ranges[i].end <= available) continue;
    throw ValueError(
        "{} is cut: expected {} bytes, the file has {}; the first tensor affected is {}; copy or download it "
        "again",
        path, header_end + end, header_end + available, tensors[i].name);
  }
  if (end != available) {
    throw ValueError("{} has {} bytes but its header describes {}: {} bytes at the end belong to no tensor",
                     path, header_end + available, header_end + end, available - end);
  }
}

}  // namespace

std::string shape_text(std::span<const int64_t> shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += format("{}{}", i == 0 ? "" : ", ", shape[i]);
  return text + "]";
}

SafetensorsHeader parse_safetensors(std::span<const std::byte> file, const std::filesystem::path& path) {
  const std::string_view content(reinterpret_cast<const char*>(file.data()), file.size());
  const std::string_view text = header_text(content, path.string());
  const Json json = Json::parse(text, format("the header of {}", path.string()));
  SafetensorsHeader header;
  std::vector<std::pair<DataRange, TensorView>> entries;
  for (const auto& [name, entry] : json.items()) {
    try {
      if (name == "__metadata__") {
        header.metadata = parse_metadata(entry);
        continue;
      }
      TensorView view{name, {}, {}, {}};
      const DataRange range = parse_entry(entry, view);
      entries.emplace_back(range, std::move(view));
    } catch (const ValueError& error) {
      throw ValueError("{}: tensor {}: {}", path.string(), name, error.what());
    }
  }
  std::ranges::stable_sort(entries, [](const auto& a, const auto& b) {
    return std::pair(a.first.begin, a.first.end) < std::pair(b.first.begin, b.first.end);
  });
  std::vector<DataRange> ranges;
  for (auto& [range, view] : entries) {
    ranges.push_back(range);
    header.tensors.push_back(std::move(view));
  }
  const size_t header_end = kLengthBytes + text.size();
  check_coverage(header.tensors, ranges, static_cast<int64_t>(file.size() - header_end),
                 static_cast<int64_t>(header_end), path.string());
  for (size_t i = 0; i < ranges.size(); ++i) {
    header.tensors[i].bytes = file.subspan(header_end + static_cast<size_t>(ranges[i].begin),
                                           static_cast<size_t>(ranges[i].end - ranges[i].begin));
  }
  return header;
}

SafetensorsFile::SafetensorsFile(std::filesystem::path path)
    : file_(std::move(path)), header_(parse_safetensors(file_.bytes(), file_.path())) {
  for (const TensorView& view : header_.tensors) by_name_.emplace(view.name, &view);
}

const TensorView* SafetensorsFile::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

void release_pages(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(bytes.data()) + page - 1) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(bytes.data() + bytes.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace titan
