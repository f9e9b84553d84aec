#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <vector>

namespace titan {

/// A file descriptor that is closed with its owner.
class OwnedFd {
 public:
  OwnedFd() = default;
  explicit OwnedFd(int fd) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept : fd_(other.release()) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept;
  ~OwnedFd() { reset(); }

  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  int release();
  void reset();

 private:
  int fd_ = -1;
};

/// Opens a file for a worker's output. Throws ValueError naming it.
OwnedFd open_output(const std::string& path);

struct Pipe {
  OwnedFd read, write;
};
/// Both ends are closed in programs that are started. The read end does not block. Throws ValueError.
Pipe make_pipe();

struct ProgramStart {
  std::string file;                      ///< an absolute path, or one from find_program
  std::vector<std::string> args;         ///< args[0] is what the program sees as its name
  std::vector<std::string> environment;  ///< "NAME=value"
  int in = 0, out = 1, err = 2;          ///< descriptors of this process that become 0, 1 and 2
  int extra = -1;                        ///< becomes 3, where given
};

/// Starts a program as the leader of a session and process group of its own, which is killed when the
/// calling process dies. Nothing is copied, however large the caller is. Throws ValueError naming the file.
pid_t start_program(const ProgramStart& start);

/// The file that the shell would start for `name`. Throws ValueError that says where it looked.
std::string find_program(const std::string& name);

/// Kills the process groups that it was told of when this process dies, however it dies. Make it early,
/// while the process is small.
class GroupGuard {
 public:
  GroupGuard();
  ~GroupGuard();
  GroupGuard(const GroupGuard&) = delete;
  GroupGuard& operator=(const GroupGuard&) = delete;

  void add(pid_t group) { tell(group); }
  void remove(pid_t group) { tell(-group); }

 private:
  void tell(pid_t message);

  OwnedFd pipe_;
  pid_t pid_ = 0;
};

/// "SIGKILL" for 9; "signal 64" for one without a name.
std::string name_of_signal(int signal);

}  // namespace titan
