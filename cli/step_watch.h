// What ends a run whose step, or validation, does not end by itself after a signal that asks for it.
#pragma once
#include <atomic>
#include <filesystem>
#include <string>
#include <thread>

#include "cli/command.h"
#include "cli/interrupt.h"

namespace tandem {

class StepWatch {
 public:
  // `folder`: the run's; empty: it keeps nothing. `grace`: seconds from the signal on.
  StepWatch(const Invocation& call, const Interrupt& interrupt, std::filesystem::path folder, double grace);

  void begin() { under_way_ = true; }  // the run is with the devices, and has nothing that would be lost
  void end() { under_way_ = false; }   // it is not: what it writes now takes the time it takes
  // To be asked by the run: whether a signal came. Once it knows it ends by itself.
  bool asked() {
    const bool any = interrupt_.signal() != 0;
    if (any) heard_ = true;
    return any;
  }

 private:
  void give_up() const;  // ends the process

  const Invocation& call_;
  const Interrupt& interrupt_;
  const std::filesystem::path folder_;
  const double grace_;
  std::atomic<bool> under_way_ = false, heard_ = false;
  std::jthread thread_;
};

}  // namespace tandem
