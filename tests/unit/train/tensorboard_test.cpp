#include "titan/train/tensorboard.h"

#include <doctest/doctest.h>

#include <array>
#include <filesystem>
#include <string>

#include "titan/base/error.h"
#include "titan/base/file.h"

namespace titan {
namespace {

std::filesystem::path fresh_folder(const std::string& name) {
  const auto folder = std::filesystem::temp_directory_path() / ("titan_" + name);
  std::filesystem::remove_all(folder);
  return folder;
}

}  // namespace

TEST_CASE("crc32c gives the check value of the Castagnoli polynomial and RFC 3720's examples") {
  CHECK(crc32c("") == 0u);
  CHECK(crc32c("123456789") == 0xE3069283u);
  CHECK(crc32c(std::string(32, '\0')) == 0x8A9136AAu);
  CHECK(crc32c(std::string(32, '\xff')) == 0x62A8AB43u);
}

TEST_CASE("The masked checksum rotates and adds") {
  constexpr uint32_t kCrc = 0xE3069283u;
  CHECK(masked_crc32c("123456789") == ((kCrc >> 15) | (kCrc << 17)) + 0xA282EAD8u);
}

TEST_CASE("A record is length, checksum, payload, checksum") {
  const std::string record = tf_record("abc");
  REQUIRE(record.size() == 8 + 4 + 3 + 4);
  CHECK(record.substr(0, 8) == std::string("\x03\0\0\0\0\0\0\0", 8));
  CHECK(record.substr(12, 3) == "abc");
}

TEST_CASE("An event with one scalar has the bytes that protobuf gives it") {
  const std::array<Scalar, 1> scalars = {Scalar{"loss", 2.5}};
  const std::string expected(
      "\x09\0\0\0\0\0\0\xf0\x3f"  // 1: wall_time = 1.0 (fixed64)
      "\x10\xac\x02"              // 2: step = 300 (varint)
      "\x2a\x0d"                  // 5: summary, 13 bytes
      "\x0a\x0b"                  // 1: value, 11 bytes
      "\x0a\x04loss"              // 1: tag
      "\x15\0\0\x20\x40",         // 2: simple_value = 2.5 (fixed32)
      9 + 3 + 2 + 2 + 6 + 5);
  CHECK(scalars_event(1.0, 300, scalars) == expected);
}

TEST_CASE("The writer's file begins with the version record and grows with each call") {
  const auto folder = fresh_folder("tensorboard_test");
  EventFileWriter writer(folder / "tb");
  const std::string start = read_file(writer.path());
  CHECK(start.find("brain.Event:2") != std::string::npos);
  CHECK(writer.path().filename().string().starts_with("events.out.tfevents."));
  const std::array<Scalar, 2> scalars = {Scalar{"grad_norm", 1.5}, Scalar{"tflops", 0.1}};
  writer.add_scalars(1, scalars);
  const std::string after = read_file(writer.path());
  CHECK(after.starts_with(start));
  CHECK(after.find("grad_norm") != std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST_CASE("A folder that cannot be made is an error that names it and the flag") {
  const auto folder = fresh_folder("tensorboard_blocked");
  write_file_atomic(folder.string() + ".file", "in the way");
  CHECK_THROWS_WITH_AS(EventFileWriter(folder.string() + ".file/tb"),
                       doctest::Contains("--metrics.save_tb_folder"), ValueError);
  std::filesystem::remove(folder.string() + ".file");
}

}  // namespace titan
