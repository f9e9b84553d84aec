#include "titan/neuron/rt/core_claim.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <sstream>

#include "apps/titan/commands.h"
#include "titan/base/error.h"
#include "titan/base/file.h"
#include "titan/base/json.h"

using namespace titan;
using namespace titan::neuron;
namespace fs = std::filesystem;

namespace {

/// An emulated machine of the test's own.
struct Machine {
  fs::path root, folder;

  Machine() {
    std::string name = (fs::temp_directory_path() / "titan-claims-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    root = name;
    use(root / "state");
  }
  ~Machine() {
    ::unsetenv("TITAN_NEURON_STATE_DIR");
    fs::remove_all(root);
  }
  void use(const fs::path& path) {
    folder = path;
    ::setenv("TITAN_NEURON_STATE_DIR", path.c_str(), 1);
  }
};

/// A forked process that does `work`, says that it has, and stays until it is killed.
class Process {
 public:
  explicit Process(const std::function<void()>& work) {
    int ready[2];
    REQUIRE(::pipe(ready) == 0);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      try {
        work();
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        ::_exit(1);
      }
      const bool said = ::write(ready[1], "x", 1) == 1;
      while (said) ::pause();
      ::_exit(1);
    }
    ::close(ready[1]);
    char word = 0;
    CHECK(::read(ready[0], &word, 1) == 1);
    ::close(ready[0]);
  }
  ~Process() { kill(); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_ = 0;
};

/// A process that holds a core as rank `core`.
void hold(int64_t core, int64_t lnc) {
  auto* claim = new CoreClaim(core, lnc);  // for as long as the process lives
  claim->report().rank = core;
  claim->report().hbm_capacity = 1000;
  claim->report().hbm_peak = 900;
  claim->report().hbm_allocated = 700;
  claim->report().compilations = 12;
}

bool is_free(int64_t core, int64_t lnc) {
  try {
    const CoreClaim claim(core, lnc);
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

std::string refusal_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

std::string devices_output(std::vector<std::string> args) {
  std::ostringstream out;
  auto* const old = std::cout.rdbuf(out.rdbuf());
  const int code = devices_command(args);
  std::cout.rdbuf(old);
  CHECK(code == 0);
  return out.str();
}

}  // namespace

TEST_CASE("a core that one process has is refused to another, which is told who has it and what to do") {
  const Machine machine;
  const Process holder([] { hold(3, 2); });
  const std::string refusal = refusal_of([] { CoreClaim(3, 2); });
  CHECK_MESSAGE(refusal.starts_with(format(
                    "core 3 (LNC 2) of the emulated Neuron device is in use by process {} ", holder.pid())),
                refusal);
  for (const char* word : {"unit_core", "rank 3", "NEURON_RT_VISIBLE_CORES", "TITAN_NEURON_STATE_DIR"}) {
    CHECK_MESSAGE(refusal.find(word) != std::string::npos, word << " in: " << refusal);
  }
  CHECK(is_free(2, 2));
  CHECK(is_free(4, 2));
}

TEST_CASE("a claim ends with its process, by kill -9 too, and its files are used again") {
  const Machine machine;
  Process holder([] { hold(5, 2); });
  CHECK_FALSE(is_free(5, 2));
  holder.kill();
  CHECK(cores_in_use().empty());
  const CoreClaim claim(5, 2);
  const std::vector<CoreUse> uses = cores_in_use();
  REQUIRE(uses.size() == 1);
  CHECK(uses[0].pid == ::getpid());
  CHECK(uses[0].hbm_peak == 0);  // nothing of the dead process's
  CHECK(std::distance(fs::directory_iterator(machine.folder), fs::directory_iterator()) == 2);
}

TEST_CASE("a claim ends with its object, and a core is one claim's in one process too") {
  const Machine machine;
  {
    const CoreClaim claim(0, 2);
    CHECK_FALSE(is_free(0, 2));
  }
  CHECK(is_free(0, 2));
}

TEST_CASE("cores of LNC 1 and LNC 2 that share a physical core exclude each other") {
  const Machine machine;
  {
    const Process holder([] { hold(1, 2); });  // physical cores 2 and 3
    CHECK_FALSE(is_free(2, 1));
    CHECK_FALSE(is_free(3, 1));
    CHECK(is_free(1, 1));
    CHECK(is_free(4, 1));
    const std::string refusal = refusal_of([] { CoreClaim(3, 1); });
    CHECK_MESSAGE(refusal.find(format("process {} (rank 1", holder.pid())) != std::string::npos, refusal);
    CHECK_MESSAGE(refusal.find("it has core 1 at LNC 2") != std::string::npos, refusal);
  }
  const Process second([] { hold(3, 1); });
  CHECK_FALSE(is_free(1, 2));
  CHECK(is_free(2, 1));  // the half that a refused claim took is given back
  CHECK(is_free(2, 2));
}

TEST_CASE("a physical core's old report is not taken for that of a wider claim's second core") {
  const Machine machine;
  Process narrow([] { hold(3, 1); });
  narrow.kill();
  const CoreClaim wide(1, 2);
  const std::vector<CoreUse> uses = cores_in_use();
  REQUIRE(uses.size() == 1);
  CHECK(uses[0].core == 1);
  CHECK(uses[0].lnc == 2);
}

TEST_CASE("another state folder is another machine") {
  Machine machine;
  const CoreClaim claim(0, 2);
  machine.use(machine.root / "other" / "state");
  CHECK(is_free(0, 2));
}

TEST_CASE("programs that a process starts do not hold its core, nor does a forked copy that has ended") {
  const Machine machine;
  pid_t program = 0;
  {
    CoreClaim claim(0, 2);
    claim.report().rank = 7;
    const pid_t copy = ::fork();
    if (copy == 0) {
      claim.~CoreClaim();
      ::_exit(0);
    }
    ::waitpid(copy, nullptr, 0);
    CHECK_FALSE(is_free(0, 2));
    REQUIRE(cores_in_use().size() == 1);
    CHECK(cores_in_use()[0].rank == 7);

    int started[2];
    REQUIRE(::pipe(started) == 0);
    program = ::fork();
    if (program == 0) {
      ::dup2(started[1], 1);
      ::execlp("sh", "sh", "-c", "echo; exec sleep 100", nullptr);
      ::_exit(1);
    }
    char word = 0;
    CHECK(::read(started[0], &word, 1) == 1);
    ::close(started[0]);
    ::close(started[1]);
  }
  CHECK(is_free(0, 2));
  ::kill(program, SIGKILL);
  ::waitpid(program, nullptr, 0);
}

TEST_CASE("a state folder without room is an error with what to do, not the end of the process") {
  const Machine machine;
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit none = {0, 0};
    ::setrlimit(RLIMIT_FSIZE, &none);
    try {
      CoreClaim(0, 2);
    } catch (const ValueError& error) {
      ::_exit(std::string(error.what()).find("set TITAN_NEURON_STATE_DIR to a folder with room") ==
              std::string::npos);
    }
    ::_exit(2);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(is_free(0, 2));
}

TEST_CASE("the state folder is made for its user alone") {
  Machine machine;
  CHECK(cores_in_use().empty());
  CHECK_FALSE(fs::exists(machine.folder));  // looking makes nothing
  CHECK(state_folder() == machine.folder);
  struct stat info{};
  REQUIRE(::stat(machine.folder.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0700);
  ::unsetenv("TITAN_NEURON_STATE_DIR");
  CHECK(state_folder() == format("/dev/shm/titan-neuron-{}", ::geteuid()));
}

TEST_CASE("a slash at the end of the state folder's name changes nothing") {
  Machine machine;
  const mode_t before = ::umask(002);
  machine.use(machine.root / "slash/");
  CHECK_NOTHROW(CoreClaim(0, 2));
  ::umask(before);
}

TEST_CASE("a claim's file that is no file is an error of the configuration") {
  Machine machine;
  const fs::path file = state_folder() / "core-0";
  const auto check_refused = [&] {
    CHECK_THROWS_WITH_AS(CoreClaim(0, 2),
                         doctest::Contains("it is no file; remove it, or set TITAN_NEURON_STATE_DIR"),
                         ConfigError);
    fs::remove(file);
  };
  fs::create_symlink("/dev/null", file);
  check_refused();
  fs::create_directory(file);
  check_refused();
  REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
  check_refused();
  CHECK_NOTHROW(CoreClaim(0, 2));
}

TEST_CASE("a state folder that is a link, a file, open to others or another user's is refused") {
  Machine machine;
  const auto refused = [&](const fs::path& folder, const char* why) {
    machine.use(folder);
    for (const auto& attempt : std::vector<std::function<void()>>{
             [] { state_folder(); }, [] { cores_in_use(); }, [] { CoreClaim(0, 2); }}) {
      const std::string refusal = refusal_of(attempt);
      CHECK_MESSAGE(refusal.find(why) != std::string::npos, folder << ": " << refusal);
      CHECK_MESSAGE(refusal.find("set TITAN_NEURON_STATE_DIR to") != std::string::npos, refusal);
    }
  };
  fs::create_directory(machine.root / "real");
  fs::create_symlink(machine.root / "real", machine.root / "link");
  refused(machine.root / "link", "is a symbolic link");
  refused(machine.root / "link/", "is a symbolic link");
  write_file_atomic(machine.root / "file", "x");
  refused(machine.root / "file", "is no folder");
  fs::create_directory(machine.root / "open");
  REQUIRE(::chmod((machine.root / "open").c_str(), 0777) == 0);
  refused(machine.root / "open", "can be written by other users");
  // Root may give a folder away; everybody else finds root's.
  fs::create_directory(machine.root / "foreign");
  const bool given_away = ::chown((machine.root / "foreign").c_str(), 12345, 12345) == 0;
  refused(given_away ? machine.root / "foreign" : fs::path("/usr"), "belongs to another user");
}

TEST_CASE("`titan devices` shows every process that has a core, with its memory") {
  const Machine machine;
  const Process first([] { hold(5, 2); }), second([] { hold(9, 1); });  // physical cores 10, 11 and 9
  const Json devices = Json::parse(devices_output({"--json"}), "devices");
  CHECK(devices.at(0)["neuron_processes"].size() == 0);
  const Json& processes = devices.at(1)["neuron_processes"];
  REQUIRE(processes.size() == 2);
  CHECK(processes.at(0)["pid"].as_int() == second.pid());
  const Json& process = processes.at(1);
  CHECK(process["pid"].as_int() == first.pid());
  CHECK(process["command"].as_string().find("unit_core") != std::string::npos);
  CHECK(process["neuroncore_id"].as_int() == 5);
  CHECK(process["rank"].as_int() == 5);
  CHECK(process["hbm_allocated"].as_int() == 700);
  CHECK(process["hbm_peak"].as_int() == 900);
  CHECK(process["hbm_capacity"].as_int() == 1000);
  const std::string text = devices_output({});
  CHECK_MESSAGE(text.find(format("{}", first.pid())) != std::string::npos, text);
  CHECK_MESSAGE(text.find("70.0%") != std::string::npos, text);
  CHECK_MESSAGE(text.find("\n9 (LNC 1)  1 ") != std::string::npos, text);
  CHECK_MESSAGE(text.find("\n5          1 ") != std::string::npos, text);
}

TEST_CASE("what a process puts into its command line cannot break the view") {
  const Machine machine;
  CoreClaim claim(0, 2);
  std::snprintf(claim.report().command, sizeof claim.report().command, "a\n\x1b[2J\xff b");
  CHECK(cores_in_use().at(0).command == "a  [2J? b");
}
