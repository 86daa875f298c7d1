// A run's folder that a rank still holds whose launcher was killed.
#include "trainer/records/run_lock.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/trainer/temporary_folder.h"

namespace tandem {
namespace {

// Starts a process that starts another, which holds the folder until it is told to go and then a moment more. Returns the second one's
// number once it holds it.
pid_t holder_of(const TemporaryFolder& folder, bool ends_with_starter, pid_t& starter) {
  int pipe_ends[2];
  EXPECT_EQ(::pipe(pipe_ends), 0);
  starter = ::fork();
  if (starter == 0) {
    const pid_t holder = ::fork();
    if (holder == 0) {
      static volatile sig_atomic_t told = 0;
      ::signal(SIGTERM, [](int) { told = 1; });
      if (ends_with_starter) ::prctl(PR_SET_PDEATHSIG, SIGTERM);
      const RunLock lock(folder / "");
      const pid_t own = ::getpid();
      if (::write(pipe_ends[1], &own, sizeof own) != sizeof own) ::_exit(1);
      while (told == 0) ::usleep(10'000);
      ::usleep(300'000);  // the rest of a step, and its checkpoint
      ::_exit(0);
    }
    for (;;) ::pause();
  }
  pid_t holder = 0;
  EXPECT_EQ(::read(pipe_ends[0], &holder, sizeof holder), static_cast<ssize_t>(sizeof holder));
  for (const int end : pipe_ends) ::close(end);
  return holder;
}

TEST(RunLock, WaitsForARankWhoseLauncherWasKilled) {
  const TemporaryFolder folder;
  pid_t launcher = 0;
  const pid_t rank = holder_of(folder, true, launcher);
  const std::string named = concat("a run is going on there (process ", rank, " on ");
  expect_error(ExitCode::io, named, [&] { RunLock(folder / ""); });  // its launcher is there: it may train for days
  ::kill(launcher, SIGKILL);
  ::waitpid(launcher, nullptr, 0);
  std::string said;
  const RunLock lock(folder / "", [&](const std::string& text) { said = text; });
  EXPECT_NE(said.find(concat("process ", rank, " on ")), std::string::npos) << said;
  EXPECT_NE(said.find("is about to end, as its starter is gone: it is waited for, 60 s at most"), std::string::npos) << said;
}

// A run in the background outlives the shell that started it.
TEST(RunLock, RefusesAFolderOfARunThatOutlivesItsStarter) {
  const TemporaryFolder folder;
  pid_t shell = 0;
  const pid_t run = holder_of(folder, false, shell);
  ::kill(shell, SIGKILL);
  ::waitpid(shell, nullptr, 0);
  expect_error(ExitCode::io, concat("a run is going on there (process ", run, " on "), [&] { RunLock(folder / ""); });
  ::kill(run, SIGTERM);
}

}  // namespace
}  // namespace tandem
