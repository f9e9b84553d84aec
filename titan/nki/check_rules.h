#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "titan/base/strings.h"
#include "titan/nki/core.h"

namespace titan::nki {

/// An operand of an instruction with the name that messages give it.
struct NamedOperand {
  std::string_view name;
  const Tensor* tensor;
  bool is_scalar = false;  ///< a number per partition
};

/// An instruction whose rules are checked. Rules are named after the instruction: "tensor_tensor.both-psum".
struct Checked {
  const Instruction& instruction;
  const RunOptions& options;

  /// KernelError unless `holds`: the rule, `what` (format with {}: what is wrong and what to do), the
  /// instruction with its operands, its line.
  template <class... Args>
  void require(bool holds, std::string_view rule, std::string_view what, const Args&... args) const {
    if (!holds) fail(rule, format(what, args...));
  }
  [[noreturn]] void fail(std::string_view rule, const std::string& what) const;

  const Tensor& dst() const { return instruction.dst; }
  const Tensor& source(size_t i) const { return instruction.sources[i]; }
  bool runs_on(Engine engine) const { return instruction.engine == engine; }
};

// What several rules ask.
inline bool is_psum(const Tensor& tensor) { return tensor.buffer() == Buffer::psum; }
inline bool is_sbuf(const Tensor& tensor) { return tensor.buffer() == Buffer::sbuf; }
inline bool is_fp8(Dtype dtype) { return dtype == Dtype::float8_e4m3 || dtype == Dtype::float8_e5m2; }
bool is_32_bit_float(Dtype dtype);
bool is_comparison(Operation operation);
/// Binary, computed in float32: arithmetic, comparisons, logic.
bool is_arithmetic(Operation operation);
inline std::string shape_text(const Tensor& tensor) { return shape_text(tensor.shape()); }

/// Operands in the order of the call; undefined ones too where the instruction needs them.
std::vector<NamedOperand> named_operands(const Instruction& instruction);

// Parts of check_instruction, by idea.
void check_operands_are_there(const Checked& checked);
void check_engine(const Checked& checked);
/// Of instructions that an engine carries out on SBUF and PSUM: buffers, start partitions, access patterns.
void check_engine_access(const Checked& checked);
/// `tensor` names each element once.
void check_is_written_once(const Checked& checked, std::string_view name, const Tensor& tensor);
/// What TensorE writes lies in one bank of PSUM; from trn3 on in several. Where dst's offset is known at run
/// time only, this says so where no offset is right, and check_bank_at_run_time() the rest.
void check_within_bank(const Checked& checked);
void check_bank_at_run_time(const Checked& checked);
/// `a` and `b` have as many partitions and as many elements in each.
void check_same_sizes(const Checked& checked, const NamedOperand& a, const NamedOperand& b);
/// One number a partition of `data`, where it is a tensor.
void check_scalar_operand(const Checked& checked, std::string_view name, const ScalarOperand& operand);

// Parts by attribute; the common rules have passed.
void check_rules(const Checked& checked, const DmaCopy& copy);
void check_rules(const Checked& checked, const DmaTranspose& transpose);
void check_rules(const Checked& checked, const DmaCompute& compute);
void check_rules(const Checked& checked, const SendRecv& sendrecv);
void check_rules(const Checked& checked, const CoreBarrier& barrier);
void check_rules(const Checked& checked, const DevicePrint& print);
void check_rules(const Checked& checked, const TensorCopy& copy);
void check_rules(const Checked& checked, const TensorCopyPredicated& copy);
void check_rules(const Checked& checked, const Memset& memset);
void check_rules(const Checked& checked, const Iota& iota);
void check_rules(const Checked& checked, const StreamShuffle& shuffle);
void check_rules(const Checked& checked, const Matmul& matmul);
void check_rules(const Checked& checked, const Transpose& transpose);
void check_rules(const Checked& checked, const TensorTensor& op);
void check_rules(const Checked& checked, const TensorScalar& op);
void check_rules(const Checked& checked, const ScalarTensorTensor& op);
void check_rules(const Checked& checked, const TensorReduce& reduce);
void check_rules(const Checked& checked, const TensorPartitionReduce& reduce);
void check_rules(const Checked& checked, const TensorScalarReduce& reduce);
void check_rules(const Checked& checked, const Activation& activation);
void check_rules(const Checked& checked, const Reciprocal& reciprocal);
void check_rules(const Checked& checked, const AffineSelect& select);
void check_rules(const Checked& checked, const RangeSelect& select);

}  // namespace titan::nki
