#pragma once

namespace titan {

/// Whether bfloat16 matmuls run on the CPU's own bfloat16 instructions (avx512_bf16 or amx_bf16). Elsewhere
/// bfloat16 is storage only and matmuls widen to float32.
bool bf16_arithmetic();

/// Floating-point operations per second of a large float32 matmul with the current number of threads;
/// measured once, in about 0.2 s.
double measured_peak_flops();

}  // namespace titan
