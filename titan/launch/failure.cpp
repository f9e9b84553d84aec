#include "titan/launch/failure.h"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <fstream>

#include "titan/base/error.h"
#include "titan/base/file.h"
#include "titan/base/strings.h"
#include "titan/launch/process.h"

namespace titan {
namespace {

/// Python writes the time as text.
std::optional<double> time_in(const Json* value) {
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) return value->as_double();
  if (!value->is_string()) return std::nullopt;
  const std::string& text = value->as_string();
  double time = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), time);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(time) : std::nullopt;
}

std::string text_in(const Json* value) {
  return value != nullptr && value->is_string() ? value->as_string() : "";
}

std::string indented(std::string_view text) {
  std::string out;
  for (const std::string& line : split(text, '\n')) {
    if (!trim(line).empty()) out += "\n  " + line;
  }
  return out;
}

}  // namespace

Json Failure::to_json() const {
  Json json = Json::object();
  json.append_member("rank", rank);
  json.append_member("local_rank", local_rank);
  json.append_member("host", host);
  json.append_member("pid", pid);
  json.append_member("exit_code", exit_code);
  json.append_member("signal", signal);
  json.append_member("time", time);
  json.append_member("of_a_peer", of_a_peer);
  json.append_member("stopped", stopped);
  json.append_member("message", message);
  json.append_member("folder", folder);
  json.append_member("num_more", num_more);
  return json;
}

Failure Failure::from_json(const Json& json) {
  Failure failure;
  failure.rank = json["rank"].as_int();
  failure.local_rank = json["local_rank"].as_int();
  failure.host = json["host"].as_string();
  failure.pid = json["pid"].as_int();
  failure.exit_code = static_cast<int>(json["exit_code"].as_int());
  failure.signal = static_cast<int>(json["signal"].as_int());
  failure.time = json["time"].as_double();
  failure.of_a_peer = json["of_a_peer"].as_bool();
  failure.stopped = json["stopped"].as_bool();
  failure.message = json["message"].as_string();
  failure.folder = json["folder"].as_string();
  failure.num_more = json["num_more"].as_int();
  return failure;
}

std::string Failure::describe() const {
  if (rank < 0) return message;
  std::string text =
      format("rank {} (local rank {} on {}, pid {}) failed first, ", rank, local_rank, host, pid);
  if (stopped) {
    text += "and was stopped with the others while it said so";
  } else {
    text +=
        signal == 0 ? format("with exit code {}", exit_code) : format("ended by {}", name_of_signal(signal));
  }
  if (signal == SIGKILL && !stopped) text += " (which the kernel also sends when memory runs out)";
  if (num_more > 0) text += format("; {} more of its node failed", num_more);
  text += message.empty() ? "\n  It left no message; `--tee 3` keeps what workers write" : indented(message);
  if (!folder.empty()) text += format("\n  Its files: {}", folder);
  return text;
}

bool is_earlier(const Failure& a, const Failure& b) {
  if (a.of_a_peer != b.of_a_peer) return b.of_a_peer;
  if (a.time != b.time) return a.time < b.time;
  return a.rank < b.rank;
}

std::optional<ErrorFile> read_error_file(const std::filesystem::path& path) {
  std::error_code missing;
  if (!std::filesystem::is_regular_file(path, missing)) return std::nullopt;
  Json json;
  try {
    json = Json::parse_file(path);
  } catch (const ValueError&) {
    return std::nullopt;  // a worker that was killed while it wrote
  }
  const Json* message = json.find("message");
  if (message == nullptr) return std::nullopt;
  if (message->is_string()) return ErrorFile{message->as_string(), time_in(json.find("timestamp"))};
  ErrorFile file{text_in(message->find("message")), std::nullopt};
  if (const Json* extra = message->find("extraInfo")) {
    file.time = time_in(extra->find("timestamp"));
    const std::string callstack = text_in(extra->find("py_callstack"));
    if (!callstack.empty()) file.message = callstack;
    const Json* of_a_peer = extra->find("peer_failure");
    file.of_a_peer = of_a_peer != nullptr && of_a_peer->is_bool() && of_a_peer->as_bool();
  }
  return file;
}

std::string last_lines(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return "";
  const std::streamoff size = file.tellg(), most = std::min<std::streamoff>(size, 4096);
  std::string text(static_cast<size_t>(most), '\0');
  file.seekg(size - most);
  file.read(text.data(), most);
  std::vector<std::string> lines = split(text, '\n');
  std::erase_if(lines, [](const std::string& line) { return trim(line).empty(); });
  const size_t from = lines.size() > 10 ? lines.size() - 10 : 0;
  return join({lines.begin() + static_cast<ptrdiff_t>(from), lines.end()}, "\n");
}

}  // namespace titan
