// What a file says of devices, and what is written into it: metadata of nodes and device configurations (IR 11).
#include <algorithm>

#include "base/option.h"
#include "base/suggest.h"
#include "planner/place/configured.h"
#include "planner/place/parallel.h"
#include "trainer/devices.h"
#include "trainer/template/forms.h"
#include "trainer/template/model_template.h"

namespace tandem {
namespace {

// Axes of inputs are those of the file there, and in a graph samples stand first.
void move_batch_axes(DeviceConfiguration& c, const std::vector<InputForm>& inputs, bool to_graph) {
  for (const InputForm& input : inputs) {
    const auto it = c.tensors.find(input.name);
    if (it == c.tensors.end() || input.batch_axis <= 0) continue;
    const int file = to_graph ? input.batch_axis : 0, graph = to_graph ? 0 : input.batch_axis;
    for (TensorSharding::Dim& dim : it->second.dims) {
      if (dim.axis == file)
        dim.axis = graph;
      else if (std::min(file, graph) <= dim.axis && dim.axis <= std::max(file, graph))
        dim.axis += to_graph ? 1 : -1;
    }
  }
}

// The one that is meant; null: none.
const DeviceConfiguration* chosen(const std::vector<DeviceConfiguration>& all, const std::string& name, std::int64_t devices,
                                  std::vector<std::string>& notes) {
  std::vector<std::string> names;
  for (const DeviceConfiguration& c : all) names.push_back(c.name);
  if (!name.empty()) {
    const auto it = std::ranges::find(all, name, &DeviceConfiguration::name);
    if (it != all.end() && it->devices != devices)
      fail(ExitCode::usage, option("configuration"), " '", name, "' is for ", it->devices, it->devices == 1 ? " device" : " devices", ", ",
           option("devices"), " lists ", devices);
    if (it != all.end()) return &*it;
    fail(ExitCode::usage, option("configuration"), " '", name, "': the model has ",
         all.empty() ? "no device configurations" : concat("no such device configuration", suggestion(name, names)));
  }
  std::vector<const DeviceConfiguration*> fitting;
  for (const DeviceConfiguration& c : all)
    if (c.devices == devices) fitting.push_back(&c);
  if (fitting.size() > 1)
    fail(ExitCode::usage, "the model has ", fitting.size(), " device configurations for ", devices, " devices ('", fitting[0]->name, "', '",
         fitting[1]->name, "'): ", option("configuration"), " says which, or none");
  if (fitting.empty() && !all.empty())
    notes.push_back(concat("the model's device configurations are left aside: none is for ", devices, devices == 1 ? " device" : " devices",
                           " ('", all[0].name, "' is for ", all[0].devices, ")"));
  return fitting.empty() ? nullptr : fitting[0];
}

}  // namespace

std::vector<std::string> ModelTemplate::fit_placement(ModelOptions& o, const std::string& configuration) const {
  std::vector<std::string> notes;
  if (configuration == "none" || o.plan.placement) return notes;
  const auto devices = std::ssize(computing_devices(o.plan));
  const bool said = says_where(o.plan.parallel);
  std::vector<Parallelism::Place> rules;
  std::int64_t marked = 0;
  for (const auto& [node, says] : file().node_notes()) {
    if (says.device.empty()) continue;
    ++marked;
    if (devices == 1) continue;
    const std::string what = concat("node '", node, "', metadata tandem.device");
    rules.push_back({node, places_of(says.device, o.plan.devices, o.world ? o.world->ranks() : 1, what), true});
  }
  if (marked > 0 && devices == 1)
    notes.push_back(concat("the file puts ", marked, marked == 1 ? " node" : " nodes",
                           " on devices (metadata tandem.device), and there is one: ", option("devices"), " lists several"));
  const bool named = !configuration.empty();
  if (named && said)
    fail(ExitCode::usage, option("configuration"), " and ", option("parallel"), ", ", option("split"), " or ", option("place"),
         " both say where values lie: leave one of them out");
  if (const std::vector<DeviceConfiguration> all = devices > 1 || named ? file().configurations() : std::vector<DeviceConfiguration>();
      !all.empty() || named) {
    if (said) {
      notes.push_back(concat("the model's device configurations are left aside: ", option("parallel"), ", ", option("split"), " or ",
                             option("place"), " says where values lie"));
    } else if (const DeviceConfiguration* const c = chosen(all, configuration, devices, notes)) {
      o.plan.configuration = *c;
      move_batch_axes(*o.plan.configuration, file().input_forms(import_options(o, o.micro_batch(), false)), true);
      notes.push_back(concat("values lie as the model's device configuration '", c->name, "' says (", option("configuration"),
                             " none leaves it aside)"));
      return notes;
    }
  }
  if (o.plan.parallel.pipeline != 1 && !rules.empty()) {
    notes.push_back(concat("what the file says of devices (metadata tandem.device) is left aside: the stages of ", option("parallel"),
                           " pipeline say where nodes work"));
    return notes;
  }
  if (!rules.empty())
    notes.push_back(concat(marked, marked == 1 ? " node is" : " nodes are", " put where the file says (metadata tandem.device; ",
                           option("place"), " overrules it, ", option("configuration"), " none leaves it aside)"));
  o.plan.parallel.places.insert(o.plan.parallel.places.end(), rules.begin(), rules.end());
  return notes;
}

DeviceConfiguration ModelTemplate::configuration_of(const Plan& plan, const ModelOptions& o) const {
  if (o.plan.parallel.zero > 0 && (o.plan.parallel.zero == 3 || !o.plan.parallel.places.empty() || o.plan.parallel.pipeline != 1))
    fail(ExitCode::usage, option("annotate"), ": a device configuration cannot say ", option("parallel"), " zero=", o.plan.parallel.zero,
         o.plan.parallel.zero == 3             ? ""
         : o.plan.parallel.places.empty() ? " with pipeline"
                                               : concat(" with ", option("place")));
  if (!o.plan.memory.activations_on.empty())
    fail(ExitCode::usage, option("annotate"), ": a device configuration cannot say ", option("offload"), " activations");
  if (o.plan.parallel.weights_on >= 0)
    fail(ExitCode::usage, option("annotate"), ": a device configuration cannot say ", option("weights_on"));
  if (o.plan.parallel.merge_on >= 0) fail(ExitCode::usage, option("annotate"), ": a device configuration cannot say ", option("merge_on"));
  DeviceConfiguration c = tandem::configuration_of(plan, o.plan.configuration ? o.plan.configuration->name : "tandem");
  move_batch_axes(c, file().input_forms(import_options(o, o.micro_batch(), false)), false);
  return c;
}

}  // namespace tandem
