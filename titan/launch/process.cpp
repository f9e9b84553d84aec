#include "titan/launch/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <utility>

#include "titan/base/env.h"
#include "titan/base/error.h"

namespace titan {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (const std::string& text : texts) all.push_back(const_cast<char*>(text.c_str()));
  all.push_back(nullptr);
  return all;
}

struct ChildPlan {
  const ProgramStart* start;
  char* const* args;
  char* const* environment;
  pid_t parent;
  volatile int error;  ///< written by the child, whose memory is the parent's
};

/// Moves the wanted descriptors to 0..3. They are first copied above, so that none overwrites another.
bool place_descriptors(const ProgramStart& start) {
  const int wanted[] = {start.in, start.out, start.err, start.extra};
  int copies[4] = {-1, -1, -1, -1};
  for (int i = 0; i < 4; ++i) {
    if (wanted[i] < 0) continue;
    copies[i] = ::fcntl(wanted[i], F_DUPFD_CLOEXEC, 10);
    if (copies[i] < 0 && !(errno == EBADF && wanted[i] == i)) return false;
  }
  for (int i = 0; i < 4; ++i) {
    if (copies[i] >= 0 && ::dup2(copies[i], i) < 0) return false;
  }
  return true;
}

/// Between vfork and exec only system calls are allowed.
[[noreturn]] void become_program(ChildPlan& plan) {
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != plan.parent) ::_exit(127);
  ::signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  // Descriptors that this process inherited itself are nothing for workers.
  ::close_range(plan.start->extra < 0 ? 3 : 4, ~0U, CLOSE_RANGE_CLOEXEC);
  if (place_descriptors(*plan.start)) ::execve(plan.start->file.c_str(), plan.args, plan.environment);
  plan.error = errno;
  ::_exit(127);
}

[[gnu::noinline]] pid_t vfork_program(ChildPlan& plan) {
  const pid_t pid = ::vfork();
  if (pid == 0) become_program(plan);
  return pid;
}

bool is_program(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

/// The guard's whole life: learn groups until the launcher is gone, then kill those that are left.
[[noreturn]] void guard_groups(int pipe) {
  ::setsid();
  ::prctl(PR_SET_NAME, "titan-guard");
  for (int signal = 1; signal < 32; ++signal) ::signal(signal, SIG_IGN);
  ::dup2(pipe, 0);  // nothing else stays open, least of all the console's pipes
  ::close_range(1, ~0U, 0);
  std::set<pid_t> groups;
  pid_t message = 0;
  ssize_t size = 0;
  while ((size = ::read(0, &message, sizeof message)) != 0) {
    if (size < 0 && errno == EINTR) continue;
    if (size != sizeof message) break;
    if (message > 0) groups.insert(message);
    if (message < 0) groups.erase(-message);
  }
  for (const pid_t group : groups) ::kill(-group, SIGKILL);
  ::_exit(0);
}

}  // namespace

OwnedFd& OwnedFd::operator=(OwnedFd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

int OwnedFd::release() { return std::exchange(fd_, -1); }

void OwnedFd::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

OwnedFd open_output(const std::string& path) {
  OwnedFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file.open()) throw ValueError("cannot write {}: {}", path, std::strerror(errno));
  return file;
}

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw ValueError("cannot make a pipe for a worker's output: {} (`ulimit -n` is the number of open files)",
                     std::strerror(errno));
  }
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return {OwnedFd(ends[0]), OwnedFd(ends[1])};
}

pid_t start_program(const ProgramStart& start) {
  const std::vector<char*> args = pointers(start.args), environment = pointers(start.environment);
  ChildPlan plan{&start, args.data(), environment.data(), ::getpid(), 0};
  const pid_t pid = vfork_program(plan);
  if (pid < 0) throw ValueError("cannot start a process: {}", std::strerror(errno));
  if (plan.error != 0) {
    ::waitpid(pid, nullptr, 0);
    throw ValueError("cannot start {}: {}", start.file, std::strerror(plan.error));
  }
  return pid;
}

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (is_program(name)) return name;
    throw ValueError(
        "cannot start {}: {}", name,
        std::filesystem::exists(name) ? "it is no program that may be executed" : "there is no such file");
  }
  const std::string path = env("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
  for (const std::string& folder : split(path, ':')) {
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    if (is_program(candidate)) return candidate;
  }
  throw ValueError("cannot start {}: no folder of PATH holds a program of that name (PATH is {})", name,
                   path);
}

GroupGuard::GroupGuard() {
  Pipe pipe = make_pipe();
  ::fcntl(pipe.read.get(), F_SETFL, 0);
  pid_ = ::fork();
  if (pid_ < 0) throw ValueError("cannot start a process: {}", std::strerror(errno));
  if (pid_ == 0) guard_groups(pipe.read.get());
  pipe_ = std::move(pipe.write);
}

GroupGuard::~GroupGuard() {
  pipe_.reset();
  ::waitpid(pid_, nullptr, 0);
}

void GroupGuard::tell(pid_t message) {
  // A guard that someone killed cannot be told; workers still die with their parent.
  [[maybe_unused]] const ssize_t written = ::write(pipe_.get(), &message, sizeof message);
}

std::string name_of_signal(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? format("SIG{}", name) : format("signal {}", signal);
}

}  // namespace titan
