#pragma once

#include <string_view>

namespace titan {

/// Instruction sets the kernels exist for, best last.
enum class Isa { baseline, avx2, avx512 };

/// The best set this machine has.
Isa best_cpu_isa();

/// The set to use: the best, which the environment variable TITAN_CPU_ISA (baseline, avx2, avx512) lowers and
/// never raises. ConfigError for another value of it.
Isa cpu_isa();

/// ValueError for a set that this machine does not have.
void require_cpu_isa(Isa isa);

/// "baseline", "avx2" or "avx512".
std::string_view name(Isa isa);

}  // namespace titan
