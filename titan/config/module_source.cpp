#include "titan/config/module_source.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>

#include "titan/base/file.h"
#include "titan/base/sha256.h"
#include "titan/base/strings.h"

namespace titan {

namespace fs = std::filesystem;

namespace {

bool is_word_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}

/// Lines that a backslash continues become one, also where they end in CRLF.
std::string joined_lines(std::string_view text) {
  std::string joined;
  for (size_t at = 0; at < text.size();) {
    const size_t slash = std::min(text.find('\\', at), text.size());
    joined += text.substr(at, slash - at);
    at = slash;
    if (const std::string_view rest = text.substr(at); rest.starts_with("\\\n")) {
      at += 2;
    } else if (rest.starts_with("\\\r\n")) {
      at += 3;
    } else if (!rest.empty()) {
      joined += text[at++];
    }
  }
  return joined;
}

/// Turns text of joined lines into tokens: words, preprocessor lines from their `#`, and single characters
/// for everything else. Comments and literals are left out; what the lines include or ask for is collected
/// on the way.
class Tokenizer {
 public:
  Tokenizer(std::string_view text, ScannedText& found) : text_(text), found_(found) {}

  /// The next token; empty at the end.
  std::string_view next() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        line_start_ = true;
        ++at_;
      } else if (std::isspace(static_cast<unsigned char>(c))) {
        ++at_;
      } else if (skip_comment()) {
        continue;
      } else if (c == '#' && line_start_) {
        return preprocessor_line();
      } else {
        line_start_ = false;
        if (c == '"' || c == '\'') {
          skip_literal(c);
        } else if (is_word_char(c)) {
          return word();
        } else {
          return text_.substr(at_++, 1);
        }
      }
    }
    return {};
  }

 private:
  std::string_view rest() const { return text_.substr(at_); }

  bool skip_comment() {
    if (rest().starts_with("//")) {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (rest().starts_with("/*")) {
      const size_t end = text_.find("*/", at_ + 2);
      at_ = end == text_.npos ? text_.size() : end + 2;
    } else {
      return false;
    }
    return true;
  }

  /// To the end of the line, or of that where a comment ends which begins here.
  void skip_line() {
    while (at_ < text_.size() && text_[at_] != '\n') {
      if (skip_comment()) continue;
      const char c = text_[at_];
      if (c == '"' || c == '\'') {
        skip_literal(c);
      } else if (is_word_char(c)) {
        word();
      } else {
        ++at_;
      }
    }
  }

  std::string_view preprocessor_line() {
    const size_t start = at_;
    skip_line();
    const std::string_view found = text_.substr(start, at_ - start);
    const std::string_view line = trim(found.substr(1));
    note_asked_for(line);
    if (line.starts_with("include")) note_include(line);
    return found;
  }

  void note_include(std::string_view line) {
    line = trim(line.substr(std::string_view("include").size()));
    if (line.empty() || (line[0] != '"' && line[0] != '<')) return;
    const size_t end = line.find(line[0] == '"' ? '"' : '>', 1);
    if (end != line.npos) found_.includes.push_back({std::string(line.substr(1, end - 1)), line[0] == '"'});
  }

  void note_asked_for(std::string_view line) {
    constexpr std::string_view kQuestion = "__has_include";
    for (size_t at = line.find(kQuestion); at != line.npos; at = line.find(kQuestion)) {
      line.remove_prefix(at + kQuestion.size());
      const size_t open = line.find('"'), close = open == line.npos ? open : line.find('"', open + 1);
      if (close != line.npos && trim(line.substr(0, open)) == "(")
        found_.asked_for.emplace_back(line.substr(open + 1, close - open - 1));
    }
  }

  void skip_literal(char quote) {
    for (++at_; at_ < text_.size() && text_[at_] != quote; ++at_) {
      if (text_[at_] == '\n') return;  // an apostrophe
      if (text_[at_] == '\\') ++at_;
    }
    at_ = std::min(at_ + 1, text_.size());
  }

  void skip_raw_string() {
    const size_t open = text_.find('(', at_);
    if (open == text_.npos) {
      at_ = text_.size();
      return;
    }
    const std::string close = format("){}\"", text_.substr(at_ + 1, open - at_ - 1));
    const size_t end = text_.find(close, open);
    at_ = end == text_.npos ? text_.size() : end + close.size();
  }

  std::string_view word() {
    const size_t start = at_;
    // A quote between digits separates them: 1'000.
    while (at_ < text_.size() && (is_word_char(text_[at_]) || is_digit_separator(start))) ++at_;
    const std::string_view found = text_.substr(start, at_ - start);
    constexpr std::array kRawPrefixes = {"R", "u8R", "uR", "UR", "LR"};
    if (at_ < text_.size() && text_[at_] == '"' &&
        std::ranges::find(kRawPrefixes, found) != kRawPrefixes.end()) {
      skip_raw_string();
    }
    return found;
  }

  bool is_digit_separator(size_t word_start) const {
    return text_[at_] == '\'' && std::isdigit(static_cast<unsigned char>(text_[word_start])) &&
           at_ + 1 < text_.size() && is_word_char(text_[at_ + 1]);
  }

  std::string_view text_;
  ScannedText& found_;
  size_t at_ = 0;
  bool line_start_ = true;
};

