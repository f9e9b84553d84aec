#include "titan/launch/log_tee.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "titan/base/log.h"

namespace titan {
namespace {

constexpr size_t kLongestLine = 1 << 20;
/// A pipe takes so much at once without tearing it, and without blocking once poll says that it takes some.
constexpr size_t kAtomicWrite = 4096;

void write_to_log(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return warn_once(format("cannot write {}: {}", path, std::strerror(errno)));
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

bool same_file(int a, int b) {
  struct stat first{}, second{};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

}  // namespace

void LineSplitter::feed(std::string_view bytes, const Emit& emit) {
  while (!bytes.empty()) {
    if (after_return_ && bytes.front() == '\n') bytes.remove_prefix(1);
    after_return_ = false;
    const size_t end = bytes.find_first_of("\r\n");
    partial_ += bytes.substr(0, end);
    if (end == std::string_view::npos) break;
    after_return_ = bytes[end] == '\r';
    if (!partial_.empty() || !after_return_) emit(partial_);
    partial_.clear();
    bytes.remove_prefix(end + 1);
  }
  if (partial_.size() > kLongestLine) finish(emit);
}

void LineSplitter::finish(const Emit& emit) {
  if (!partial_.empty()) emit(partial_);
  partial_.clear();
}

void Console::write_line(std::string_view prefix, std::string_view line) {
  if (gone_) return;
  pending_.append(prefix).append(line).append("\n");
  if (!watched_) loop_.watch(fd_, POLLOUT, [this] { write_some(); });
  watched_ = true;
}

void Console::write_some() {
  size_t size = std::min(pending_.size(), kAtomicWrite);
  const size_t line_end = pending_.rfind('\n', size - 1);
  if (line_end != std::string::npos) size = line_end + 1;
  const ssize_t written = ::write(fd_, pending_.data(), size);
  const bool was_full = is_full();
  if (written > 0) {
    pending_.erase(0, static_cast<size_t>(written));
  } else if (written < 0 && errno != EINTR && errno != EAGAIN) {
    gone_ = true;  // nobody reads any more; the job and its files go on
    pending_.clear();
  }
  if (pending_.empty()) loop_.unwatch(fd_);
  watched_ = !pending_.empty();
  if (was_full && !is_full()) {
    for (const EventLoop::Handler& handler : std::exchange(room_, {})) handler();
  }
}

void Console::flush() {
  while (!pending_.empty()) {
    pollfd polled{fd_, POLLOUT, 0};
    ::poll(&polled, 1, -1);
    write_some();
  }
}

Consoles::Consoles(EventLoop& loop) : out(std::make_shared<Console>(STDOUT_FILENO, loop)) {
  err = same_file(STDOUT_FILENO, STDERR_FILENO) ? out : std::make_shared<Console>(STDERR_FILENO, loop);
}

void Consoles::flush() {
  out->flush();
  err->flush();
}

TeedStream::TeedStream(Options options, std::shared_ptr<Console> console, EventLoop& loop)
    : options_(std::move(options)), console_(std::move(console)), loop_(loop) {
  Pipe pipe = make_pipe();
  reader_ = std::move(pipe.read);
  worker_end_ = std::move(pipe.write);
  if (!options_.file.empty()) file_ = open_output(options_.file);
  if (!options_.filters.empty()) filtered_ = open_output(options_.filtered_file);
  watch();
}

TeedStream::~TeedStream() {
  if (reader_.open()) loop_.unwatch(reader_.get());
}

void TeedStream::watch() {
  loop_.watch(reader_.get(), POLLIN, [this] {
    if (console_->is_full()) {
      loop_.unwatch(reader_.get());
      console_->on_room([this, alive = std::weak_ptr<bool>(alive_)] {
        if (!alive.expired()) watch();
      });
      return;
    }
    read_available(1 << 16);
  });
}

void TeedStream::read_available(size_t most) {
  char bytes[1 << 16];
  size_t total = 0;
  while (total < most) {
    const ssize_t size = ::read(reader_.get(), bytes, sizeof bytes);
    if (size < 0 && errno == EINTR) continue;
    if (size == 0) loop_.unwatch(reader_.get());  // nobody can write to it any more
    if (size <= 0) return;
    total += static_cast<size_t>(size);
    const std::string_view text(bytes, static_cast<size_t>(size));
    if (file_.open()) write_to_log(file_.get(), text, options_.file);
    lines_.feed(text, [this](std::string_view line) { emit(line); });
  }
}

void TeedStream::emit(std::string_view line) {
  console_->write_line(options_.prefix, line);
  const auto holds = [&](const std::string& word) { return line.find(word) != std::string_view::npos; };
  if (!filtered_.open() || std::none_of(options_.filters.begin(), options_.filters.end(), holds)) return;
  write_to_log(filtered_.get(), format("{}{}\n", options_.prefix, line), options_.filtered_file);
}

void TeedStream::finish() {
  if (!reader_.open()) return;
  alive_.reset();
  take_available();
  lines_.finish([this](std::string_view line) { emit(line); });
  loop_.unwatch(reader_.get());
  reader_.reset();
}

}  // namespace titan
