// What verify() is made of: all breaches of a plan are collected, then told at once.
#pragma once
#include "planner/plan/format.h"
#include "planner/plan/print.h"

namespace tandem {

class Breaches {
 public:
  template <class... Parts>
  void add(const Parts&... parts) {
    if (++count_ <= shown) text_ += concat("\n  ", parts...);
  }
  void raise(const Plan& plan) const;  // fails (model) where there are any
  std::size_t count() const { return count_; }

 private:
  static constexpr std::size_t shown = 100;  // the rest is counted
  std::size_t count_ = 0;
  std::string text_;
};

// A name as messages show it.
std::string brief(const std::string& name);

// How a program and what is in it are named in messages, and where breaches of it go.
class ProgramBreaches {
 public:
  ProgramBreaches(const Plan& plan, ProgramId program, Breaches& breaches)
      : plan_(plan), id_(program), program_(plan.programs[program]), breaches_(breaches) {}
  template <class... Parts>
  void add(const Parts&... parts) {
    breaches_.add(names_of(plan_, id_), ": ", parts...);
    ++count_;
  }
  std::size_t count() const { return count_; }
  std::string buffer(BufferId id) const;
  std::string step(StepId id) const;

 private:
  const Plan& plan_;
  const ProgramId id_;
  const DeviceProgram& program_;
  Breaches& breaches_;
  std::size_t count_ = 0;
};

// "step 3 (Relu)"
std::string name_of_step(const Plan& plan, const DeviceProgram& program, StepId id);

// Arenas, buffers, steps and schedule each by itself: whether indices and places may be relied on. `devices`: those that run the program,
// one at least.
bool verify_structure(const Plan& plan, ProgramId program, std::span<const int> devices, Breaches& breaches);
// What kernels are launched with, of a sound program.
void verify_launches(const Plan& plan, ProgramId program, Breaches& breaches);
// Which bytes are used when, of a sound program without a schedule.
void verify_memory(const Plan& plan, ProgramId program, Breaches& breaches);
// What passes between devices, and between them and the host, of a plan whose programs are sound and have no schedules.
void verify_exchanges(const Plan& plan, Breaches& breaches);
void verify_host(const Plan& plan, Breaches& breaches);

}  // namespace tandem