/// Follows the nesting of a file and collects the functions defined at its outermost level.
class FileScope {
 public:
  explicit FileScope(std::vector<std::string>& functions) : functions_(functions) {}

  void add(std::string_view token) {
    if (token.front() == '#') {
      branch(trim(token.substr(1)));
    } else if (now_.depth > 0) {
      now_.depth += token == "{" ? 1 : token == "}" ? -1 : 0;
    } else if (now_.parens > 0) {
      now_.parens += token == "(" || token == "[" ? 1 : token == ")" || token == "]" ? -1 : 0;
    } else if (token == "(" || token == "[") {
      if (token == "(" && !now_.statement.empty()) note_callee();
      now_.parens = 1;
    } else if (token == "{") {
      open_brace();
    } else if (token == ";" || token == "}") {  // "}" closes extern "C" {
      now_ = {};
    } else {
      now_.statement.emplace_back(token);
    }
  }

 private:
  struct Place {
    std::vector<std::string> statement;
    std::vector<std::string> callees;
    bool is_member = false;  // defined outside of its class
    int depth = 0;           // of braces
    int parens = 0;          // of parentheses and brackets
  };

  /// Each branch of an #if begins where the first does: two may open one function's body.
  void branch(std::string_view directive) {
    if (directive.starts_with("if")) {
      branched_.push_back(now_);
    } else if (directive.starts_with("el") && !branched_.empty()) {
      now_ = branched_.back();
    } else if (directive.starts_with("endif") && !branched_.empty()) {
      branched_.pop_back();
    }
  }

  bool has(std::string_view word) const {
    return std::ranges::find(now_.statement, word) != now_.statement.end();
  }

  /// A word with parentheses is the function's name, or a macro in front of it or behind it.
  void note_callee() {
    static const std::set<std::string, std::less<>> not_names = {
        "_Pragma",  "__attribute__", "alignas",   "alignof",  "asm",      "auto",   "bool",   "catch",
        "char",     "co_await",      "co_return", "co_yield", "decltype", "delete", "do",     "double",
        "else",     "explicit",      "float",     "for",      "if",       "int",    "long",   "new",
        "noexcept", "operator",      "requires",  "return",   "short",    "signed", "sizeof", "static_assert",
        "switch",   "throw",         "typeid",    "unsigned", "void",     "while"};
    const std::string& last = now_.statement.back();
    if (not_names.contains(last) || !is_word_char(last[0])) return;
    now_.callees.push_back(last);
    if (now_.callees.size() == 1)
      now_.is_member = now_.statement.size() > 1 && now_.statement[now_.statement.size() - 2] == ":";
  }

