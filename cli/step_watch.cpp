#include "cli/step_watch.h"

#include <unistd.h>

#include <chrono>

namespace tandem {

StepWatch::StepWatch(const Invocation& call, const Interrupt& interrupt, std::filesystem::path folder, double grace)
    : call_(call), interrupt_(interrupt), folder_(std::move(folder)), grace_(grace), thread_([this](const std::stop_token& done) {
        using Clock = std::chrono::steady_clock;
        constexpr std::chrono::milliseconds pause(50);
        Clock::time_point last = Clock::now();  // without a signal
        for (; !done.stop_requested(); std::this_thread::sleep_for(pause)) {
          if (interrupt_.signal() == 0)
            last = Clock::now();
          else if (under_way_ && !heard_ && std::chrono::duration<double>(Clock::now() - last).count() >= grace_)
            give_up();
        }
      }) {}

void StepWatch::give_up() const {
  constexpr int signal_exit = 128;  // plus the signal's number
  const std::string run = folder_.string();
  std::error_code error;
  const bool checkpoint = !run.empty() && std::filesystem::exists(folder_ / "last.checkpoint", error);
  call_.say(concat("the step has not ended ", grace_, " s after the signal (--grace): the run ends ",
                   run.empty() ? "and nothing is written"
                   : checkpoint ? concat("with its last checkpoint; go on with --resume --run-dir ", run)
                                : concat("before its first checkpoint; --resume --run-dir ", run, " starts it anew")));
  call_.streams.err.flush();
  ::_exit(run.empty() ? signal_exit + interrupt_.signal() : static_cast<int>(ExitCode::resumable));
}

}  // namespace tandem
