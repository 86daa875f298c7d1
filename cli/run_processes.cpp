#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <list>
#include <set>
#include <sstream>

#include "base/file.h"
#include "base/printable.h"
#include "base/spec.h"
#include "cli/interrupt.h"
#include "cli/ranks.h"
#include "ranks/hello.h"

namespace tandem {
namespace {

constexpr int signal_exit = 128;  // plus the signal's number
constexpr timespec patience{20, 0};  // with ranks that go on where another has failed

// What a rank writes to stderr, kept in memory until it has ended.
class Errors {
 public:
  Errors() : file_(::memfd_create("stderr of a rank", MFD_CLOEXEC)) {
    if (file_ < 0) fail(ExitCode::device, "no memory for a rank's messages: ", std::strerror(errno));
  }
  ~Errors() { ::close(file_); }
  Errors(const Errors&) = delete;
  int file() const { return file_; }
  std::string text() const {
    std::string all;
    char part[4096];
    for (ssize_t n; (n = ::pread(file_, part, sizeof part, static_cast<off_t>(all.size()))) > 0;)
      all.append(part, static_cast<std::size_t>(n));
    return all;
  }

 private:
  const int file_;
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

// `errors`: where its stderr goes; null: to this process's.
pid_t start(const std::vector<std::string>& arguments, const std::vector<std::string>& settings, const Errors* errors,
            const sigset_t& mask) {
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
  if (errors) ::dup2(errors->file(), STDERR_FILENO);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  ::execve("/proc/self/exe", words.pointers.data(), environment.pointers.data());
  ::_exit(static_cast<int>(ExitCode::io));
}

// What ranks beside the first had to say: each line once, and no errors where rank 0 has reported what was wrong.
void pass_on(const std::list<Errors>& errors, bool errors_told) {
  std::set<std::string> said;
  for (const Errors& e : errors) {
    std::istringstream lines(e.text());
    for (std::string line; std::getline(lines, line);)
      if (!(errors_told && line.starts_with("error: ")) && said.insert(line).second) std::cerr << printable(line, Lines::kept) << '\n';
  }
}

int code_of(int status) { return WIFSIGNALED(status) ? signal_exit + WTERMSIG(status) : WEXITSTATUS(status); }

// How the ranks of one start have ended.
struct Ended {
  int code = 0;
  bool by_signal = false;  // to this process: it was asked for
  std::string lost = {};   // which rank was lost and how; empty: none was, each that failed says why
};

std::string text_of(int rank, int status) {
  return concat("rank ", rank, WIFSIGNALED(status) ? concat(" was ended by signal ", WTERMSIG(status)) : " lost another one");
}

// `resume`: each goes on from the last checkpoint.
Ended run_once(const std::vector<std::string>& arguments, int processes, bool resume, const HeldSignals& signals) {
  const std::string address = concat("unix:@tandem-", drawn_text());  // on this machine; known to who was reported, leaves no file behind
  const std::string secret = drawn_text();
  std::vector<pid_t> running;
  std::list<Errors> errors;  // rank 0 speaks for itself
  for (int rank = 0; rank < processes; ++rank) {
    std::vector<std::string> settings{concat("TANDEM_RANK=", rank), concat("TANDEM_WORLD_SIZE=", processes),
                                      concat("TANDEM_ADDRESS=", address), concat("TANDEM_SECRET=", secret)};
    if (resume) settings.emplace_back("TANDEM_RESUME=on");
    running.push_back(start(arguments, settings, rank > 0 ? &errors.emplace_back() : nullptr, signals.before));
  }
  const std::vector<pid_t> all = running;
  bool reported = false;
  Ended ended;
  std::vector<int> codes;
  const auto pass = [&](int signal) {
    for (const pid_t child : running) ::kill(child, signal);
  };
  for (std::size_t asked = 0; !running.empty();) {
    const int signal = sigtimedwait(&signals.held, nullptr, &patience);
    if (signal > 0 && signal != SIGCHLD) {
      ended.by_signal = true;
      pass(signal);
    }
    // Ranks that have met end together; those that still wait for one that is no more would wait for long. One that was stopped hears
    // no wish.
    constexpr std::array wishes{SIGTERM, SIGKILL};
    const bool failed = std::any_of(codes.begin(), codes.end(), [](int c) { return c != 0; });
    if (signal < 0 && errno == EAGAIN && failed && asked < wishes.size()) pass(wishes[asked++]);
    std::erase_if(running, [&](pid_t child) {
      int status = 0;
      if (::waitpid(child, &status, WNOHANG) != child) return false;
      codes.push_back(code_of(status));
      const bool lost = asked == 0 && (WIFSIGNALED(status) || codes.back() == static_cast<int>(ExitCode::communication));
      if (lost && (ended.lost.empty() || WIFSIGNALED(status)))
        ended.lost = text_of(static_cast<int>(std::ranges::find(all, child) - all.begin()), status);
      if (child == all[0]) reported = WIFEXITED(status) && WEXITSTATUS(status) != 0;
      return true;
    });
  }
  pass_on(errors, reported);
  // Where one failed, the others end with `communication`.
  const auto is_cause = [](int c) { return c != 0 && c != static_cast<int>(ExitCode::communication); };
  const auto cause = std::ranges::find_if(codes, is_cause);
  ended.code = cause != codes.end() ? *cause : *std::ranges::max_element(codes);
  const bool explained = std::ranges::any_of(codes, [&](int c) { return is_cause(c) && c < signal_exit; });
  if (explained) ended.lost.clear();
  return ended;
}

}  // namespace

int run_processes(int processes, std::int64_t restarts) {
  std::vector<std::string> arguments = split(read_file("/proc/self/cmdline"), '\0');
  arguments.pop_back();  // each ends with a zero
  const HeldSignals signals;
  for (std::int64_t n = 0;; ++n) {
    const Ended ended = run_once(arguments, processes, n > 0, signals);
    if (ended.code == 0 || ended.by_signal || ended.lost.empty() || n == restarts) return ended.code;
    std::cerr << "note: " << ended.lost << ": restart " << n + 1 << " of " << restarts << ", from the last checkpoint (--restart)"
              << std::endl;
  }
}

}  // namespace tandem
