#pragma once

#include <string_view>

namespace titan {

/// Instruction sets the kernels exist for, best last.
enum class Isa { baseline, avx2, avx512 };

/// The best set this machine has; the environment variable TITAN_CPU_ISA (baseline, avx2, avx512) lowers it.
Isa cpu_isa();

/// "baseline", "avx2" or "avx512".
std::string_view name(Isa isa);

/// Whether bfloat16 matmuls run on the CPU's own bfloat16 instructions (avx512_bf16 or amx_bf16). Elsewhere
/// bfloat16 is storage only and matmuls widen to float32.
bool bf16_arithmetic();

/// Floating-point operations per second of a large float32 matmul with the current number of threads;
/// measured once, in about 0.2 s.
double measured_peak_flops();

}  // namespace titan
