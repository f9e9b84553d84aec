#pragma once

#include <string>
#include <vector>

#include "titan/config/fields.h"

namespace titan {

/// torch.compile of the reference.
struct CompileConfig {
  bool enable = false;
  std::vector<std::string> components = {"model", "loss"};
  std::string backend = "inductor";
  bool enable_async_tensor_parallel = false;

  void describe(Fields& f) {
    f("enable", enable, "Compile the model", Status::refused);
    f("components", components, "What is compiled", Status::refused);
    f("backend", backend, "The compiler", Status::refused);
    f("enable_async_tensor_parallel", enable_async_tensor_parallel,
      "Overlap of communication and matrix products", Status::refused);
  }
};

}  // namespace titan
