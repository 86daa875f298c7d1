// SIGINT and SIGTERM while training: the first asks for a stop after the current step, the next ends the process. One that
// follows within a second is the same: what starts processes passes on what the terminal has sent already.
#pragma once

namespace tandem {

class Interrupt {
 public:
  Interrupt();
  ~Interrupt();  // the handlers from before stand again
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  int signal() const;  // 0: none came

 private:
  void (*before_interrupt_)(int);
  void (*before_terminate_)(int);
};

}  // namespace tandem
