#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "titan/launch/event_loop.h"
#include "titan/launch/process.h"

namespace titan {

/// Cuts a stream of bytes into lines: \n, \r\n and \r end one. A \r without text before it (a progress bar
/// that begins again) makes no line, and a line of more than a megabyte comes in pieces.
class LineSplitter {
 public:
  using Emit = std::function<void(std::string_view line)>;

  void feed(std::string_view bytes, const Emit& emit);
  /// What came after the last line's end, as a line.
  void finish(const Emit& emit);

 private:
  std::string partial_;
  bool after_return_ = false;
};

/// Writes whole lines to a descriptor when it takes them. Nothing here blocks before flush().
class Console {
 public:
  explicit Console(int fd, EventLoop& loop) : fd_(fd), loop_(loop) {}

  void write_line(std::string_view prefix, std::string_view line);
  /// More waits than should be kept in memory.
  bool is_full() const { return pending_.size() > kMostPending; }
  /// Called when the console takes lines again after having been full.
  void on_room(EventLoop::Handler handler) { room_.push_back(std::move(handler)); }
  /// Writes everything, however long it takes.
  void flush();

 private:
  static constexpr size_t kMostPending = 1 << 20;
  void write_some();

  int fd_;
  EventLoop& loop_;
  std::string pending_;
  bool watched_ = false, gone_ = false;
  std::vector<EventLoop::Handler> room_;
};

/// Standard output and standard error; one console where both are the same file, so that their lines do not
/// tear each other.
struct Consoles {
  explicit Consoles(EventLoop& loop);
  void flush();

  std::shared_ptr<Console> out, err;
};

/// One stream of a worker: read from a pipe, written as it is to a file and as lines with a prefix to the
/// console.
class TeedStream {
 public:
  struct Options {
    std::string prefix;                ///< "[rank0]:"
    std::string file;                  ///< "" for none
    std::vector<std::string> filters;  ///< lines with one of these go to filtered_file as well
    std::string filtered_file;
  };

  TeedStream(Options options, std::shared_ptr<Console> console, EventLoop& loop);
  ~TeedStream();

  /// The end that the worker writes to; close it once the worker has it.
  OwnedFd& worker_end() { return worker_end_; }
  /// Takes what is in the pipe now.
  void take_available() { read_available(1 << 20); }  // more than a pipe holds
  /// Does so, and ends: a process that lives on cannot hold it open.
  void finish();

 private:
  void watch();
  void read_available(size_t most);
  void emit(std::string_view line);

  Options options_;
  std::shared_ptr<Console> console_;
  EventLoop& loop_;
  OwnedFd reader_, worker_end_, file_, filtered_;
  LineSplitter lines_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace titan
