#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "titan/base/json.h"

namespace titan {

/// Why a job failed: one worker's end, or (rank -1) something of a launcher's own.
struct Failure {
  int64_t rank = -1, local_rank = -1;
  std::string host;
  int64_t pid = 0;
  int exit_code = 0;  ///< when signal is 0
  int signal = 0;
  double time = 0;         ///< seconds since 1970, by the failing node's clock
  bool of_a_peer = false;  ///< the worker says that it only follows another's failure
  bool stopped = false;    ///< the launcher ended it while it reported its own failure
  std::string message;     ///< its own words, "" without
  std::string folder;      ///< of its files
  int64_t num_more = 0;    ///< other workers of the node that had failed by then

  Json to_json() const;
  static Failure from_json(const Json& json);

  /// "rank 3 (local rank 1 on node7, pid 4711) failed first, with exit code 1", then the message.
  std::string describe() const;
};

/// Whether `a` came before `b`. Whoever follows a peer's failure comes last.
bool is_earlier(const Failure& a, const Failure& b);

/// What a worker left in its TORCHELASTIC_ERROR_FILE.
struct ErrorFile {
  std::string message;
  std::optional<double> time;
  bool of_a_peer = false;
};

/// Reads `{"message": {"message": "...", "extraInfo": {"timestamp": ..., "py_callstack": "...",
/// "peer_failure": true}}}` or `{"message": "...", "timestamp": ...}`; nothing where there is no such file,
/// or none that makes sense.
std::optional<ErrorFile> read_error_file(const std::filesystem::path& path);

/// The last lines of a log file, at most ten; "" where there is none.
std::string last_lines(const std::filesystem::path& path);

}  // namespace titan
