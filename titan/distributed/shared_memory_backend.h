#pragma once

#include <c10/util/intrusive_ptr.h>

#include "titan/distributed/shared_memory.h"

namespace c10d {
class Backend;
}

namespace titan {

/// A c10d backend, "titan_shm", over memory that the ranks of one machine share: all-gathers,
/// reduce-scatters, all-reduces (sum and maximum), broadcasts, gathers and barriers of dense tensors of the
/// CPU, or of another device whose bytes the host can read and write.
/// Works of one backend run in the order in which they were started; wait() throws ValueError as
/// SharedMemory::arrive().
c10::intrusive_ptr<c10d::Backend> make_shared_memory_backend(c10d::Store& store, int rank, int size,
                                                             const SharedMemoryOptions& options = {});

}  // namespace titan
