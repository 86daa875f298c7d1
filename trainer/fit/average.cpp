// Averages of the weights, which the updates keep as states: "average/WEIGHT".
#include <set>

#include "planner/update/optimizer.h"
#include "trainer/compiled_model.h"
#include "trainer/model.h"

namespace tandem {

namespace {

// Calls work(weight, its average) for each weight that has one. Of several ranks each has both of them whole meanwhile.
template <class Work>
void each_average(Session& session, const Work& work) {
  const std::vector<PlanParameter>& all = session.plan(0).parameters;
  std::set<std::string> kept;
  for (const PlanParameter& p : all)
    if (p.role == ValueRole::optimizer_state) kept.insert(p.name);
  for (const PlanParameter& p : all) {
    const std::string average = concat(average_state, '/', p.name);
    if (p.role != ValueRole::plain || !kept.contains(average)) continue;
    const ParameterKey both[] = {{ValueRole::plain, p.name}, {ValueRole::optimizer_state, average}};
    session.gather_parameters(both);
    work(p.name, average);
  }
}

void set(Session& session, const std::string& name, Tensor value, ValueRole role) {
  const NamedTensor named{name, std::move(value)};
  session.set_parameters({&named, 1}, role);
}

}  // namespace

void CompiledModel::start_averages() {
  if (!options.plan.optimizer.average) return;
  each_average(*session, [&](const std::string& weight, const std::string& average) {
    set(*session, average, session->streamed(weight), ValueRole::optimizer_state);
  });
}

bool Model::swap_averages() {
  Session& session = compiled_->running();
  bool any = false;
  each_average(session, [&](const std::string& weight, const std::string& average) {
    const Tensor now = session.parameter(weight);
    set(session, weight, session.streamed(average, ValueRole::optimizer_state), ValueRole::plain);
    set(session, average, now, ValueRole::optimizer_state);
    any = true;
  });
  return any;
}

}  // namespace tandem
