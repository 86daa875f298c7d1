// The lines that `tandem train --json` writes.
#pragma once
#include <string>

#include "cli/choices.h"
#include "trainer/model.h"

namespace tandem {

Json plan_event(const Plan& plan, const std::vector<Choice>& choices);
Json step_event(const StepReport& report);
Json epoch_event(const EpochReport& report);
// `output`: where the weights so far are; empty: in the checkpoint.
Json stopped_event(const History& history, const std::string& output);
Json done_event(const Model& model, const History& history, const EpochReport& last, const Evaluation& test, const std::string& output);

}  // namespace tandem
