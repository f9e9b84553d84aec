#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "titan/nki/instruction.h"

namespace titan::nki {

struct Allocation;

/// Keeps instructions without keeping their on-chip memory: recorded tensors of SBUF and PSUM name the same
/// places and may be described and costed, never read. HBM stays alive with the record.
class Recorder {
 public:
  void record(Instruction instruction);
  std::vector<Instruction> take() { return std::move(instructions_); }
  const std::vector<Instruction>& instructions() const { return instructions_; }

 private:
  struct Copy {
    std::weak_ptr<Allocation> of;  ///< expired when another allocation has taken the address
    std::shared_ptr<Allocation> copy;
  };
  void detach(Tensor& tensor);
  std::shared_ptr<Allocation> detached(const std::shared_ptr<Allocation>& allocation);

  std::vector<Instruction> instructions_;
  std::unordered_map<const Allocation*, Copy> copies_;
};

}  // namespace titan::nki
