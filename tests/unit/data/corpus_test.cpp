#include "titan/data/corpus.h"

#include <doctest/doctest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <csignal>

#include "data_fixture.h"
#include "titan/base/error.h"
#include "titan/base/file.h"

using namespace titan;
using titan::testing::DataFolder;

namespace {

Corpus open_corpus(const std::string& path, const std::string& key = "text") {
  return {find_data_files(path), key};
}

std::vector<std::string> texts_of(const std::string& path, const std::string& key = "text") {
  Corpus corpus = open_corpus(path, key);
  std::vector<std::string> texts;
  for (int64_t i = 0; i < corpus.num_documents(); ++i) texts.push_back(corpus.text(i));
  return texts;
}

std::string gzip(const std::string& bytes) {
  std::string packed(compressBound(bytes.size()) + 64, '\0');
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string zstd(const std::string& bytes) {
  std::string packed(ZSTD_compressBound(bytes.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), bytes.data(), bytes.size(), 3));
  return packed;
}

/// One frame whose first block ends behind `first` bytes.
std::string zstd_in_two_blocks(const std::string& bytes, size_t first) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  std::string packed(ZSTD_compressBound(bytes.size()) + 1024, '\0');
  ZSTD_outBuffer out{packed.data(), packed.size(), 0};
  ZSTD_inBuffer begin{bytes.data(), first, 0}, rest{bytes.data() + first, bytes.size() - first, 0};
  REQUIRE(ZSTD_compressStream2(context, &out, &begin, ZSTD_e_flush) == 0);
  REQUIRE(ZSTD_compressStream2(context, &out, &rest, ZSTD_e_end) == 0);
  ZSTD_freeCCtx(context);
  packed.resize(out.pos);
  return packed;
}

}  // namespace

TEST_CASE("JSON lines give a document each, blank lines none") {
  const DataFolder folder;
  const auto path =
      folder.write("a.jsonl", "\n{\"text\": \"one\"}\r\n  \n{\"text\": \"\"}\n{\"text\": \"l\xc3\xa4st\"}");
  CHECK(texts_of(path) == std::vector<std::string>{"one", "", "l\xc3\xa4st"});
  const auto other = folder.write("b.json", "{\"content\": \"one\"}\n");
  CHECK(texts_of(other, "content") == std::vector<std::string>{"one"});
  CHECK(texts_of(folder.write("empty.jsonl", "")).empty());
}

TEST_CASE("a text file is one document, also an empty one") {
  const DataFolder folder;
  folder.write("a.txt", "\xef\xbb\xbfone\ntwo\n");
  folder.write("b.txt", "");
  folder.write("c.txt", "three");
  folder.write("d.txt", "");
  CHECK(texts_of(folder.path().string()) == std::vector<std::string>{"one\ntwo\n", "", "three", ""});
}

TEST_CASE("packed files hold the same documents as plain ones") {
  const DataFolder folder;
  const auto documents = titan::testing::numbered_documents(2000, 2000);
  const std::string lines = read_file(folder.write_lines("plain.jsonl", documents));
  const auto cut = lines.find('\n', lines.size() / 2) + 1;
  for (const auto& path :
       {folder.write("a.jsonl.gz", gzip(lines)), folder.write("b.jsonl.zst", zstd(lines)),
        folder.write("two_members.jsonl.gz", gzip(lines.substr(0, cut)) + gzip(lines.substr(cut))),
        folder.write("two_frames.jsonl.zst", zstd(lines.substr(0, cut)) + zstd(lines.substr(cut)))}) {
    CAPTURE(path);
    CHECK(texts_of(path) == documents);
    CHECK(open_corpus(path).fingerprint() ==
          open_corpus((folder.path() / "plain.jsonl").string()).fingerprint());
  }
}

