#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/ScalarType.h>
#include <c10/core/Storage.h>

#include <cstdint>

namespace titan::neuron {

/// Device 0, the only one that a process sees.
c10::Device neuron_device();

/// torch's allocator of the device: host memory on the core's books.
c10::Allocator& hbm_allocator();

/// Memory for elements of `dtype`, charged at the device's sizes. c10::OutOfMemoryError, with an account of
/// what holds the memory, when the core's HBM is full.
c10::DataPtr allocate_hbm(int64_t host_bytes, c10::ScalarType dtype, const char* operation);

/// Gives a storage another size; its elements stay of the dtype that they are charged for.
/// c10::OutOfMemoryError as above; old and new memory are held together for a moment.
void resize_hbm(c10::StorageImpl& storage, int64_t host_bytes);

/// Host memory that a CPU kernel has filled becomes memory of the device: the same bytes, charged until they
/// are freed.
c10::DataPtr adopt(c10::DataPtr host, int64_t host_bytes, c10::ScalarType dtype, const char* operation);

/// The same for a whole storage, which may have other owners.
c10::DataPtr adopt(const c10::Storage& host, c10::ScalarType dtype, const char* operation);

}  // namespace titan::neuron
