#include "cli/inference.h"

#include "cli/model_options.h"

namespace tandem {

std::vector<OptionRow> split_rows() {
  return {{"split", "NAME", "", "train, validation or test (default: test where there is one)"}};
}

Inference open_inference(const Invocation& call, World* world) {
  const Arguments& a = call.arguments;
  const std::string& source = a.text("data");
  if (!a.trained().empty()) call.say(concat("note: the model is ", a.trained(), ", which the run of ", a.text("config"), " wrote"));
  ModelOptions options = model_options(call, PlanMode::inference);
  options.world = world;
  Inference i{.options = options, .model = load_model(a.positional("model"), world), .backends = BackendSet::load(options.plan.devices)};
  i.backends.check(own_devices(options.plan.devices, world), true);
  {
    const World::Busy busy(world);
    const DataRequest request = i.model.data_request(options);
    const bool array = source.ends_with(".npy");
    if (array)
      i.splits.test = open_npy(source, request);
    else
      i.splits = open_data(source, request);
    i.data = &split_of(i.splits, array ? "" : a.text("split"));
  }
  agree_on(world, {{"samples", text_of(i.data->size())}}, options.plan.devices, i.backends);
  return i;
}

}  // namespace tandem
