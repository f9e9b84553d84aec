#include "titan/config/module_compile.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <set>

#include "titan/base/build_info.h"
#include "titan/base/env.h"
#include "titan/base/error.h"
#include "titan/base/file.h"
#include "titan/base/log.h"
#include "titan/base/sha256.h"
#include "titan/base/strings.h"
#include "titan/config/compiler.h"
#include "titan/config/module_source.h"

namespace titan {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kStampStart = "titan-module-stamp:";
constexpr std::string_view kStampEnd = ";end";
constexpr std::string_view kTorchMark = ";torch=";

/// The part of a stamp that must agree for every module.
std::string compatibility() {
  return format("{}headers={};cxx11abi={}", kStampStart, build_info().headers, _GLIBCXX_USE_CXX11_ABI);
}

const std::vector<std::string>& common_flags() {
  // Hidden by default and without unique symbols: same-named types of two modules must not share code.
  static const std::vector<std::string> flags = {"-std=c++20",
                                                 "-O1",
                                                 "-fPIC",
                                                 "-shared",
                                                 "-fvisibility=hidden",
                                                 "-fno-gnu-unique",
                                                 "-ffp-contract=off",
                                                 "-Wno-missing-field-initializers",
                                                 "-Werror=return-type",
                                                 "-fdiagnostics-color=never"};
  return flags;
}

/// The cache folder for modules: the user's, or one in the temporary folder that nobody else can write.
fs::path module_cache() {
  const fs::path folder = cache_folder() / "modules";
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (!failed && ::access(folder.c_str(), W_OK | X_OK) == 0) return folder;

  const fs::path base = own_temporary_folder();
  fs::create_directories(base / "modules");
  return base / "modules";
}

/// Held for as long as this lives; processes that end release theirs.
class FileLock {
 public:
  explicit FileLock(const fs::path& path) : file_(::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600)) {
    if (file_ < 0) throw ValueError("cannot open {}: {}", path.string(), std::strerror(errno));
    if (::flock(file_, LOCK_EX | LOCK_NB) == 0) return;
    waited_ = true;
    while (::flock(file_, LOCK_EX) != 0) {
      if (errno != EINTR) throw ValueError("cannot lock {}: {}", path.string(), std::strerror(errno));
    }
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock() { ::close(file_); }

  bool waited() const { return waited_; }

 private:
  int file_;
  bool waited_ = false;
};

/// A compiler is known by its file: asking it for its version would cost more than all the rest of a second
/// call.
std::string compiler_identity(const fs::path& compiler) {
  struct stat info{};
  ::stat(compiler.c_str(), &info);
  return format("{} {} {}", fs::weakly_canonical(compiler).string(), info.st_size, info.st_mtime);
}

/// As `#include` takes a path, where nothing is escaped.
std::string include_name(const std::string& path) {
  if (path.find('\n') != path.npos) throw ConfigError("a module's path cannot hold a line break: {}", path);
  if (path.find('"') == path.npos) return '"' + path + '"';
  if (path.find('>') == path.npos) return '<' + path + '>';
  throw ConfigError("a module's path cannot hold both \" and >: {}", path);
}

/// The file that is compiled: the user's, between titan's headers and the list of its functions. Titan's
/// headers come first and visible, so that their types are one with the host's. The names around a function's
/// call are such as no user writes, since they would hide his.
std::string glue_text(const fs::path& source, const ModuleSource& scanned) {
  std::string text = "#pragma GCC visibility push(default)\n#include \"titan/recipes.h\"\n";
  for (const std::string& header : scanned.titan_headers) text += format("#include \"{}\"\n", header);
  text += "#include \"titan/config/module_exports.h\"\n#pragma GCC visibility pop\n";
  text += format("#include {}\n", include_name(source.string()));
  text += format(
      "extern \"C\" [[gnu::visibility(\"default\"), gnu::used]] const char titan_module_stamp[] = \"{}\";\n",
      module_stamp(scanned.needs_torch));
  text +=
      "extern \"C\" [[gnu::visibility(\"default\")]] void titan_module_exports(titan::ModuleExports& "
      "titan_exports_) {\n";
  for (const std::string& name : scanned.functions) {
    // What looks like a function may be a macro: TORCH_LIBRARY(ns, m) { ... }.
    text += format(
        "#ifndef {}\n"
        "  titan::export_by_type(titan_exports_, \"{}\", [](auto... titan_given_) -> "
        "decltype({}(titan_given_...)) { return {}(titan_given_...); });\n"
        "#endif\n",
        name, name, name, name);
  }
  return text + "}\n";
}

/// The files that belong to one compiled module in the cache.
struct CacheEntry {
  fs::path folder;
  std::string key;
  fs::path file(std::string_view ending) const { return folder / (key + std::string(ending)); }
};

CacheEntry entry_for(const fs::path& source) {
  std::string text = format("{}\n{}\n", module_stamp(false), source.string());
  for (const std::string& flag : common_flags()) text += flag + "\n";
  text += read_file(source);
  constexpr size_t kKeyDigits = 24;
  return {module_cache(), format("{}-{}", source.stem().string(), sha256(text).substr(0, kKeyDigits))};
}

/// What is there under a name, "-" for nothing.
std::string content_hash(const fs::path& file) {
  std::error_code ignored;
  return fs::is_regular_file(file, ignored) ? sha256(MappedFile(file).text()) : "-";
}

/// A manifest has the compiler's identity in its first line, then `hash path` for every file that went in,
/// and for those that would have, had they been there.
std::string manifest_of(const fs::path& compiler, const std::set<fs::path>& files) {
  std::string text = compiler_identity(compiler) + "\n";
  for (const fs::path& file : files) text += format("{} {}\n", content_hash(file), file.string());
  return text;
}

bool is_current(const CacheEntry& entry, const std::optional<fs::path>& compiler) {
  if (!fs::exists(entry.file(".so")) || !fs::exists(entry.file(".deps"))) return false;
  if (!is_compatible_stamp(read_module_stamp(entry.file(".so")))) return false;  // cut short by a crash
  const std::vector<std::string> lines = split(read_file(entry.file(".deps")), '\n');
  if (compiler && lines[0] != compiler_identity(*compiler)) return false;
  for (size_t i = 1; i < lines.size(); ++i) {
    if (lines[i].empty()) continue;
    const size_t space = lines[i].find(' ');
    if (content_hash(lines[i].substr(space + 1)) != lines[i].substr(0, space)) return false;
  }
  return true;
}

void require_matching_headers() {
  const std::string now = headers_hash(include_folder());
  if (now == build_info().headers) return;
  throw ConfigError(
      "titan's headers in {} are not those that this titan was built with: build it again (make)",
      include_folder().string());
}

std::vector<std::string> compile_command(const fs::path& compiler, const CacheEntry& entry,
                                         const fs::path& source, bool needs_torch) {
  std::vector<std::string> command = {compiler.string()};
  command.insert(command.end(), common_flags().begin(), common_flags().end());
  command.push_back("-I" + include_folder().string());
  if (needs_torch) {
    const fs::path include = build_info().torch_dir / "include";
    if (!fs::exists(include)) {
      throw ConfigError(
          "{} includes torch's headers, but there are none in {}: build titan again where torch is (make)",
          source.string(), include.string());
    }
    for (const std::string& flag : {std::string("-isystem"), include.string(), std::string("-isystem"),
                                    (include / "torch/csrc/api/include").string(),
                                    std::string("-DAT_PER_OPERATOR_HEADERS"), std::string("-fopenmp")}) {
      command.push_back(flag);
    }
  }
  for (const std::string& word :
       {std::string("-MMD"), std::string("-MF"), entry.file(".d").string(), std::string("-o"),
        entry.file(".tmp").string(), entry.file(".cpp").string()}) {
    command.push_back(word);
  }
  return command;
}

/// Removes what has not been used for two months.
void prune(const fs::path& folder) {
  constexpr auto kKept = std::chrono::hours(24 * 60);
  std::error_code ignored;
  for (const auto& file : fs::directory_iterator(folder, ignored)) {
    const auto age = fs::file_time_type::clock::now() - file.last_write_time(ignored);
    if (!ignored && age > kKept) fs::remove(file.path(), ignored);
  }
}

void compile(const fs::path& compiler, const CacheEntry& entry, const fs::path& source) {
  require_matching_headers();
  const ModuleSource scanned = scan_source(source, include_folder());
  fs::remove(entry.file(".failed"));
  log_info("Compiling {} (kept in {})", source.string(), entry.folder.string());
  write_file_atomic(entry.file(".cpp"), glue_text(source, scanned));
  const std::vector<std::string> command = compile_command(compiler, entry, source, scanned.needs_torch);
  if (run_logged(command, entry.file(".log")) != 0) {
    const std::string output = read_file(entry.file(".log"));
    const std::string message =
        format("{} does not compile:\n{}(the compiler's whole output: {})", source.string(),
               readable_errors(output, source.parent_path()), entry.file(".log").string());
    write_file_atomic(entry.file(".failed"), message);
    throw ConfigError("{}", message);
  }
  std::set<fs::path> files(scanned.looked_for.begin(), scanned.looked_for.end());
  for (const std::string& file : parse_dependencies(read_file(entry.file(".d")))) files.insert(file);
  files.erase(entry.file(".cpp"));
  // Without its manifest a library is not current, so nobody can see the new one with the old manifest.
  fs::remove(entry.file(".deps"));
  fs::rename(entry.file(".tmp"), entry.file(".so"));
  write_file_atomic(entry.file(".deps"), manifest_of(compiler, files));
  prune(entry.folder);
}

}  // namespace

