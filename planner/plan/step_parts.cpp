#include "planner/plan/step_parts.h"

#include <algorithm>

#include "planner/plan/timeline.h"

namespace tandem {
namespace {

// Leaves the exchanges that devices enter.
void number_exchanges(Plan& plan) {
  IdVector<ExchangeId, ExchangeId> now(plan.exchanges.size());
  IdVector<ExchangeId, Exchange> exchanges;
  for (DeviceProgram& program : plan.programs)
    for (Step& s : program.steps)
      if (auto* const step = s.as<ExchangeStep>()) {
        ExchangeId& number = now[step->exchange];
        if (number.index < 0) number = exchanges.add(plan.exchanges[step->exchange]);
        step->exchange = number;
      }
  plan.exchanges = std::move(exchanges);
}

Plan taken(const Plan& flat, StepPart part) {
  Plan plan = flat;
  for (DeviceProgram& program : plan.programs) {
    IdVector<StepId, StepId> now(program.steps.size());
    IdVector<StepId, Step> steps;
    for (StepId s{0}; s.index < std::ssize(program.steps); ++s.index) {
      Step& step = program.steps[s];
      if (part_of(step.phase) != part) continue;
      std::erase_if(step.waits, [&](StepId w) { return now[w].index < 0; });  // the other part has ended
      for (StepId& w : step.waits) w = now[w];
      step.phase = Phase::forward;
      now[s] = steps.add(std::move(step));
    }
    program.steps = std::move(steps);
  }
  number_exchanges(plan);
  return plan;
}

}  // namespace

bool has_parts(const Plan& plan) {
  return std::ranges::any_of(plan.inputs, [](const HostInput& in) { return in.role == ValueRole::gradient; });
}

std::pair<Plan, Plan> parts_of(const Plan& plan) {
  const Plan flat = written_out(plan);
  return {taken(flat, StepPart::forward), taken(flat, StepPart::backward)};
}

}  // namespace tandem