TEST_CASE("packed files of long repetitions are unpacked to the end") {
  const DataFolder folder;
  const std::vector<std::string> documents{std::string(5'000'000, 'a'), "b"};
  const std::string lines = read_file(folder.write_lines("plain.jsonl", documents));
  CHECK(texts_of(folder.write("a.jsonl.zst", zstd(lines))) == documents);
  CHECK(texts_of(folder.write("b.jsonl.gz", gzip(lines))) == documents);
  // Output is left inside the decoder when all input is used.
  for (const size_t first : {20'000, 100'000})
    CHECK(texts_of(folder.write("c.jsonl.zst", zstd_in_two_blocks(lines, first))) == documents);
}

TEST_CASE("documents run through several files in the order of their names") {
  const DataFolder folder;
  for (int i = 0; i < 40; ++i)
    folder.write_lines("part-" + std::to_string(100 + i) + ".jsonl",
                       {"x" + std::to_string(2 * i), "x" + std::to_string(2 * i + 1)});
  folder.write("part-110a.jsonl", "");
  Corpus corpus = open_corpus(folder.path().string());
  REQUIRE(corpus.num_documents() == 80);
  for (int64_t i = 79; i >= 0; --i) CHECK(corpus.text((i * 7) % 80) == "x" + std::to_string((i * 7) % 80));
}

TEST_CASE("a broken line is named by file and number, also in a packed file") {
  const DataFolder folder;
  const std::string broken = "{\"text\": \"a\"}\n\n{\"text\": \"b\"\n{\"text\": \"c\"}\n";
  const auto plain = folder.write("a.jsonl", broken);
  CHECK_THROWS_WITH_AS(open_corpus(plain),
                       doctest::Contains((plain + ":3: the line is not valid JSON").c_str()), ValueError);
  const auto packed = folder.write("b.jsonl.gz", gzip(broken));
  CHECK_THROWS_WITH_AS(open_corpus(packed), doctest::Contains((packed + ":3:").c_str()), ValueError);
  const auto latin = folder.write("c.jsonl", "{\"text\": \"a\"}\n{\"text\": \"\xe4\"}\n");
  CHECK_THROWS_WITH_AS(open_corpus(latin),
                       doctest::Contains((latin + ":2: invalid UTF-8 at byte 10").c_str()), ValueError);
  const auto text = folder.write("d.txt", "one\ntwo \xff\n");
  CHECK_THROWS_WITH_AS(open_corpus(text), doctest::Contains((text + ":2: invalid UTF-8").c_str()),
                       ValueError);
  // Nothing half-made stays behind.
  for (const auto& entry : std::filesystem::directory_iterator(folder.path() / "cache" / "data")) {
    CHECK(entry.path().extension() != ".tmp");
    CHECK(entry.path().extension() != ".index");
  }
}

TEST_CASE("broken packed files are named") {
  const DataFolder folder;
  const std::string lines =
      read_file(folder.write_lines("plain.jsonl", titan::testing::numbered_documents(500, 500)));
  const std::string gz = gzip(lines), zst = zstd(lines);
  std::string damaged = gz;
  for (size_t i = gz.size() / 2; i < gz.size() / 2 + 64; ++i) damaged[i] = static_cast<char>(~damaged[i]);
  const auto refuse = [&](const std::string& name, const std::string& bytes, const char* reason) {
    const auto path = folder.write(name, bytes);
    CAPTURE(path);
    CHECK_THROWS_WITH_AS(open_corpus(path), doctest::Contains((path + reason).c_str()), ValueError);
  };
  refuse("a.jsonl.gz", gz.substr(0, gz.size() - 100), " is cut off");
  refuse("b.jsonl.gz", damaged, " is broken gzip data");
  refuse("c.jsonl.gz", lines, " is not gzip data");
  refuse("d.jsonl.gz", gz.substr(0, gz.size() - 4), " is cut off");
  refuse("a.jsonl.zst", zst.substr(0, zst.size() - 100), " is cut off");
  refuse("b.jsonl.zst", lines, " is broken zstd data");
  refuse("c.jsonl.zst", "", " is cut off");
}

