#include "cli/inference.h"

#include "cli/model_options.h"
#include "cli/tune_options.h"

namespace tandem {

std::vector<OptionRow> split_rows() {
  return {{"split", "NAME", "", "train, validation or test (default: test where there is one)"}};
}

Inference open_inference(const Invocation& call, World* world, bool measures) {
  const Arguments& a = call.arguments;
  const std::string& source = a.text("data");
  if (!a.trained().empty()) call.say(concat("note: the model is ", a.trained(), ", which the run of ", a.text("config"), " wrote"));
  ModelOptions options = model_options(call, PlanMode::inference);
  options.world = world;
  WeightOptions weights = adapter_options(a);
  weights.own_loss = measures && !a.given("loss");
  Inference i{.options = options, .model = load_model(a.positional("model"), world, weights), .backends = BackendSet::load(options.plan.devices)};
  if (world && a.text("on-bad-sample") != "fail")
    fail(ExitCode::usage, "--on-bad-sample skip: of several processes each reads its own rows alone and would leave others out");
  i.options.measures = measures;
  if (!measures) i.options.outputs = a.list("outputs");
  settle_inputs(call, i.model, i.options);
  if (measures) take_preparation(call, i.model, i.options);
  i.model.assume_loss(i.options);
  i.backends.check(own_devices(options.plan.devices, world), true);
  {
    const World::Busy busy(world);
    DataRequest request = i.model.data_request(i.options);
    if (a.text("split").empty())
      request.parts = {"test", "validation", "train"};  // the first that there is
    else
      request.parts = {a.text("split")};
    i.splits = open_data(source, request);
    i.data = &split_of(i.splits, a.text("split"));
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
