// The options that a plan was made by: a plan file holds them, and who runs it goes by them.
#pragma once
#include <string>

#include "cli/command.h"

namespace tandem {

// As PlanRecord::options: those of `call` that decide what a plan is, as far as they were given, its devices and its batch.
std::string planned_options(const Arguments& call, bool evaluates);

// The call with the options of --plan's file as if they were given; without --plan as it is. Fails (usage) where another value was given,
// unless --replan asks for a new plan then. A resumed run has its options from its folder.
Arguments with_planned_options(const Invocation& call);

}  // namespace tandem
