#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "titan/nki/dtype.h"

namespace titan::nki {

/// Where a tensor lies. `shared_hbm` is seen by both cores of a logical one, and by the host.
enum class Buffer : uint8_t { sbuf, psum, private_hbm, shared_hbm };

std::string_view buffer_name(Buffer buffer);
inline bool is_on_chip(Buffer buffer) { return buffer == Buffer::sbuf || buffer == Buffer::psum; }

/// A run of indices along one dimension; Python's start:stop:step. Without a stop, to the end.
struct Slice {
  static constexpr int64_t kEnd = INT64_MAX;
  int64_t start = 0, stop = kEnd, step = 1;
};

/// Everything along a dimension: Python's `:`.
inline constexpr Slice all = {};

/// `size` indices from `start` on.
constexpr Slice ds(int64_t start, int64_t size) {
  // A stop that no dimension has neither overflows nor means "to the end".
  constexpr int64_t kMost = Slice::kEnd - 1;
  return {start, start >= 0 && size > kMost - start ? kMost : start + (size < 0 ? 0 : size), 1};
}

/// One place of a subscript: a number (the dimension goes; on chip the partition dimension stays with size 1)
/// or a run.
struct Index {
  Index(Slice run) : slice(run) {}
  Index(int64_t number) : slice{number, number, 1}, is_number(true) {}
  Index(int number) : Index(int64_t{number}) {}
  Slice slice;  ///< of a number: its start
  bool is_number = false;
};

/// One dimension of a view: how many elements, and how far apart. On chip dimension 0 counts partitions and
/// its stride is 1 partition; other strides are elements of the view's dtype. A stride of 0 repeats.
struct Dim {
  int64_t count = 1, stride = 1;
  bool operator==(const Dim&) const = default;
};

struct Allocation;
class Register;
class Tensor;

/// How tensors of another library are seen as HBM: a specialisation has `static nki::Tensor tensor(const
/// T&)`.
template <class T>
struct HbmAccess;

/// A pattern's run-time offset: a tensor, or for a scalar a register too. It refers to what it is given.
struct VectorOffset {
  VectorOffset() = default;
  VectorOffset(const Tensor& indices) : tensor(&indices) {}
  const Tensor* tensor = nullptr;
};
struct ScalarOffset {
  ScalarOffset() = default;
  ScalarOffset(const Tensor& index) : tensor(&index) {}
  ScalarOffset(const Register& index) : number(&index) {}
  const Tensor* tensor = nullptr;
  const Register* number = nullptr;
};

/// `.ap`: a view by strides over the whole allocation behind a tensor, in elements (of `dtype`).
struct AccessPattern {
  /// {stride, count} from the outermost; on chip the first pair is the partitions, its stride the tensor's
  /// free size.
  std::vector<std::pair<int64_t, int64_t>> pattern;
  /// Added to the view's own offset; none keeps it. On chip offset / free size is a partition.
  std::optional<int64_t> offset = {};
  /// A register, or a tensor of one int32 in SBUF: multiplied by the stride of base dimension
  /// `indirect_dim` and added at run time.
  ScalarOffset scalar_offset = {};
  /// One int32 index per partition of the other operand ([P, 1] in SBUF), each multiplied by the stride of
  /// base dimension `indirect_dim` (0 only), which takes the place of the first pair's. HBM only.
  VectorOffset vector_offset = {};
  /// A dimension of the tensor as it was allocated or last reshaped, whose stride is the product of the sizes
  /// to its right. On chip not the partitions.
  int64_t indirect_dim = 0;
  std::optional<Dtype> dtype = {};
};

/// A view of memory: HBM, or a block of partitions of SBUF or PSUM. A value: copies see the same bytes. The
/// memory lives as long as a view of it.
///
/// Every method that makes a view throws KernelError, naming the tensor and the numbers, when the view would
/// leave the tensor or break a rule of the memory.
class Tensor {
 public:
  using Where = std::source_location;

  Tensor() = default;
  /// A tensor of another library, whose bytes it shares: see HbmAccess.
  template <class T>
    requires requires(const T& other) { HbmAccess<T>::tensor(other); }
  Tensor(const T& other) : Tensor(HbmAccess<T>::tensor(other)) {}
  Tensor(std::shared_ptr<Allocation> allocation, Dtype dtype, std::vector<Dim> dims, int64_t offset);

  bool defined() const { return allocation_ != nullptr; }
  Dtype dtype() const { return dtype_; }
  Buffer buffer(const Where& where = Where::current()) const;
  const std::string& name(const Where& where = Where::current()) const;
  int64_t ndim() const { return static_cast<int64_t>(dims_.size()); }
  int64_t size(int64_t dim, const Where& where = Where::current()) const;
  std::vector<int64_t> shape() const;
  /// Python's: all elements one after another, in order.
  bool is_contiguous() const;
  int64_t numel() const;
  /// On chip: elements of one partition.
  int64_t free_size(const Where& where = Where::current()) const;
  int64_t partitions(const Where& where = Where::current()) const { return size(0, where); }

