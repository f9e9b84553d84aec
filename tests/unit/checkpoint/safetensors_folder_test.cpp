#include "titan/checkpoint/safetensors_folder.h"

#include <doctest/doctest.h>

#include "tests/unit/checkpoint/checkpoint_files.h"
#include "titan/base/json.h"

using namespace titan;
using namespace titan::checkpoint_tests;

namespace {

/// A file of one-byte tensors.
void write_tensors(const std::filesystem::path& path, const std::vector<std::string>& names) {
  std::vector<TensorSpec> specs;
  for (const auto& name : names) specs.push_back({name, SafetensorsDtype::u8, {1}});
  SafetensorsWriter writer(path, specs);
  for (const auto& name : names) writer.write(name, as_bytes("x"));
  writer.finish();
}

void write_index(const ScratchFolder& folder, std::string_view weight_map) {
  write_file_atomic(folder / kIndexFile,
                    format(R"({"metadata":{"total_size":2},"weight_map":{}})", weight_map));
}

std::string open_error_of(const ScratchFolder& folder) {
  return error_of([&] { SafetensorsFolder opened(folder.path()); });
}

}  // namespace

TEST_CASE("a single file is found in a folder and by its own path") {
  const ScratchFolder folder;
  write_tensors(folder / kSingleFile, {"a", "b"});
  CHECK(SafetensorsFolder(folder.path()).entries().size() == 2);
  CHECK(SafetensorsFolder(folder / kSingleFile).find("b") != nullptr);
  CHECK(SafetensorsFolder(folder.path()).find("c") == nullptr);
}

TEST_CASE("a sharded folder gives the tensors of every shard") {
  const ScratchFolder folder;
  write_tensors(folder / "s1.safetensors", {"a"});
  write_tensors(folder / "s2.safetensors", {"b"});
  write_index(folder, R"({"a":"s1.safetensors","b":"s2.safetensors"})");
  const SafetensorsFolder opened(folder.path());
  REQUIRE(opened.find("b") != nullptr);
  CHECK(opened.find("b")->file->path() == folder / "s2.safetensors");
}

TEST_CASE("a missing shard is named with how many are missing") {
  const ScratchFolder folder;
  write_tensors(folder / "s1.safetensors", {"a"});
  write_index(folder, R"({"a":"s1.safetensors","b":"s2.safetensors"})");
  const auto error = open_error_of(folder);
  CHECK(contains(error, "1 of the 2 files"));
  CHECK(contains(error, "s2.safetensors"));
}

TEST_CASE("an index that lists a tensor its shard lacks is an error") {
  const ScratchFolder folder;
  write_tensors(folder / "s1.safetensors", {"a"});
  write_index(folder, R"({"a":"s1.safetensors","lm_head.weight":"s1.safetensors"})");
  CHECK(contains(open_error_of(folder),
                 "lists 1 tensors that the files lack: lm_head.weight in s1.safetensors"));
}

TEST_CASE("a tensor in two shards, or in another than listed, is an error") {
  const ScratchFolder folder;
  write_tensors(folder / "s1.safetensors", {"a", "b"});
  write_tensors(folder / "s2.safetensors", {"b"});
  write_index(folder, R"({"a":"s1.safetensors","b":"s2.safetensors"})");
  const auto twice = open_error_of(folder);
  CHECK(contains(twice, "tensor b is in two files"));
  CHECK(contains(twice, "s1.safetensors"));
  CHECK(contains(twice, "s2.safetensors"));

  write_tensors(folder / "s2.safetensors", {"c"});
  write_index(folder, R"({"a":"s2.safetensors","b":"s1.safetensors","c":"s2.safetensors"})");
  CHECK(contains(open_error_of(folder), "lists tensor a in s2.safetensors, but it is in s1.safetensors"));
}

TEST_CASE("a damaged index is an error that names it") {
  const ScratchFolder folder;
  write_tensors(folder / "s1.safetensors", {"a"});
  write_file_atomic(folder / kIndexFile, "{");
  CHECK(contains(open_error_of(folder), "not valid JSON"));
  write_file_atomic(folder / kIndexFile, "{}");
  CHECK(contains(open_error_of(folder), "\"weight_map\" is missing"));
  write_index(folder, "{}");
  CHECK(contains(open_error_of(folder), "weight_map is empty"));
  write_index(folder, R"({"a":3})");
  CHECK(contains(open_error_of(folder), "expected a string"));
  for (const char* path : {"../s1.safetensors", "/etc/passwd", "sub/s1.safetensors", "..", ""}) {
    CAPTURE(path);
    write_index(folder, format(R"({"a":"{}"})", path));
    CHECK(contains(open_error_of(folder), "must be a name in the same folder"));
  }
}

