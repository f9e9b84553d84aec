#include "titan/checkpoint/safetensors_writer.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <csignal>

#include "tests/unit/checkpoint/checkpoint_files.h"
#include "titan/checkpoint/safetensors_reader.h"

using namespace titan;
using namespace titan::checkpoint_tests;

namespace {

const std::vector<TensorSpec> kMixedSpecs = {{"flags", SafetensorsDtype::boolean, {3}},
                                             {"weight", SafetensorsDtype::f32, {2, 2}},
                                             {"half", SafetensorsDtype::bf16, {1}},
                                             {"none", SafetensorsDtype::f32, {0, 4}},
                                             {"wide", SafetensorsDtype::i64, {1}}};

std::string_view text_of(const TensorView& view) {
  return {reinterpret_cast<const char*>(view.bytes.data()), view.bytes.size()};
}

}  // namespace

TEST_CASE("tensors written in any order and in pieces read back") {
  const ScratchFolder folder;
  SafetensorsWriter writer(folder / "x", kMixedSpecs, {{"step", "10"}});
  writer.write("half", as_bytes("hh"));
  writer.write("weight", as_bytes("0123"));
  writer.write("wide", as_bytes("wwwwwwww"));
  writer.write("weight", as_bytes("456789abcdef"));
  CHECK_FALSE(writer.complete());
  CHECK_FALSE(std::filesystem::exists(folder / "x"));
  writer.write("flags", as_bytes("fff"));
  CHECK(writer.complete());
  writer.finish();

  const SafetensorsFile file(folder / "x");
  CHECK(text_of(*file.find("weight")) == "0123456789abcdef");
  CHECK(text_of(*file.find("half")) == "hh");
  CHECK(text_of(*file.find("flags")) == "fff");
  CHECK(file.find("none")->shape == std::vector<int64_t>{0, 4});
  CHECK(file.metadata() == std::map<std::string, std::string>{{"format", "pt"}, {"step", "10"}});
  CHECK(count_entries(folder.path()) == 1);
}

TEST_CASE("every tensor of a written file is aligned to its element") {
  const ScratchFolder folder;
  SafetensorsWriter writer(folder / "x", kMixedSpecs);
  for (const TensorSpec& spec : kMixedSpecs) {
    writer.write(spec.name, as_bytes(std::string(static_cast<size_t>(spec.num_bytes()), 'x')));
  }
  writer.finish();
  const SafetensorsFile file(folder / "x");
  const std::byte* start = file.find("wide")->bytes.data();
  for (const TensorView& view : file.tensors()) {
    CAPTURE(view.name);
    CHECK((view.bytes.data() - start) % (dtype_bits(view.dtype) / 8) == 0);
    CHECK(reinterpret_cast<uintptr_t>(start) % 8 == 0);
  }
}

TEST_CASE("a file that misses bytes is not published and names the tensor") {
  const ScratchFolder folder;
  write_file_atomic(folder / "x", "the old file");
  {
    SafetensorsWriter writer(folder / "x", {{"weight", SafetensorsDtype::f32, {2}}});
    writer.write("weight", as_bytes("1234"));
    const auto error = error_of([&] { writer.finish(); });
    CHECK(contains(error, "4 bytes of tensor weight were not written"));
  }
  CHECK(read_file(folder / "x") == "the old file");
  CHECK(count_entries(folder.path()) == 1);
}

TEST_CASE("more bytes than the shape holds, unknown and repeated names are refused") {
  const ScratchFolder folder;
  SafetensorsWriter writer(folder / "x", {{"weight", SafetensorsDtype::u8, {2}}});
  CHECK_THROWS_AS(writer.write("weight", as_bytes("123")), std::logic_error);
  CHECK_THROWS_AS(writer.write("other", as_bytes("1")), std::logic_error);
  CHECK_THROWS_AS(
      SafetensorsWriter(folder / "y", {{"a", SafetensorsDtype::u8, {1}}, {"a", SafetensorsDtype::u8, {1}}}),
      std::logic_error);
}

TEST_CASE("a full disk is one clear message, found before the first tensor, and keeps the old file") {
  const ScratchFolder folder;
  write_file_atomic(folder / "x", "the old file");
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{100'000, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &small);
  const auto error =
      error_of([&] { SafetensorsWriter(folder / "x", {{"weight", SafetensorsDtype::u8, {1'000'000}}}); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK(contains(error, "cannot write " + (folder / "x").string() + ", 1,000,"));
  CHECK(contains(error, "File too large"));
  CHECK(read_file(folder / "x") == "the old file");
  CHECK(count_entries(folder.path()) == 1);
}

TEST_CASE("a folder that is not there is named") {
  const ScratchFolder folder;
  const auto error =
      error_of([&] { SafetensorsWriter(folder / "no" / "x", {{"w", SafetensorsDtype::u8, {1}}}); });
  CHECK(contains(error, (folder / "no" / "x").string()));
  CHECK(contains(error, "No such file or directory"));
}
