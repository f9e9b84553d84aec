#include "titan/data/unpack.h"

#include <zlib.h>
#include <zstd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "titan/base/error.h"

namespace titan {

namespace {

constexpr size_t kPiece = 1 << 20;

using OpenFile = std::unique_ptr<FILE, decltype([](FILE* f) { std::fclose(f); })>;

OpenFile open_file(const std::filesystem::path& path, const char* mode) {
  OpenFile file(std::fopen(path.c_str(), mode));
  if (!file) throw ValueError("cannot open {}: {}", path.string(), std::strerror(errno));
  return file;
}

/// Collects unpacked bytes into the target.
class Writer {
 public:
  explicit Writer(const std::filesystem::path& path) : path_(path), file_(open_file(path, "wb")) {}
  void write(const char* data, size_t size) {
    if (std::fwrite(data, 1, size, file_.get()) != size) fail();
  }
  void finish() {
    if (std::fflush(file_.get()) != 0) fail();
  }

 private:
  [[noreturn]] void fail() const {
    throw ValueError(
        "cannot write {}: {}; unpacked data sets are kept there, set TITAN_CACHE_DIR to a folder with room",
        path_.string(), std::strerror(errno));
  }

  std::filesystem::path path_;
  OpenFile file_;
};

void unpack_gzip(const std::filesystem::path& path, Writer& writer) {
  const std::unique_ptr<gzFile_s, decltype([](gzFile f) { gzclose_r(f); })> file(gzopen(path.c_str(), "rb"));
  if (!file) throw ValueError("cannot open {}: {}", path.string(), std::strerror(errno));
  gzbuffer(file.get(), 1 << 17);
  // zlib hands through what has no gzip header at all; a name that ends in .gz promises one.
  if (gzdirect(file.get())) throw ValueError("{} is not gzip data, although its name says so", path.string());
  std::vector<char> piece(kPiece);
  while (true) {
    const int size = gzread(file.get(), piece.data(), static_cast<unsigned>(piece.size()));
    int code = Z_OK;
    const char* reason = gzerror(file.get(), &code);
    if (size < 0 || code == Z_BUF_ERROR)
      throw ValueError("{} is {}: {}", path.string(), code == Z_BUF_ERROR ? "cut off" : "broken gzip data",
                       code == Z_ERRNO ? std::strerror(errno) : reason);
    if (size == 0) return;
    writer.write(piece.data(), static_cast<size_t>(size));
  }
}

void unpack_zstd(const std::filesystem::path& path, Writer& writer) {
  const OpenFile file = open_file(path, "rb");
  const std::unique_ptr<ZSTD_DStream, decltype([](ZSTD_DStream* s) { ZSTD_freeDStream(s); })> stream(
      ZSTD_createDStream());
  // Files packed with --long=31 need up to 2 GiB of window, which only such files then use.
  ZSTD_DCtx_setParameter(stream.get(), ZSTD_d_windowLogMax, 31);
  std::vector<char> packed(ZSTD_DStreamInSize()), piece(ZSTD_DStreamOutSize());
  size_t wanted = 1;  // 0 at the end of a frame
  bool read_any = false;
  while (const size_t size = std::fread(packed.data(), 1, packed.size(), file.get())) {
    read_any = true;
    ZSTD_inBuffer in{packed.data(), size, 0};
    while (in.pos < in.size) {  // the decoder holds back a byte while output waits
      ZSTD_outBuffer out{piece.data(), piece.size(), 0};
      wanted = ZSTD_decompressStream(stream.get(), &out, &in);
      if (ZSTD_isError(wanted))
        throw ValueError("{} is broken zstd data: {}", path.string(), ZSTD_getErrorName(wanted));
      writer.write(piece.data(), out.pos);
    }
  }
  if (std::ferror(file.get())) throw ValueError("cannot read {}: {}", path.string(), std::strerror(errno));
  if (!read_any || wanted != 0)
    throw ValueError("{} is cut off: its last zstd frame has no end", path.string());
}

}  // namespace

void unpack(const DataFile& file, const std::filesystem::path& target) {
  check(file.compression != Compression::none, "only packed files are unpacked");
  Writer writer(target);
  if (file.compression == Compression::gzip) {
    unpack_gzip(file.path, writer);
  } else {
    unpack_zstd(file.path, writer);
  }
  writer.finish();
}

}  // namespace titan