TEST_CASE("a truncated shard is named") {
  const ScratchFolder folder;
  write_tensors(folder / "s1.safetensors", {"a", "b"});
  const std::string whole = read_file(folder / "s1.safetensors");
  write_file_atomic(folder / "s1.safetensors", whole.substr(0, whole.size() - 1));
  write_index(folder, R"({"a":"s1.safetensors","b":"s1.safetensors"})");
  CHECK(contains(open_error_of(folder), "s1.safetensors is cut"));
}

TEST_CASE("a folder without weights says what it holds instead") {
  const ScratchFolder folder;
  CHECK(contains(open_error_of(folder), "neither model.safetensors nor"));
  write_file_atomic(folder / "pytorch_model.bin", "x");
  CHECK(contains(open_error_of(folder), "pickled weights (pytorch_model.bin)"));
  CHECK(contains(error_of([&] { SafetensorsFolder opened(folder / "no"); }), "does not exist"));
}

TEST_CASE("a single file beside an index of other files is ambiguous") {
  const ScratchFolder folder;
  write_tensors(folder / kSingleFile, {"a"});
  write_tensors(folder / "s1.safetensors", {"a"});
  write_index(folder, R"({"a":"s1.safetensors"})");
  CHECK(contains(open_error_of(folder), "remove the one that is out of date"));
}

TEST_CASE("shards hold at most the given bytes and keep the order") {
  const auto spec = [](const char* name, int64_t bytes) {
    return TensorSpec{name, SafetensorsDtype::u8, {bytes}};
  };
  const auto plan =
      plan_shards({spec("a", 4), spec("b", 6), spec("c", 1), spec("huge", 30), spec("d", 1)}, 10);
  REQUIRE(plan.size() == 4);
  CHECK(plan[0].size() == 2);
  CHECK(plan[1].front().name == "c");
  CHECK(plan[2].front().name == "huge");
  CHECK(plan[3].front().name == "d");
}

TEST_CASE("a sharded writer names its files, writes the index of what it wrote, and reads back") {
  const ScratchFolder folder;
  const std::vector<TensorSpec> specs = {{"b", SafetensorsDtype::f32, {2}},
                                         {"a", SafetensorsDtype::f32, {1}},
                                         {"none", SafetensorsDtype::f32, {0}}};
  ShardedWriter writer(folder.path(), specs, 8);
  writer.write("b", as_bytes("1234"));
  writer.write("a", as_bytes("abcd"));
  writer.write("b", as_bytes("5678"));
  writer.write("none", {});
  writer.finish();
  const Json index = Json::parse_file(folder / kIndexFile);
  CHECK(index["metadata"]["total_size"].as_int() == 12);
  CHECK(index["weight_map"]["b"].as_string() == "model-00001-of-00002.safetensors");
  CHECK(index["weight_map"]["a"].as_string() == "model-00002-of-00002.safetensors");
  CHECK(index["weight_map"].size() == 3);
  const SafetensorsFolder opened(folder.path());
  CHECK(opened.find("b")->view->bytes.size() == 8);
  CHECK(count_entries(folder.path()) == 3);
}

TEST_CASE("one shard is model.safetensors with an index beside it") {
  const ScratchFolder folder;
  ShardedWriter writer(folder.path(), {{"a", SafetensorsDtype::u8, {1}}}, 8);
  writer.write("a", as_bytes("a"));
  writer.finish();
  CHECK(Json::parse_file(folder / kIndexFile)["weight_map"]["a"].as_string() == kSingleFile);
  CHECK(SafetensorsFolder(folder.path()).entries().size() == 1);
}

TEST_CASE("a sharded writer refuses to finish without every tensor") {
  const ScratchFolder folder;
  ShardedWriter writer(folder.path(), {{"a", SafetensorsDtype::u8, {1}}, {"b", SafetensorsDtype::u8, {1}}},
                       1);
  writer.write("a", as_bytes("a"));
  CHECK(contains(error_of([&] { writer.finish(); }), "tensor b were not written"));
  CHECK_FALSE(std::filesystem::exists(folder / kIndexFile));
}
