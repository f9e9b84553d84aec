#include "titan/base/elf.h"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

#include "titan/base/error.h"
#include "titan/base/file.h"

using namespace titan;
namespace fs = std::filesystem;

TEST_CASE("a library that was cut off anywhere is refused, a whole one and other files are not") {
  char name[] = "/tmp/titan-elf-test-XXXXXX";
  const fs::path folder = mkdtemp(name);
  const std::string whole = read_file(executable_path());
  CHECK_NOTHROW(require_whole_library(executable_path()));
  const fs::path cut = folder / "cut.so";
  for (const size_t size :
       {size_t{4}, size_t{63}, size_t{64}, size_t{300}, whole.size() / 2, whole.size() - 1}) {
    CAPTURE(size);
    write_file_atomic(cut, std::string_view(whole).substr(0, size));
    CHECK_THROWS_WITH_AS(require_whole_library(cut), doctest::Contains("cut.so is cut off"), ValueError);
  }
  // Nonsense in the header: the offset of the sections.
  std::string odd = whole;
  odd.replace(40, 8, std::string(8, '\xff'));
  write_file_atomic(cut, odd);
  CHECK_THROWS_AS(require_whole_library(cut), ValueError);
  write_file_atomic(cut, "no library");
  CHECK_NOTHROW(require_whole_library(cut));
  write_file_atomic(cut, "");
  CHECK_NOTHROW(require_whole_library(cut));
  fs::remove_all(folder);
}
