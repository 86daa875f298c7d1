// Activations that do not stay on the devices of a plan: they are computed again, or other devices keep them.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "planner/lower_programs.h"
#include "planner/recompute/offload.h"
#include "planner/recompute_programs.h"

namespace tandem {

// A program of devices whose activations others keep.
struct ProgramToOffload {
  ProgramToRecompute program;
  KeepersLink link;
  std::vector<KeptBy> pairs;           // none: nobody keeps them
  std::vector<std::size_t> keepers{};  // whose programs these are, of UnitPrograms
};

// Writes `programs` anew, of which `senders` are some, and says in the plan what was done. With a budget the way that takes least time:
// activations are computed again, are kept elsewhere, or both; without one all are kept elsewhere that may be. `planned`: the plan of such
// programs, with its time. Fails as recompute_programs() does.
void offload_programs(Plan& plan, UnitPrograms& programs, std::span<const ProgramToOffload> senders, const CompileOptions& options,
                      const std::function<Plan(UnitPrograms)>& planned);

}  // namespace tandem
