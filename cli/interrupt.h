// Signals that ask the program to end: SIGINT (Ctrl-C), SIGTERM, SIGHUP (its terminal was closed), SIGUSR1 and SIGUSR2 (what Slurm's
// --signal=USR1@60, and others, send before the time is over) and SIGXCPU (the soft limit of the processor's time, once a second).
// The first is answered at once on stderr, with what will happen. A second Ctrl-C or SIGTERM ends the process. The others never do, for
// they come before what follows them: SIGTERM at the end of Slurm's time, SIGHUP from the system and from the shell. Two within a third
// of a second are one: what starts processes passes on what the terminal has sent already. A signal that was ignored when the program
// began stays so (nohup).
#pragma once
#include <csignal>
#include <deque>
#include <exception>
#include <string>
#include <vector>

namespace tandem {

inline constexpr int ending_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU};

// What a command ends with that a signal stopped before anything was written: exit code 128 and the signal's number.
struct StoppedBySignal : std::exception {
  explicit StoppedBySignal(int number) : signal(number) {}
  const char* what() const noexcept override { return "stopped by a signal"; }
  int signal;
};

class Interrupt {
 public:
  // When the process ends after the first signal.
  enum class End {
    at_once,  // by the signal
    soon,     // by itself, or after a second: nothing would be lost
    saved,    // by itself, once what it has is written
  };
  Interrupt();  // at once, without an answer
  ~Interrupt();  // those who stood before stand again
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  int signal() const;  // 0: none came
  // What a signal is answered with from now on; empty: nothing is said.
  void announce(std::string answer, End end);
  static void be_silent();  // what is announced is not said any more; from any thread

 private:
  struct Handled {
    int signal;
    struct sigaction before;
  };
  std::vector<Handled> handled_;
  std::deque<std::string> answers_;  // the handler may still write an earlier one
};

}  // namespace tandem