  /// t(0, all, ds(4, 8)): Python's t[0, :, 4:12]. Dimensions not named are taken whole. Numbers count from
  /// the front only, and a run that leaves the dimension or is empty is an error.
  Tensor operator()(Index i, const Where& where = Where::current()) const { return subscript({i}, where); }
  Tensor operator()(Index i, Index j, const Where& where = Where::current()) const {
    return subscript({i, j}, where);
  }
  Tensor operator()(Index i, Index j, Index k, const Where& where = Where::current()) const {
    return subscript({i, j, k}, where);
  }
  Tensor operator()(Index i, Index j, Index k, Index l, const Where& where = Where::current()) const {
    return subscript({i, j, k, l}, where);
  }
  Tensor operator()(Index i, Index j, Index k, Index l, Index m,
                    const Where& where = Where::current()) const {
    return subscript({i, j, k, l, m}, where);
  }
  Tensor subscript(const std::vector<Index>& indices, const Where& where = Where::current()) const;

  /// Same elements in another shape, without a copy; on chip the partitions keep theirs.
  Tensor reshape(const std::vector<int64_t>& shape, const Where& where = Where::current()) const;
  /// Dimension `order[i]` becomes dimension i; on chip dimension 0 stays the first.
  Tensor permute(const std::vector<int64_t>& order, const Where& where = Where::current()) const;
  /// A dimension of size 1 seen `size` times; on chip not dimension 0.
  Tensor broadcast(int64_t dim, int64_t size, const Where& where = Where::current()) const;
  /// A dimension of size 1 before `dim`; on chip not before the partitions.
  Tensor expand_dim(int64_t dim, const Where& where = Where::current()) const;
  Tensor squeeze_dim(int64_t dim, const Where& where = Where::current()) const;
  /// The dimensions first .. last as one; on chip not the partitions.
  Tensor flatten_dims(int64_t first, int64_t last, const Where& where = Where::current()) const;
  /// The same bytes as another dtype; the last dimension's size changes with the itemsize.
  Tensor view(Dtype dtype, const Where& where = Where::current()) const;
  Tensor ap(const AccessPattern& pattern, const Where& where = Where::current()) const;

  /// "q shared_hbm[1, 32, 256, 128] bfloat16": what messages call it.
  std::string describe() const;

  // For the simulator.
  const std::shared_ptr<Allocation>& allocation() const { return allocation_; }
  const std::vector<Dim>& dims() const { return dims_; }
  /// Elements from the allocation's begin (on chip: from its first byte in the first partition).
  int64_t offset() const { return offset_; }
  /// On chip: the first partition of the view, counted from the allocation's.
  int64_t partition_offset() const { return partition_offset_; }

  /// Offsets that are known only at run time.
  struct Indirection {
    enum class Kind : uint8_t { none, scalar, vector } kind = Kind::none;
    std::shared_ptr<const Tensor> offsets;            ///< int32 in SBUF
    std::shared_ptr<const Register> scalar_register;  ///< instead of a tensor
    int64_t stride = 1;                               ///< elements an index is multiplied by
    int64_t limit = 0;  ///< indices 0 .. limit - 1 stay in the dimension and in the allocation
  };
  /// Of a vector, dims()[0] counts the indices and its stride is 0: the index takes its place.
  const Indirection& indirection() const { return indirection_; }

  /// This view of another allocation with the same layout, for records that outlive the memory.
  Tensor moved_to(std::shared_ptr<Allocation> allocation, std::shared_ptr<const Tensor> offsets) const {
    Tensor moved = *this;
    moved.allocation_ = std::move(allocation);
    moved.indirection_.offsets = std::move(offsets);
    return moved;
  }

 private:
  friend Tensor resolved(const Tensor& view);

  Slice bounded(int64_t dim, const Index& index, const Where& where) const;
  void check_defined(std::string_view method, const Where& where) const;
  /// Of methods that make a view: the tensor is defined, and has no vector offset.
  void check_viewed(std::string_view method, const Where& where) const;

  std::shared_ptr<Allocation> allocation_;
  Dtype dtype_ = Dtype::float32;
  std::vector<Dim> dims_;
  int64_t offset_ = 0, partition_offset_ = 0;
  std::vector<int64_t> base_shape_;  ///< as allocated or last reshaped: what `.ap` counts offsets in
  Indirection indirection_;
};

/// "[128, 512]".
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace titan::nki