TEST_CASE("a fingerprint follows the texts, not where they lie") {
  const DataFolder folder;
  const auto one = folder.write_lines("one.jsonl", {"ab", "c"});
  folder.write_lines("two/x.jsonl", {"ab"});
  folder.write("two/y.jsonl", "\n\n{\"id\": 7, \"text\": \"c\"}");
  const auto other = folder.write_lines("other.jsonl", {"a", "bc"});
  CHECK(open_corpus(one).fingerprint() == open_corpus((folder.path() / "two").string()).fingerprint());
  CHECK(open_corpus(one).fingerprint() != open_corpus(other).fingerprint());
}

TEST_CASE("the index is made again when a file changes, and reused when not") {
  const DataFolder folder;
  const auto path = folder.write_lines("a.jsonl", {"one", "two"});
  const auto indices = [&] {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path() / "cache" / "data"))
      count += entry.path().extension() == ".index";
    return count;
  };
  CHECK(texts_of(path).size() == 2);
  CHECK(texts_of(path).size() == 2);
  CHECK(indices() == 1);
  folder.write_lines("a.jsonl", {"one", "two", "three"});
  CHECK(texts_of(path).size() == 3);
  CHECK(indices() == 2);
  const auto time = std::filesystem::last_write_time(path);
  folder.write_lines("a.jsonl", {"one", "two", "three", "four"});
  std::filesystem::last_write_time(path, time);
  CHECK(texts_of(path).size() == 4);
}

TEST_CASE("a file that changes under a running reader is an error that names it") {
  const DataFolder folder;
  const auto path = folder.write_lines("a.jsonl", {"one", "two"});
  Corpus corpus = open_corpus(path);
  folder.write("a.jsonl", std::string(200, 'x'));
  CHECK_THROWS_WITH_AS(corpus.text(1), doctest::Contains((path + " has changed").c_str()), ValueError);
  folder.write("a.jsonl", "");
  CHECK_THROWS_WITH_AS(corpus.text(1), doctest::Contains((path + " is shorter").c_str()), ValueError);
}

TEST_CASE("a full disk is an error that names the cache, and leaves nothing half-made") {
  const DataFolder folder;
  const auto path = folder.write(
      "a.jsonl.gz",
      gzip(read_file(folder.write_lines("b.jsonl", titan::testing::numbered_documents(100, 1000)))));
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4096, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  CHECK_THROWS_WITH_AS(open_corpus(path), doctest::Contains("set TITAN_CACHE_DIR to a folder with room"),
                       ValueError);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK(texts_of(path).size() == 100);
}

#ifndef __SANITIZE_ADDRESS__  // whose allocator keeps no such count
TEST_CASE("memory does not grow with the corpus") {
  const DataFolder folder;
  const auto bytes_held = [&](int64_t num_documents) {
    const auto path = folder.write_lines("a.jsonl", titan::testing::numbered_documents(num_documents, 200));
    malloc_trim(0);
    const auto before = mallinfo2();
    Corpus corpus = open_corpus(path);
    for (int64_t i = 0; i < num_documents; i += 97) corpus.text(i);
    const auto after = mallinfo2();
    return static_cast<int64_t>(after.uordblks + after.hblkhd) -
           static_cast<int64_t>(before.uordblks + before.hblkhd);
  };
  const int64_t small = bytes_held(100), large = bytes_held(50'000);
  CHECK(small > 0);
  CHECK(large <= small + 1024);
}
#endif

TEST_CASE("processes that open a corpus together make its index once") {
  const DataFolder folder;
  const auto path = folder.write(
      "a.jsonl.gz",
      gzip(read_file(folder.write_lines("b.jsonl", titan::testing::numbered_documents(3000, 500)))));
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(texts_of(path).size() == 3000 ? 0 : 1);
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(status == 0);
  }
}
