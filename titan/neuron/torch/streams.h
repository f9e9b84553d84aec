#pragma once

#include <cstdint>

namespace titan::neuron {

/// The stream of this thread, as torch's stream guards have set it.
int64_t current_stream_id();

/// Registers the device guard: devices, streams and events.
void register_guard();

}  // namespace titan::neuron
