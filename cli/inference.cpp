#include "cli/inference.h"

#include "cli/data_flags.h"
#include "cli/loss_flags.h"
#include "cli/model_options.h"
#include "cli/predict_flags.h"
#include "cli/tune_options.h"

namespace tandem {

Inference open_inference(const Invocation& call, World* world, bool measures) {
  const Arguments& a = call.arguments;
  const std::string source = a[data_flags.data], part = a[split_flags.split];
  if (!a.trained().empty()) call.say(concat("note: the model is ", a.trained(), ", which the run of ", a[common_flags.config], " wrote"));
  ModelOptions options = model_options(call, PlanMode::inference);
  options.world = world;
  WeightOptions weights = adapter_options(a);
  weights.own_loss = measures && !a.given(loss_flags.loss);
  Inference i{.options = options, .model = load_model(a[model_file], world, weights), .backends = BackendSet::load(options.plan.devices)};
  if (world && a[data_flags.on_bad_sample] != "fail")
    fail(ExitCode::usage, "--on-bad-sample skip: of several processes each reads its own rows alone and would leave others out");
  i.options.measures = measures;
  if (!measures) i.options.outputs = a[predict_flags.outputs];
  settle_inputs(call, i.model, i.options);
  if (measures) take_preparation(call, i.model, i.options);
  i.model.assume_loss(i.options);
  i.backends.check(own_devices(options.plan.devices, world), true);
  {
    const World::Busy busy(world);
    DataRequest request = i.model.data_request(i.options);
    if (part.empty())
      request.parts = {"test", "validation", "train"};  // the first that there is
    else
      request.parts = {part};
    i.splits = open_data(source, request);
    i.data = &split_of(i.splits, part);
  }
  i.model.fit_constants(i.options, *i.data);
  for (const std::string& note : i.data->notes()) call.say("note: " + note);
  std::vector<World::Fact> facts;
  if (world) {
    const World::Busy busy(world);
    facts = {template_fact(i.model, call), data_fact("data", i.data)};
  }
  agree_on(world, facts, options.plan.devices, i.backends);
  return i;
}

}  // namespace tandem
