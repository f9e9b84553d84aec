#include "titan/config/module_source.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>

#include "titan/base/build_info.h"
#include "titan/base/file.h"
#include "titan/base/sha256.h"

using namespace titan;

namespace fs = std::filesystem;

namespace {
std::vector<std::string> functions(std::string_view text) { return scan_text(text).functions; }
using Names = std::vector<std::string>;

struct TemporaryFolder {
  fs::path path = fs::temp_directory_path() / ("titan scan é " + std::to_string(::getpid()));
  TemporaryFolder() { fs::create_directories(path); }
  ~TemporaryFolder() { fs::remove_all(path); }
};
}  // namespace

TEST_CASE("functions defined at file scope are found, whatever their signature looks like") {
  CHECK(functions("TrainerConfig a() { return {}; }\nauto b(int x = 3) -> int { return x; }") ==
        Names{"a", "b"});
  CHECK(functions("titan::TrainerConfig c(std::string s = \"}{\") noexcept { return {}; }") == Names{"c"});
  CHECK(functions("[[nodiscard]] inline TrainerConfig d() { return {}; }") == Names{"d"});
  CHECK(functions("TrainerConfig größe() { return {}; }") == Names{"größe"});
  CHECK(functions("extern \"C\" { int e() { return 1; } }") == Names{"e"});
  CHECK(functions("struct S { int x; } f() { return {}; }").size() <= 1);
}

TEST_CASE("what is not a public function definition is left out") {
  CHECK(functions("static int a() { return 1; }").empty());
  CHECK(functions("TrainerConfig declared();").empty());
  CHECK(functions("template <class T> T t() { return {}; }").empty());
  CHECK(functions("namespace { int hidden() { return 1; } }").empty());
  CHECK(functions("struct A { int member() { return 1; } A() {} };").empty());
  CHECK(functions("int A::member() { return 1; }").empty());
  CHECK(functions("const auto f = [](int x) { return x; };").empty());
  CHECK(functions("const auto op = nki_op(\"a::b\", [](int x) { return x; });").empty());
  CHECK(functions("bool operator==(A a, A b) { return true; }").empty());
  CHECK(
      functions("// int commented() { }\n/* int also() { } */ const char* s = \"int quoted() {}\";").empty());
  CHECK(functions("const char* raw = R\"x(int in_raw() {\")x\";").empty());
  CHECK(functions("#define M() int macro() { }\n").empty());
}

TEST_CASE("what comes after odd text is still found") {
  CHECK(functions("const int big = 1'000'000; char quote = '\\''; char brace = '{';\nTrainerConfig a() {}") ==
        Names{"a"});
  CHECK(functions("const char* raw = R\"(\" { )\";\nTrainerConfig a() {}") == Names{"a"});
  CHECK(functions("struct S { int f() { return 1; } };\nenum class E { x };\nTrainerConfig a() {}") ==
        Names{"a"});
  CHECK(functions("int values[] = {1, 2};\nstd::vector<int> v{1};\nTrainerConfig a() {}") == Names{"a"});
  CHECK(functions("// a comment that goes on \\\n int hidden() {\nTrainerConfig a() {}") == Names{"a"});
  CHECK(functions("int A::member() { return 1; }\nTrainerConfig a() {}") == Names{"a"});
  CHECK(functions("template <>\nModulePtr titan::build(const A& a) { return f(a); }\nTrainerConfig a() {}") ==
        Names{"a"});
  CHECK(functions("A::A() : x(1) {}\nTrainerConfig a() {}") == Names{"a"});
  CHECK(functions("struct alignas(16) X { int y; };\nTrainerConfig a() {}") == Names{"a"});
  CHECK(functions("{ { (").empty());
  CHECK(functions("\"never closed").empty());
}

TEST_CASE("a line that a backslash continues is one, whatever its end is") {
  for (const std::string end : {"\n", "\r\n"}) {
    const std::string macro = "#define BLOCK(x) \\" + end + "  g(x) { \\" + end + "   {" + end;
    CHECK(functions(macro + "#define END }}" + end + "TrainerConfig a() {}" + end) == Names{"a"});
    CHECK(scan_text("#include \\" + end + " \"a.h\"" + end).includes.size() == 1);
  }
  CHECK(functions("const char* s = \"\\\\\"; TrainerConfig a() {}\\") == Names{"a"});
}

TEST_CASE("a preprocessor line goes on where its comment does") {
  CHECK(functions("#define NOTE 1 /* begins {\n here ( */\nTrainerConfig a() {}") == Names{"a"});
  CHECK(functions("#define NOTE \"/*\"\nTrainerConfig a() {}\n#define MORE 1'000 // /*\nint b() {}") ==
        Names{"a", "b"});
  CHECK(functions("#define RAW R\"(\" /* )\"\nTrainerConfig a() {}") == Names{"a"});
  CHECK(functions("#if 0\nIt isn't\n#define OPEN {\n#endif\nTrainerConfig a() {}") == Names{"a"});
  CHECK(functions("#define ENDLESS /* {").empty());
}

