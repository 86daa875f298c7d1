// SIGINT and SIGTERM while training: the first asks for a stop and is answered at once on stderr, the next ends the process. One
// that follows within a third of a second is the same: what starts processes passes on what the terminal has sent already.
#pragma once
#include <deque>
#include <exception>
#include <string>

namespace tandem {

// What a command ends with that a signal stopped before anything was written: exit code 128 and the signal's number.
struct StoppedBySignal : std::exception {
  explicit StoppedBySignal(int number) : signal(number) {}
  const char* what() const noexcept override { return "stopped by a signal"; }
  int signal;
};

class Interrupt {
 public:
  Interrupt();
  ~Interrupt();  // the handlers from before stand again
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  int signal() const;  // 0: none came
  // What a signal is answered with from now on: what will happen. Empty: nothing is said. `at_once`: the first ends the process.
  void announce(std::string answer, bool at_once = false);

 private:
  void (*before_interrupt_)(int);
  void (*before_terminate_)(int);
  std::deque<std::string> answers_;  // the handler may still write an earlier one
};

}  // namespace tandem