std::string module_stamp(bool needs_torch) {
  return format("{}{}{};compiler={}{}", compatibility(), kTorchMark,
                needs_torch ? build_info().torch_version : "no", build_info().compiler_version, kStampEnd);
}

std::string read_module_stamp(const fs::path& library) {
  const MappedFile file(library);
  const size_t start = file.text().find(kStampStart);
  if (start == std::string_view::npos) return "";
  const size_t end = file.text().find(kStampEnd, start);
  return end == std::string_view::npos ? "" : std::string(file.text().substr(start, end - start));
}

bool is_compatible_stamp(std::string_view stamp) {
  if (!stamp.starts_with(compatibility() + std::string(kTorchMark))) return false;
  return !stamp_needs_torch(stamp) ||
         module_stamp(true).starts_with(stamp.substr(0, stamp.rfind(";compiler=")));
}

bool stamp_needs_torch(std::string_view stamp) {
  const size_t mark = stamp.find(kTorchMark);
  return mark != stamp.npos && !stamp.substr(mark + kTorchMark.size()).starts_with("no");
}

fs::path compiled_module(const fs::path& source) {
  const CacheEntry entry = entry_for(source);
  const auto compiler = find_compiler();
  if (is_current(entry, compiler)) return entry.file(".so");
  if (!compiler) {
    throw ConfigError(
        "{} must be compiled, and there is no C++ compiler here{}. Either install one (g++ 12 or newer), or "
        "do "
        "it elsewhere: "
        "`titan config --module {} --config NAME --json > FILE.json` and here `--config FILE.json` without "
        "--module; or "
        "`titan config --module {} --compile-to {}.so`, and put that file beside the source's name here",
        source.string(), env("CXX") ? format(" (CXX={})", *env("CXX")) : "", source.stem().string(),
        source.stem().string(), source.stem().string());
  }
  const FileLock lock(entry.file(".lock"));
  if (is_current(entry, compiler)) return entry.file(".so");
  // The process that was waited for has just tried the same; its errors are ours.
  if (lock.waited() && fs::exists(entry.file(".failed")))
    throw ConfigError("{}", read_file(entry.file(".failed")));
  compile(*compiler, entry, source);
  return entry.file(".so");
}

}  // namespace titan