  void open_brace() {
    if (now_.statement == std::vector<std::string>{"extern"}) {
      now_ = {};
      return;
    }
    const bool is_function = !now_.callees.empty() && !has("=") && !has("namespace");
    const bool is_private = now_.is_member || has("static") || has("template") || has("operator");
    if (is_function && !is_private)
      functions_.insert(functions_.end(), now_.callees.begin(), now_.callees.end());
    if (is_function || has("namespace")) now_ = {};
    now_.depth = 1;  // a class or an initialiser goes on to its ";"
  }

  std::vector<std::string>& functions_;
  Place now_;
  std::vector<Place> branched_;  // where each #if was that is not over
};

bool is_torch_header(std::string_view path) {
  constexpr std::array<std::string_view, 4> kFolders = {"ATen/", "torch/", "c10/", "caffe2/"};
  return std::ranges::any_of(kFolders, [&](std::string_view folder) { return path.starts_with(folder); });
}

template <class T>
void add_once(std::vector<T>& list, const T& value) {
  if (std::ranges::find(list, value) == list.end()) list.push_back(value);
}

class SourceScan {
 public:
  explicit SourceScan(fs::path include_folder) : include_folder_(std::move(include_folder)) {}

  ModuleSource found;

  void add_file(const fs::path& file, bool is_users) {
    if (!seen_.insert(file.lexically_normal()).second) return;
    const ScannedText scanned = scan_text(read_file(file));
    if (is_users) {
      for (const std::string& function : scanned.functions) add_once(found.functions, function);
    }
    for (const IncludeLine& include : scanned.includes) add_include(include, file, is_users);
    if (!is_users) return;
    for (const std::string& path : scanned.asked_for) found.looked_for.push_back(file.parent_path() / path);
  }

 private:
  void add_include(const IncludeLine& include, const fs::path& from, bool is_users) {
    if (is_torch_header(include.path)) found.needs_torch = true;
    const fs::path local = from.parent_path() / include.path;
    if (is_users && include.quoted) found.looked_for.push_back(local);
    std::error_code ignored;
    if (is_users && include.quoted && fs::is_regular_file(local, ignored)) return add_file(local, true);
    const fs::path own = include_folder_ / include.path;
    if (!include.path.starts_with("titan/") || !fs::is_regular_file(own, ignored)) return;
    if (is_users) add_once(found.titan_headers, include.path);
    add_file(own, false);
  }

  fs::path include_folder_;
  std::set<fs::path> seen_;
};

}  // namespace

ScannedText scan_text(std::string_view text) {
  ScannedText scanned;
  const std::string joined = joined_lines(text);
  Tokenizer tokenizer(joined, scanned);
  FileScope scope(scanned.functions);
  for (std::string_view token = tokenizer.next(); !token.empty(); token = tokenizer.next()) scope.add(token);
  return scanned;
}

ModuleSource scan_source(const fs::path& file, const fs::path& include_folder) {
  SourceScan scan(include_folder);
  scan.add_file(file, true);
  return std::move(scan.found);
}

std::string headers_hash(const fs::path& include_folder) {
  std::map<std::string, std::string> hashes;
  std::vector<std::string> pending = {"titan/recipes.h", "titan/kernels.h"};
  while (!pending.empty()) {
    const std::string path = std::move(pending.back());
    pending.pop_back();
    std::error_code ignored;
    if (hashes.contains(path) || !fs::is_regular_file(include_folder / path, ignored)) continue;
    const std::string text = read_file(include_folder / path);
    hashes[path] = sha256(text);
    for (const IncludeLine& include : scan_text(text).includes) {
      if (include.path.starts_with("titan/")) pending.push_back(include.path);
    }
  }
  std::string list;
  for (const auto& [path, hash] : hashes) list += format("{} {}\n", path, hash);
  return sha256(list);
}

}  // namespace titan
