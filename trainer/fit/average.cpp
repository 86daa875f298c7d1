// Averages of the weights, which the updates keep as states: "average/WEIGHT".
#include "planner/update/optimizer.h"
#include "trainer/compiled_model.h"
#include "trainer/model.h"

namespace tandem {

void CompiledModel::start_averages() {
  std::vector<NamedTensor> weights;
  std::map<std::string, bool, std::less<>> kept;
  if (!options.plan.optimizer.average) return;
  session->gather_parameters();
  session->each_optimizer_state([&](const NamedTensor& t) { kept[t.name] = true; });
  session->each_parameter([&](const NamedTensor& t) {
    if (std::string name = concat(average_state, '/', t.name); kept.contains(name)) weights.push_back({std::move(name), t.tensor});
  });
  session->set_parameters(weights, ValueRole::optimizer_state);
}

bool Model::swap_averages() {
  Session& session = compiled_->running();
  session.gather_parameters();
  const std::string prefix = concat(average_state, '/');
  std::map<std::string, Tensor, std::less<>> averages;  // by weight
  session.each_optimizer_state([&](const NamedTensor& t) {
    if (t.name.starts_with(prefix)) averages.emplace(t.name.substr(prefix.size()), t.tensor);
  });
  std::vector<NamedTensor> weights, now;
  session.each_parameter([&](const NamedTensor& t) {
    const auto average = averages.find(t.name);
    if (average == averages.end()) return;
    weights.push_back({t.name, average->second});
    now.push_back({prefix + t.name, t.tensor});
  });
  session.set_parameters(weights);
  session.set_parameters(now, ValueRole::optimizer_state);
  return !weights.empty();
}

}  // namespace tandem
