#include "cli/inference.h"

#include "cli/run_options.h"
#include "options/loss_flags.h"
#include "options/predict_flags.h"
#include "options/tune_options.h"

namespace tandem {

Inference open_inference(const Invocation& call, World* world, Purpose purpose) {
  const Arguments& a = call.arguments;
  if (!a.trained().empty()) call.say(concat("note: the model is ", a.trained(), ", which the run of ", a[common_flags.config], " wrote"));
  RunOptions asked = run_options(call, purpose, world);
  const std::vector<DeviceSpec> devices = asked.model.plan.devices;
  WeightOptions weights = adapter_options(a);
  weights.own_loss = purpose == Purpose::evaluate && !a.given(loss_flags.loss);
  Inference i{.model = load_model(a[model_file], world, weights), .backends = BackendSet::load(devices)};
  if (purpose == Purpose::predict) asked.model.outputs = a[predict_flags.outputs];
  i.backends.check(own_devices(devices, world), true);
  i.run = prepare(i.model, std::move(asked), i.backends.all());
  std::vector<World::Fact> facts;
  if (world) {
    const World::Busy busy(world);
    facts = {template_fact(i.model, call), data_fact("data", i.run.data.part)};
  }
  agree_on(world, facts, devices, i.backends);
  return i;
}

}  // namespace tandem
