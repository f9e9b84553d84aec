#include "titan/config/compiler.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <utility>

#include "titan/base/build_info.h"
#include "titan/base/env.h"
#include "titan/base/error.h"
#include "titan/base/strings.h"

namespace titan {

namespace fs = std::filesystem;

namespace {

std::optional<fs::path> find_program(const std::string& name) {
  if (name.find('/') != name.npos) {
    return ::access(name.c_str(), X_OK) == 0 ? std::optional(fs::path(name)) : std::nullopt;
  }
  for (const std::string& folder : split(env("PATH").value_or(""), ':')) {
    const fs::path program = fs::path(folder) / name;
    if (!folder.empty() && ::access(program.c_str(), X_OK) == 0) return program;
  }
  return std::nullopt;
}

constexpr std::array<std::string_view, 2> kErrorMarks = {": error: ", ": fatal error: "};

bool is_error(std::string_view line) {
  return std::ranges::any_of(kErrorMarks,
                             [&](std::string_view mark) { return line.find(mark) != line.npos; });
}

/// A line about a place: starts in column 1 and is no source excerpt (`   12 | ...`).
bool is_message(std::string_view line) { return !line.empty() && line[0] != ' '; }

bool is_excerpt(std::string_view line) {
  return !line.empty() && line[0] == ' ' && line.find('|') != line.npos;
}

/// The last line before `error` of the same diagnostic that says which of the user's lines led there.
std::optional<std::string> users_line_before(const std::vector<std::string>& lines, size_t error,
                                             const std::string& prefix) {
  for (size_t i = error; i-- > 0 && !is_error(lines[i]);) {
    if (lines[i].starts_with(prefix) && lines[i].find("required from here") != std::string::npos) {
      return lines[i].substr(0, lines[i].find(":   required"));
    }
  }
  return std::nullopt;
}

/// The line that `place`, `file:line:column`, is about, as the compiler would show it; empty when it cannot
/// be read.
std::string source_line(const std::string& place) {
  const size_t column = place.rfind(':'), line = place.rfind(':', column - 1);
  const std::string number = place.substr(line + 1, column - line - 1);
  std::ifstream file(place.substr(0, line));
  std::string text;
  for (int64_t left = std::atoll(number.c_str()); left > 0; --left) {
    if (!std::getline(file, text)) return "";
  }
  constexpr size_t kNumberWidth = 5;
  return std::string(kNumberWidth - std::min(kNumberWidth, number.size()), ' ') + number + " | " + text +
         "\n";
}

std::string with_excerpt(const std::vector<std::string>& lines, size_t message) {
  constexpr size_t kExcerptLines = 2;
  std::string text = lines[message] + "\n";
  for (size_t i = message + 1; i < lines.size() && i <= message + kExcerptLines && is_excerpt(lines[i]);
       ++i) {
    text += lines[i] + "\n";
  }
  return text;
}

}  // namespace

std::optional<fs::path> find_compiler() {
  if (const auto chosen = env("CXX")) {
    std::vector<std::string> words = split(*chosen, ' ');
    std::erase_if(words, [](const std::string& word) { return word.empty() || word.starts_with('-'); });
    return words.empty() ? std::nullopt : find_program(words.back());
  }
  if (auto built_with = find_program(build_info().compiler)) return built_with;
  return find_program("g++");
}

std::vector<std::string> parse_dependencies(std::string_view text) {
  std::vector<std::string> paths;
  std::string path;
  const auto finish = [&] {
    if (!path.empty()) paths.push_back(std::exchange(path, {}));
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (text[i] == '\\' && next == '\n') {
      ++i;
      finish();
    } else if ((text[i] == '\\' && (next == ' ' || next == '#' || next == '\\')) ||
               (text[i] == '$' && next == '$')) {
      path += text[++i];
    } else if (text[i] == ' ' || text[i] == '\n') {
      finish();
    } else {
      path += text[i];
    }
  }
  finish();
  if (!paths.empty()) paths.erase(paths.begin());  // "target:"
  return paths;
}

std::string readable_errors(std::string_view output, const fs::path& folder) {
  constexpr int kMostErrors = 3;
  const std::vector<std::string> lines = split(output, '\n');
  const std::string prefix = folder.string() + "/";
  std::string users, all;
  int count = 0;
  for (size_t i = 0; i < lines.size() && count < kMostErrors; ++i) {
    if (!is_message(lines[i]) || !is_error(lines[i])) continue;
    all += with_excerpt(lines, i);
    if (lines[i].starts_with(prefix)) {
      users += with_excerpt(lines, i);
      ++count;
    } else if (const auto place = users_line_before(lines, i, prefix)) {
      const size_t mark = lines[i].find("error: ");
      const std::string reporter = lines[i].substr(0, lines[i].find(':'));
      users +=
          format("{}: {} (reported in {})\n{}", *place, lines[i].substr(mark), reporter, source_line(*place));
      ++count;
    }
  }
  if (!users.empty()) return users;
  return all.empty() ? std::string(output) : all;
}

int run_logged(const std::vector<std::string>& command, const fs::path& log) {
  std::vector<std::string> environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!std::string_view(*variable).starts_with("LC_ALL=")) environment.emplace_back(*variable);
  }
  environment.emplace_back("LC_ALL=C");
  std::vector<char*> argv, envp;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  for (const std::string& variable : environment) envp.push_back(const_cast<char*>(variable.c_str()));
  argv.push_back(nullptr);
  envp.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = 0;
  const int failed = posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) throw ValueError("cannot start {}: {}", command[0], std::strerror(failed));

  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw ValueError("cannot wait for {}: {}", command[0], std::strerror(errno));
  }
  constexpr int kSignalBase = 128;
  return WIFEXITED(status) ? WEXITSTATUS(status) : kSignalBase + WTERMSIG(status);
}

}  // namespace titan
