#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace titan {

/// The stamp that this titan puts into the modules it compiles.
std::string module_stamp(bool needs_torch);

/// The stamp inside a module's file, empty when it is no module of titan's. Nothing of the file is run.
std::string read_module_stamp(const std::filesystem::path& library);

/// Whether a module with `stamp` can be used by this titan: made with the same headers and the same C++
/// library's ABI.
bool is_compatible_stamp(std::string_view stamp);

/// Whether a module with `stamp` uses torch.
bool stamp_needs_torch(std::string_view stamp);

/// Compiles `source` to a shared library and returns its path in the cache; one that was compiled before from
/// the same text, local headers and titan headers by the same compiler is used again. Of several processes
/// one compiles, the others wait. ConfigError with the compiler's first errors when it does not compile, and
/// with what to do when there is no compiler or titan's headers are not those it was built with.
std::filesystem::path compiled_module(const std::filesystem::path& source);

}  // namespace titan
