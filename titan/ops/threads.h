#pragma once

#include <cstdint>

namespace titan {

/// Threads that one process computes with: TITAN_NUM_THREADS, or the cores this process may run on divided by
/// LOCAL_WORLD_SIZE (the processes of a launcher on this machine). ConfigError when either is no positive
/// number. OMP_NUM_THREADS is not asked: launchers set it to 1 for every worker.
int64_t num_threads();

/// Gives torch's thread pool num_threads() threads. To be called before the first operator.
void set_up_threads();

}  // namespace titan
