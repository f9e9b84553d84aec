#pragma once

#include <filesystem>

#include "titan/data/data_files.h"

namespace titan {

/// Writes the unpacked content of a .gz or .zst file to `target`, in pieces of constant size, whatever the
/// file's. Several members or frames in a row are read as one. ValueError names a file that is broken, cut
/// off or not packed that way; `target` then must be thrown away.
void unpack(const DataFile& file, const std::filesystem::path& target);

}  // namespace titan
