#include "titan/checkpoint/safetensors_reader.h"

#include <doctest/doctest.h>

#include "tests/unit/checkpoint/checkpoint_files.h"

using namespace titan;
using namespace titan::checkpoint_tests;

namespace {

constexpr std::string_view kTwoTensors =
    R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
    R"("b.weight":{"dtype":"U8","shape":[3,1],"data_offsets":[8,11]}})";

std::string parse_error_of(std::string_view header, std::string_view data) {
  const std::string file = safetensors_bytes(header, data);
  return error_of([&] { parse_safetensors(as_bytes(file), "dir/x.safetensors"); });
}

/// The error for one tensor `t` with these members of its entry, over `bytes` of data.
std::string entry_error_of(std::string_view members, size_t bytes) {
  return parse_error_of(format(R"({"t":{{}}})", members), std::string(bytes, 'd'));
}

}  // namespace

TEST_CASE("a safetensors file gives its tensors, metadata and bytes") {
  const std::string bytes = safetensors_bytes(kTwoTensors, "ABCDEFGHijk");
  const auto header = parse_safetensors(as_bytes(bytes), "x");
  REQUIRE(header.tensors.size() == 2);
  CHECK(header.metadata.at("format") == "pt");
  CHECK(header.tensors[0].name == "a");
  CHECK(header.tensors[0].dtype == SafetensorsDtype::f32);
  CHECK(header.tensors[1].shape == std::vector<int64_t>{3, 1});
  CHECK(std::memcmp(header.tensors[1].bytes.data(), "ijk", 3) == 0);
  CHECK(header.tensors[1].bytes.size() == 3);
}

TEST_CASE("tensors without elements and scalars are read") {
  const std::string bytes = safetensors_bytes(R"({"e":{"dtype":"F32","shape":[0,4],"data_offsets":[0,0]},)"
                                              R"("s":{"dtype":"F64","shape":[],"data_offsets":[0,8]}}  )",
                                              "12345678");
  const auto header = parse_safetensors(as_bytes(bytes), "x");
  CHECK(header.tensors[0].bytes.empty());
  CHECK(header.tensors[1].bytes.size() == 8);
}

TEST_CASE("every dtype of the format has its size") {
  const std::pair<const char*, int64_t> rows[] = {
      {"F64", 64},    {"F32", 32},    {"F16", 16},        {"BF16", 16},      {"F8_E4M3", 8}, {"F8_E5M2", 8},
      {"F8_E8M0", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"F4", 4},         {"C64", 64},    {"I64", 64},
      {"I32", 32},    {"I16", 16},    {"I8", 8},          {"U64", 64},       {"U32", 32},    {"U16", 16},
      {"U8", 8},      {"BOOL", 8},    {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}};
  for (const auto& [name, bits] : rows) {
    CAPTURE(name);
    const auto size = static_cast<size_t>(bits);
    CHECK(entry_error_of(format(R"("dtype":"{}","shape":[8],"data_offsets":[0,{}])", name, size), size) ==
          "");
    CHECK(contains(
        entry_error_of(format(R"("dtype":"{}","shape":[8],"data_offsets":[0,{}])", name, size + 1), size + 1),
        format("takes {} bytes", size)));
  }
}

