#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <vector>

namespace titan {

/// A difference may be this part of the reference's largest number: some roundings of sums in another order.
inline constexpr double kFloat32Tolerance = 2e-5;
/// ... or of this, where that is larger: sums that cancel leave roundings of numbers of the inputs' size.
inline constexpr double kSmallestScale = 0.1;
/// In bfloat16; of a rotation of x, whose terms are rounded one by one, this part of |x| + |rotate_half(x)|
/// of each element.
inline constexpr double kBfloat16Tolerance = 0x1p-6;

/// Stands in the text of a read of unwritten memory.
inline constexpr std::string_view kReadsUnwritten = "unwritten memory is read";

/// What a check has found: a table, and its last line.
struct KernelCheckReport {
  std::vector<std::string> lines;
  bool passed = true;
};

/// A value under a name, on the CPU; undefined where there is none.
struct CheckedValue {
  std::string name;
  at::Tensor tensor;
  at::Tensor rotated = {};  ///< what the value is a rotation of, where it is one
};

/// What one forward and backward gave.
struct CheckRun {
  std::vector<CheckedValue> values;  ///< results, then gradients
  std::vector<std::string> written;  ///< inputs and weights that are no longer what they were
  std::string error;                 ///< what it threw instead
  bool is_refusal = true;            ///< which was a ValueError
};

/// Collects the lines of a report, and what failed first.
class CheckTable {
 public:
  /// `is_strict`: float32 has to be equal.
  CheckTable(std::string name, std::string heading, bool is_strict);

  /// A row for each value; values of both runs have the same names.
  void compare(const std::string& set, at::ScalarType dtype, const CheckRun& reference, const CheckRun& run);
  void note(const std::string& set, const std::string& what);
  void fail(const std::string& set, const std::string& what);
  /// Whether a read of unwritten memory has been seen so far.
  void tell_unwritten();

  /// The lines, with the verdict as the last one.
  KernelCheckReport report() &&;

 private:
  void row(const std::string& set, const std::string& tensor, const std::string& difference,
           const std::string& reference, const std::string& allowed, const std::string& verdict);
  void refuse(const std::string& set, const std::string& what);
  void compare_values(const std::string& set, at::ScalarType dtype, const CheckedValue& reference,
                      const CheckedValue& value);

  std::string name_;
  bool is_strict_;
  bool has_unwritten_ = false;
  std::vector<std::string> lines_;
  std::string first_failure_;  ///< empty while all is well
};

}  // namespace titan