TEST_CASE("branches of an #if may each open what comes after them") {
  CHECK(functions(
            "#ifdef X\nTrainerConfig a(int) {\n#else\nTrainerConfig a() {\n#endif\n  f(); }\nint b() {}") ==
        Names{"a", "a", "b"});
  CHECK(functions("#if X\nint a() {\n# if Y\n  {\n# elif Z\n  { {\n# else\n  {\n# endif\n  } }\n"
                  "#else\nint b(\n#endif\n) {}\nint c() {}") == Names{"a", "b", "c"});
  CHECK(functions("#if X\nint a() {}\n#elifdef Y\nint b() {}\n#else\nint c() {}\n#endif\nint d() {}") ==
        Names{"a", "b", "c", "d"});
  CHECK(functions("#else\n#endif\n#\nint a() {}\n#if").size() == 1);
}

TEST_CASE("a keyword is no function") {
  for (const std::string word : {"if", "for", "while", "switch", "return", "catch", "sizeof", "void"})
    CHECK(functions(word + " (x) {}").empty());
}

TEST_CASE("macros with arguments hide no function; whether they are one is the compiler's business") {
  CHECK(functions("TORCH_LIBRARY(ns, m) { m.def(\"f\"); }\nTrainerConfig a() {}") ==
        Names{"TORCH_LIBRARY", "a"});
  CHECK(functions("REGISTER(x)\nKEEP(y, 2) TrainerConfig a() {}") == Names{"REGISTER", "KEEP", "a"});
  CHECK(functions("std::function<int(float)> a() { return {}; }") == Names{"a"});
  CHECK(functions("_Pragma(\"GCC ivdep\")\nTrainerConfig a() try {} catch (...) {}") == Names{"a"});
  CHECK(functions("MACRO(x)\nstatic int hidden() {}").empty());
}

TEST_CASE("includes are read with their kind") {
  const auto found =
      scan_text(
          "#include <titan/recipes.h>\n  # include \"common.h\" // x\n#include MACRO\n//#include <no.h>\n")
          .includes;
  REQUIRE(found.size() == 2);
  CHECK(found[0].path == "titan/recipes.h");
  CHECK_FALSE(found[0].quoted);
  CHECK(found[1].path == "common.h");
  CHECK(found[1].quoted);
}

TEST_CASE("local headers are followed, also in circles") {
  const TemporaryFolder folder;
  write_file_atomic(folder.path / "m.cpp",
                    "#include <titan/recipes.h>\n#include \"a.h\"\nTrainerConfig m() { return {}; }");
  write_file_atomic(folder.path / "a.h", "#include \"b.h\"\ninline TrainerConfig a() { return {}; }");
  write_file_atomic(
      folder.path / "b.h",
      "#include \"a.h\"\n#include <titan/config/derive.h>\ninline TrainerConfig b() { return {}; }");
  const ModuleSource source = scan_source(folder.path / "m.cpp", include_folder());
  CHECK(source.functions == Names{"m", "a", "b"});
  CHECK(source.titan_headers == Names{"titan/recipes.h", "titan/config/derive.h"});
  CHECK_FALSE(source.needs_torch);
}

TEST_CASE("where quoted headers are looked for first is noted, also where nothing is yet") {
  const TemporaryFolder folder;
  write_file_atomic(
      folder.path / "m.cpp",
      "#include \"h.h\"\n#include \"titan/recipes.h\"\n#include <other.h>\n"
      "#if !__has_include(\"q.h\") && __has_include( \"sub/r.h\" ) && __has_include(<s.h>)\n#endif\n");
  write_file_atomic(folder.path / "h.h", "");
  const std::vector<fs::path> expected = {folder.path / "h.h", folder.path / "titan/recipes.h",
                                          folder.path / "q.h", folder.path / "sub/r.h"};
  CHECK(scan_source(folder.path / "m.cpp", include_folder()).looked_for == expected);
}

TEST_CASE("a module needs torch when it, or a header of titan's that it includes, does") {
  const TemporaryFolder folder;
  write_file_atomic(folder.path / "direct.cpp", "#include <ATen/core/Tensor.h>\n");
  write_file_atomic(folder.path / "through.cpp", "#include <titan/nn/module.h>\n");
  CHECK(scan_source(folder.path / "direct.cpp", include_folder()).needs_torch);
  CHECK(scan_source(folder.path / "through.cpp", include_folder()).needs_torch);
}

TEST_CASE("the build and the running program agree on the hash of the headers") {
  CHECK(headers_hash(include_folder()) == build_info().headers);
}

TEST_CASE("SHA-256 of the standard's examples") {
  CHECK(sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(sha256(std::string(1000000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}