TEST_CASE("a lying entry names file, tensor and both sizes") {
  const auto error = entry_error_of(R"("dtype":"F32","shape":[2,3],"data_offsets":[0,20])", 20);
  CHECK(error ==
        "dir/x.safetensors: tensor t: shape [2, 3] of F32 takes 24 bytes, but data_offsets [0, 20] hold 20");
  CHECK(
      contains(entry_error_of(R"("dtype":"F33","shape":[1],"data_offsets":[0,4])", 4), "unknown dtype F33"));
  CHECK(contains(entry_error_of(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])", 4), "-1 is negative"));
  CHECK(contains(entry_error_of(R"("dtype":"F32","shape":[1.5],"data_offsets":[0,4])", 4),
                 "expected an integer"));
  CHECK(contains(entry_error_of(R"("dtype":"F32","shape":4,"data_offsets":[0,4])", 4), "expected a list"));
  CHECK(contains(entry_error_of(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])", 4), "begin and end"));
  CHECK(contains(entry_error_of(R"("dtype":"F32","shape":[1],"data_offsets":[0])", 4), "begin and end"));
  CHECK(contains(entry_error_of(R"("dtype":"F32","shape":[1])", 4), "\"data_offsets\" is missing"));
  CHECK(contains(entry_error_of(R"("shape":[1],"data_offsets":[0,4])", 4), "\"dtype\" is missing"));
  CHECK(contains(entry_error_of(R"("dtype":"F4","shape":[3],"data_offsets":[0,2])", 2),
                 "whole number of bytes"));
  CHECK(contains(parse_error_of(R"({"t":5})", ""), "expected an object"));
}

TEST_CASE("a shape whose product overflows is an error") {
  for (const char* shape : {"[4294967296,4294967296]", "[9223372036854775807]", "[3037000500,3037000500,2]",
                            "[4611686018427387904,8,0]", "[0,4611686018427387904,8]"}) {
    CAPTURE(shape);
    const auto error = entry_error_of(format(R"("dtype":"F32","shape":{},"data_offsets":[0,0])", shape), 0);
    CHECK(contains(error, "2^63"));
  }
  CHECK(
      contains(entry_error_of(
                   R"("dtype":"U8","shape":[1],"data_offsets":[9223372036854775806,9223372036854775807])", 1),
               "beyond any file"));
  CHECK(contains(entry_error_of(R"("dtype":"U8","shape":[1],"data_offsets":[0,18446744073709551615])", 1),
                 "expected an integer"));
  CHECK(contains(entry_error_of(format(R"("dtype":"U8","shape":[1{}],"data_offsets":[0,1])",
                                       join(std::vector<std::string>(65, ""), ",1")),
                                1),
                 "65 dimensions"));
}

TEST_CASE("data that overlap, leave a gap or end elsewhere are errors") {
  const auto two = [](std::string_view first, std::string_view second, size_t bytes) {
    return parse_error_of(format(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":{}},)"
                                 R"("b":{"dtype":"U8","shape":[4],"data_offsets":{}}})",
                                 first, second),
                          std::string(bytes, 'd'));
  };
  CHECK(two("[0,4]", "[4,8]", 8) == "");
  CHECK(two("[4,8]", "[0,4]", 8) == "");
  CHECK(contains(two("[0,4]", "[2,6]", 8),
                 "tensor b begins at 2 but the data before it ends at 4: they overlap"));
  CHECK(contains(two("[0,4]", "[0,4]", 8), "overlap"));
  CHECK(contains(two("[0,4]", "[6,10]", 10), "leave a gap"));
  CHECK(contains(two("[2,6]", "[6,10]", 10), "leave a gap"));
  const auto longer = two("[0,4]", "[4,8]", 11);
  CHECK(contains(longer, "3 bytes at the end belong to no tensor"));
}

TEST_CASE("a name that occurs twice is an error") {
  CHECK(contains(parse_error_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                                "12"),
                 "\"a\" occurs twice"));
}

TEST_CASE("a file that is no safetensors says what it is") {
  CHECK(contains(parse_error_of("[1]", ""), "not a JSON object"));
  CHECK(contains(parse_error_of("{", ""), "not valid JSON"));
  CHECK(contains(parse_error_of(R"({"__metadata__":{"n":1}})", ""), "__metadata__"));
  CHECK(contains(error_of([] { parse_safetensors(as_bytes("abc"), "x"); }), "has 3 bytes"));
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 8044936192\n";
  CHECK(contains(error_of([&] { parse_safetensors(as_bytes(pointer), "x"); }), "git lfs pull"));
  const std::string text(64, '~');
  CHECK(contains(error_of([&] { parse_safetensors(as_bytes(text), "x"); }), "ask for a header of"));
}

TEST_CASE("a file cut at any length is an error that names it and both sizes") {
  const std::string whole = safetensors_bytes(kTwoTensors, "ABCDEFGHijk");
  for (size_t length = 0; length < whole.size(); ++length) {
    CAPTURE(length);
    const auto error =
        error_of([&] { parse_safetensors(as_bytes(std::string_view(whole).substr(0, length)), "dir/cut"); });
    CHECK(contains(error, "dir/cut"));
    CHECK(contains(error, format("{}", length)));
  }
  const auto affected = error_of(
      [&] { parse_safetensors(as_bytes(std::string_view(whole).substr(0, whole.size() - 1)), "dir/cut"); });
  CHECK(affected ==
        format("dir/cut is cut: expected {} bytes, the file has {}; the first tensor affected is b.weight; "
               "copy or download it again",
               whole.size(), whole.size() - 1));
}

TEST_CASE("a header with any byte changed is an error or describes the file's bytes exactly") {
  const std::string whole = safetensors_bytes(kTwoTensors, "ABCDEFGHijk");
  int64_t accepted = 0;
  for (size_t at = 0; at < whole.size() - 11; ++at) {
    for (int value = 0; value < 256; ++value) {
      std::string changed = whole;
      changed[at] = static_cast<char>(value);
      try {
        const auto header = parse_safetensors(as_bytes(changed), "x");
        size_t covered = 0;
        for (const auto& tensor : header.tensors) {
          REQUIRE(tensor.bytes.data() >= as_bytes(changed).data());
          REQUIRE(tensor.bytes.data() + tensor.bytes.size() <= as_bytes(changed).data() + changed.size());
          covered += tensor.bytes.size();
        }
        REQUIRE(covered == 11);
        ++accepted;
      } catch (const ValueError&) {
      }
    }
  }
  // Names, the value of "format" and equally wide dtypes may change; nothing else.
  CHECK(accepted > 1000);
  CHECK(accepted < 12000);
}

TEST_CASE("random bytes and random cuts of a header never crash the reader") {
  uint64_t state = 7;
  const auto random = [&] { return state = state * 6364136223846793005 + 1442695040888963407, state >> 33; };
  const std::string whole = safetensors_bytes(kTwoTensors, "ABCDEFGHijk");
  int64_t errors = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string changed = whole.substr(0, 8 + random() % (whole.size() - 8));
    for (uint64_t edit = random() % 6; edit > 0; --edit) {
      changed[8 + random() % (changed.size() - 7) - 1] = R"({}[]",:0123456789eE+-.abFU8)"[random() % 27];
    }
    errors += error_of([&] { parse_safetensors(as_bytes(changed), "x"); }).empty() ? 0 : 1;
  }
  CHECK(errors > 19000);
}

TEST_CASE("a mapped file finds its tensors by name") {
  const ScratchFolder folder;
  write_file_atomic(folder / "x.safetensors", safetensors_bytes(kTwoTensors, "ABCDEFGHijk"));
  const SafetensorsFile file(folder / "x.safetensors");
  REQUIRE(file.find("b.weight") != nullptr);
  CHECK(file.find("b.weight")->bytes.size() == 3);
  CHECK(file.find("b") == nullptr);
  CHECK(contains(error_of([&] { SafetensorsFile(folder / "y.safetensors"); }), "No such file"));
}
