// What data must look like, and what of the options is as the data has it: sizes, and inputs that hold no samples.
#include <algorithm>

#include "base/option.h"
#include "trainer/feed/index_range.h"
#include "trainer/template/forms.h"
#include "trainer/template/model_template.h"

namespace tandem {

DataRequest ModelTemplate::data_request(const ModelOptions& o) const {
  DataRequest request{.seed = o.seed,
                      .class_names = class_names({}, file_),
                      .means = column_means({}, file_),
                      .training = o.plan.mode == PlanMode::training};
  const Graph graph = graphs(o)(o.micro_batch());
  for (const FeedTarget& target : targets_of(graph, {}, o.plan))
    request.inputs.push_back({.name = target.name, .sample = target.sample, .indices = target.indices});
  for (const ValueId in : without_samples(graph))
    request.constants.push_back({.name = graph[in].name, .sample = graph[in].type, .indices = index_range(graph, in)});
  const Losses losses = losses_if_any(o);
  if (losses.empty() || !losses[0].sample) return request;
  const Labels& labels = losses[0];
  request.label = *labels.sample;
  request.classes = labels.classes;
  request.label_pad = labels.ignore;
  request.label_rows = labels.positions();
  return request;
}

std::optional<DataRequest> ModelTemplate::dims_request(const ModelOptions& o) const {
  DataRequest request{.seed = o.seed, .class_names = {}, .means = {}, .training = o.plan.mode == PlanMode::training};
  bool open = false;
  for (const InputForm& input : file_.input_forms(import_options(o, o.micro_batch(), false))) {
    (input.batch_axis >= 0 ? request.inputs : request.constants).push_back({.name = input.name, .sample = {}});
    open = open || !input.open.empty();
  }
  return open ? std::optional(request) : std::nullopt;
}

void ModelTemplate::fit_dims(ModelOptions& o, const Dataset& data) const {
  const auto fields = data.fields();
  const std::map<std::string, Tensor> constants = data.constants();
  const std::vector<InputForm> inputs = file_.input_forms(import_options(o, o.micro_batch(), false));
  const auto alone = std::ranges::count_if(inputs, [](const InputForm& i) { return i.batch_axis >= 0; }) == 1;
  for (const InputForm& input : inputs) {
    Shape shape;
    if (input.batch_axis >= 0) {
      const auto fits = [&](const Field& f) { return f.role == Role::input && !f.encoded && (f.name == input.name || alone); };
      const auto field = std::ranges::find_if(fields, fits);
      if (field == fields.end()) continue;
      shape = field->sample.shape;
      shape.dims.insert(shape.dims.begin(), o.micro_batch());
    } else if (const auto known = constants.find(input.name); known != constants.end()) {
      shape = known->second.shape();
    }
    input.take_sizes(shape, o.dims);
  }
}

void ModelTemplate::fit_constants(ModelOptions& o, const Dataset& data) const {
  const std::map<std::string, Tensor> given = data.constants();
  for (const auto& [name, value] : o.data_constants) {
    const auto it = given.find(name);
    if (it == given.end() || it->second == value) continue;
    fail(ExitCode::data, data.name(), ": the value of the model's input '", name,
         "' is another than that of the training data; it holds no samples and is the same for all parts");
  }
  const Graph graph = graphs(o)(o.micro_batch());
  for (const ValueId in : without_samples(graph)) {
    const auto it = given.find(graph[in].name);
    if (it == given.end())
      fail(ExitCode::data, data.name(), " has no value for the model's input '", graph[in].name, "' ", graph[in].type,
           ", which holds no samples: an array of its shape (npz, npy) or ", option("set"), " ", graph[in].name, "=VALUE gives one");
    o.data_constants.insert_or_assign(it->first, it->second);
  }
}

}  // namespace tandem
