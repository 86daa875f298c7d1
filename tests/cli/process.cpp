#include "tests/cli/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <thread>

#include "base/file.h"

namespace tandem {
namespace {

// What a shell starts in the background ignores SIGINT from birth; tests send it, to themselves and to their children.
[[maybe_unused]] const auto heard = std::signal(SIGINT, SIG_DFL);
// Commands that name no devices run on the CPU, also where there are GPUs.
[[maybe_unused]] const auto no_gpus = ::setenv("CUDA_VISIBLE_DEVICES", "", 1);

void wait_until(const std::function<bool()>& there, const std::string& what) {
  for (int i = 0; !there(); ++i) {
    if (i > 60'000) throw std::runtime_error(concat(what, " does not appear"));  // five minutes
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace

void wait_for_file(const std::filesystem::path& path) {
  wait_until([&] { return std::filesystem::exists(path); }, path.string());
}

void Process::wait_for(const std::string& file, const std::string& text) {
  wait_until([&] { return std::filesystem::exists(file) && read_file(file).find(text) != std::string::npos; }, concat("'", text, "'"));
}

Process::Process(const TemporaryFolder& folder, const std::string& name, const std::vector<std::string>& arguments,
                 const std::map<std::string, std::string>& environment, const std::string& program)
    : out_((folder / (name + ".out")).string()), err_((folder / (name + ".err")).string()) {
  std::vector<std::string> words{program}, variables;
  const std::vector<std::string> given = without_run_folder(arguments);
  words.insert(words.end(), given.begin(), given.end());
  for (const auto& [key, value] : environment) variables.push_back(concat(key, '=', value));
  for (char** v = environ; *v; ++v) {  // without what is said anew: the loader takes the last of several
    const std::string variable = *v;
    if (!environment.contains(variable.substr(0, variable.find('=')))) variables.push_back(variable);
  }
  const auto pointers = [](std::vector<std::string>& texts) {
    std::vector<char*> list;
    for (std::string& t : texts) list.push_back(t.data());
    list.push_back(nullptr);
    return list;
  };
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, out_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, err_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  // What has no other place to go, such as weights that could not be saved, goes into the folder that it is started in.
  posix_spawn_file_actions_addchdir_np(&files, folder.text().c_str());
  // Whoever runs the tests in the background may have made them ignore signals.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t usual;
  sigfillset(&usual);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  const int error = posix_spawn(&id_, program.c_str(), &files, &attributes, pointers(words).data(), pointers(variables).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) throw std::runtime_error(concat(program, " cannot be started"));
}

Process Process::shell(const TemporaryFolder& folder, const std::string& name, std::string line) {
  for (const auto& [word, path] : {std::pair<std::string, std::string>{"MODELS", std::string(TANDEM_SOURCE_DIR) + "/models"},
                                   {"TMP", folder.text()},
                                   {"TANDEM", TANDEM_PROGRAM}})
    for (std::size_t at = line.find(word); at != std::string::npos; at = line.find(word, at + path.size()))
      line.replace(at, word.size(), path);
  std::map<std::string, std::string> environment;
  if (line.find("--run-dir") == std::string::npos && line.find("--config") == std::string::npos) environment["TANDEM_RUN_DIR"] = "none";
  return {folder, name, {"-c", line}, environment, "/bin/sh"};
}

Process::Process(Process&& other) noexcept : out_(other.out_), err_(other.err_), id_(std::exchange(other.id_, -1)) {}

Process::~Process() {
  if (id_ < 0) return;
  signal(SIGKILL);
  ::waitpid(id_, nullptr, 0);
}

void Process::signal(int number) const { ::kill(id_, number); }

Outcome Process::wait() {
  int status = 0;
  rusage usage{};
  ::wait4(std::exchange(id_, -1), &status, 0, &usage);
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); };
  seconds_ = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  peak_bytes_ = 1024LL * usage.ru_maxrss;
  return {WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status), read_file(out_), read_file(err_)};
}

}  // namespace tandem
