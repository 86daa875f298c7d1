#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <set>
#include <sstream>

#include "cli/interrupt.h"
#include "cli/ranks.h"
#include "trainer/file.h"
#include "trainer/spec.h"

namespace tandem {
namespace {

constexpr int signal_exit = 128;  // plus the signal's number

// A folder of this user's alone, for the socket.
struct Folder {
  std::string path = (std::filesystem::temp_directory_path() / "tandem-XXXXXX").string();
  Folder() {
    if (!::mkdtemp(path.data())) fail(ExitCode::io, path, ": cannot be made: ", std::strerror(errno));
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

// Signals wait until they are asked for, in this process; its children start as it did.
struct HeldSignals {
  sigset_t held, before;
  HeldSignals() {
    std::signal(SIGCHLD, SIG_DFL);  // ignored, children would end unseen
    sigemptyset(&held);
    sigaddset(&held, SIGCHLD);
    for (const int s : ending_signals)  // but for those that its starter had it ignore
      if (struct sigaction now {}; ::sigaction(s, nullptr, &now) == 0 && now.sa_handler != SIG_IGN) sigaddset(&held, s);
    sigprocmask(SIG_BLOCK, &held, &before);
  }
  ~HeldSignals() { sigprocmask(SIG_SETMASK, &before, nullptr); }
};

// The words of a process as exec takes them.
struct Words {
  std::vector<std::string> texts;
  std::vector<char*> pointers;
  explicit Words(std::vector<std::string> list) : texts(std::move(list)) {
    for (std::string& t : texts) pointers.push_back(t.data());
    pointers.push_back(nullptr);
  }
};

// `errors`: where its stderr goes; empty: to this process's.
pid_t start(const std::vector<std::string>& arguments, const std::vector<std::string>& settings, const std::string& errors, const sigset_t& mask) {
  Words words(arguments);
  std::vector<std::string> variables = settings;
  for (char** v = environ; *v; ++v) variables.emplace_back(*v);
  Words environment(std::move(variables));
  const pid_t parent = ::getpid(), child = ::fork();
  if (child < 0) fail(ExitCode::device, "a process cannot be started: ", std::strerror(errno));
  if (child > 0) return child;
  // A group of its own: a signal from the terminal comes once, through this process.
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(signal_exit + SIGTERM);
  if (const int file = errors.empty() ? -1 : ::open(errors.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600); file >= 0) ::dup2(file, STDERR_FILENO);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  ::execve("/proc/self/exe", words.pointers.data(), environment.pointers.data());
  ::_exit(static_cast<int>(ExitCode::io));
}

// What ranks beside the first had to say: each line once, and no errors where rank 0 has told what was wrong.
void pass_on(const std::vector<std::string>& files, bool errors_told) {
  std::set<std::string> said;
  for (const std::string& file : files) {
    std::istringstream lines(std::filesystem::exists(file) ? read_file(file) : "");
    for (std::string line; std::getline(lines, line);)
      if (!(errors_told && line.starts_with("error: ")) && said.insert(line).second) std::cerr << line << '\n';
  }
}

int code_of(int status) { return WIFSIGNALED(status) ? signal_exit + WTERMSIG(status) : WEXITSTATUS(status); }

}  // namespace

int run_processes(int processes) {
  std::vector<std::string> arguments = split(read_file("/proc/self/cmdline"), '\0');
  arguments.pop_back();  // each ends with a zero
  const Folder folder;
  const HeldSignals signals;
  std::vector<pid_t> running;
  std::vector<std::string> errors{""};  // rank 0 speaks for itself
  for (int rank = 0; rank < processes; ++rank) {
    if (rank > 0) errors.push_back(concat(folder.path, "/errors-", rank));
    running.push_back(start(arguments,
                            {concat("TANDEM_RANK=", rank), concat("TANDEM_WORLD_SIZE=", processes),
                             concat("TANDEM_ADDRESS=unix:", folder.path, "/rank")},
                            errors.back(), signals.before));
  }
  const pid_t first = running[0];
  bool told = false;
  std::vector<int> codes;
  while (!running.empty()) {
    siginfo_t info{};
    const int signal = sigwaitinfo(&signals.held, &info);
    if (signal > 0 && signal != SIGCHLD)
      for (const pid_t child : running) ::kill(child, signal);
    std::erase_if(running, [&](pid_t child) {
      int status = 0;
      if (::waitpid(child, &status, WNOHANG) != child) return false;
      codes.push_back(code_of(status));
      if (child == first) told = WIFEXITED(status) && WEXITSTATUS(status) != 0;
      return true;
    });
  }
  pass_on(errors, told);
  // Where one failed, the others end with `communication`.
  const auto cause = std::find_if(codes.begin(), codes.end(), [](int c) { return c != 0 && c != static_cast<int>(ExitCode::communication); });
  return cause != codes.end() ? *cause : *std::max_element(codes.begin(), codes.end());
}

}  // namespace tandem
