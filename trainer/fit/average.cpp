// Averages of the weights, which the updates keep as states: "average/WEIGHT".
#include <set>

#include "planner/update/optimizer.h"
#include "trainer/compiled_model.h"
#include "trainer/model.h"

namespace tandem {

namespace {

// Calls work(weight, its average) for each weight that has one.
template <class Work>
void each_average(const Session& session, const Work& work) {
  const std::vector<PlanParameter>& all = session.plan(0).parameters;
  std::set<std::string> kept;
  for (const PlanParameter& p : all)
    if (p.role == ValueRole::optimizer_state) kept.insert(p.name);
  for (const PlanParameter& p : all) {
    const std::string average = concat(average_state, '/', p.name);
    if (p.role != ValueRole::plain || !kept.contains(average)) continue;
    work(p.key(), ParameterKey{ValueRole::optimizer_state, average});
  }
}

}  // namespace

void CompiledModel::start_averages() {
  if (!options.plan.optimizer.average) return;
  each_average(*session, [&](const ParameterKey& weight, const ParameterKey& average) { session->copy_parameter(weight, average); });
}

bool Model::swap_averages() {
  Session& session = compiled_->running();
  bool any = false;
  each_average(session, [&](const ParameterKey& weight, const ParameterKey& average) {
    session.swap_parameters(weight, average);
    any = true;
  });
  return any;
}

}  // namespace tandem
