// The C API: forward and backward passes for a loop of the caller's.
#include <algorithm>

#include "tandem/c_handles.h"
#include "tandem/tandem.h"
#include "trainer/template/forms.h"

namespace tandem::c {
namespace {

AutogradMode mode_of(int mode) {
  static constexpr AutogradMode modes[] = {AutogradMode::train, AutogradMode::eval, AutogradMode::predict};
  if (mode < TANDEM_TRAIN || mode > TANDEM_PREDICT) fail(ExitCode::usage, "mode ", mode, " is none of tandem_mode");
  return modes[mode];
}

// Those of the model's weights that the passes have, too.
void take_weights(Autograd& passes, const Model& model) {
  std::vector<NamedTensor> values = model.parameters();
  std::erase_if(values, [&](const NamedTensor& v) {
    const auto is_it = [&](const PlanParameter& p) { return p.role == ValueRole::plain && p.name == v.name; };
    return std::ranges::none_of(passes.plan().parameters, is_it);
  });
  passes.set_parameters(values);
}

std::unique_ptr<tandem_autograd> planned(tandem_model& m, int mode, const Json& given, std::vector<std::string> inputs) {
  Options options = m.options;
  options.set(given);
  AutogradOptions o{.model = options.as(Purpose::plan).run(m.model, backends()).model,
                    .inputs = std::move(inputs),
                    .mode = mode_of(mode)};
  o.model.plan.stop = [&m] { return m.stop.load(); };
  std::vector<std::string> names;
  for (const ModelInput& input : m.model.file().inputs()) names.push_back(input.name);
  std::unique_ptr<tandem_autograd> passes(new tandem_autograd{m.shared, std::move(names), Autograd(m.model.source(), o, backends()), {}});
  if (m.state != tandem_model::State::untrained) take_weights(passes->passes, m.model);
  return passes;
}

std::vector<NamedTensor> named_inputs(const tandem_autograd& a, const tandem_tensor* const* inputs, std::size_t count) {
  std::vector<Tensor> tensors = tensors_of(inputs, count);
  if (a.inputs.size() != count) fail(ExitCode::data, "a batch of ", count, " tensors for ", a.inputs.size(), " inputs");
  std::vector<NamedTensor> list;
  for (std::size_t i = 0; i < count; ++i) list.push_back({a.inputs[i], std::move(tensors[i])});
  return list;
}

std::vector<NamedTensor> named_gradients(const Autograd& passes, const tandem_tensor* const* gradients, std::size_t count) {
  const std::vector<std::string>& names = passes.outputs();
  if (count > names.size()) fail(ExitCode::usage, "gradients of ", count, " outputs, the model has ", names.size());
  std::vector<NamedTensor> list;
  for (std::size_t i = 0; i < count; ++i)
    if (const tandem_tensor* const one = (&need(gradients, "gradients"))[i]) list.push_back({names[i], one->values});
  return list;
}

}  // namespace
}  // namespace tandem::c

using namespace tandem;

int tandem_autograd_new(tandem_model* model, int mode, const char* options, const char* const* inputs, size_t count,
                        tandem_autograd** out) {
  return c::guarded([&] {
    tandem_autograd*& place = c::need(out, "out");
    tandem_model& m = c::need(model, "model");
    const c::Working working(m);
    std::vector<std::string> names;
    for (std::size_t i = 0; i < count; ++i) names.emplace_back(&c::need((&c::need(inputs, "inputs"))[i], "inputs"));
    place = c::planned(m, mode, c::parsed(options), std::move(names)).release();
  });
}
void tandem_autograd_free(tandem_autograd* passes) {
  delete passes;
}

int tandem_autograd_forward(tandem_autograd* passes, const tandem_tensor* const* inputs, size_t count, int64_t step,
                            tandem_tensor** tensors, size_t most, size_t* outputs) {
  return c::guarded([&] {
    tandem_autograd& a = c::need(passes, "passes");
    if (step < 1) fail(ExitCode::usage, "step ", step, ", expected 1 or more");
    std::vector<Tensor> all;
    for (NamedTensor& output : a.passes.forward(c::named_inputs(a, inputs, count), step)) all.push_back(std::move(output.tensor));
    c::give_tensors(std::move(all), tensors, most, outputs);
  });
}

int tandem_autograd_backward(tandem_autograd* passes, const tandem_tensor* const* gradients, size_t count) {
  return c::guarded([&] {
    tandem_autograd& a = c::need(passes, "passes");
    a.gradients = a.passes.backward(c::named_gradients(a.passes, gradients, count));
  });
}

int tandem_autograd_gradient(const tandem_autograd* passes, const char* name, tandem_tensor** out) {
  return c::guarded([&] {
    tandem_tensor*& place = c::need(out, "out");
    const std::vector<NamedTensor>& all = c::need(passes, "passes").gradients;
    const std::string wanted = &c::need(name, "name");
    const auto found = std::ranges::find(all, wanted, &NamedTensor::name);
    if (all.empty()) fail(ExitCode::usage, "the gradient of '", wanted, "': no backward pass has given any yet");
    if (found == all.end())
      fail(ExitCode::usage, "'", wanted,
           "' has no gradient: expected a trained weight that an output depends on, or an input that was asked for");
    place = new tandem_tensor{found->tensor};
  });
}

const char* tandem_autograd_trained(const tandem_autograd* passes, size_t index) {
  return passes && index < passes->passes.trained().size() ? passes->passes.trained()[index].c_str() : nullptr;
}

int tandem_autograd_get_weight(const tandem_autograd* passes, const char* name, tandem_tensor** out) {
  return c::guarded([&] {
    tandem_tensor*& place = c::need(out, "out");
    place = new tandem_tensor{c::need(passes, "passes").passes.parameter(&c::need(name, "name"))};
  });
}

int tandem_autograd_set_weight(tandem_autograd* passes, const char* name, const tandem_tensor* values) {
  return c::guarded([&] {
    const NamedTensor one{&c::need(name, "name"), c::need(values, "values").values};
    c::need(passes, "passes").passes.set_parameters(std::span(&one, 1));
  });
}

int tandem_autograd_plan(const tandem_autograd* passes, const char* format, char** out, size_t* size) {
  return c::guarded([&] {
    const std::string text = c::format_of(format).write(c::need(passes, "passes").passes.plan());
    c::give(out, text);
    if (size) *size = text.size();
  });
}

int tandem_autograd_save(const tandem_autograd* passes, const char* path, const char* options) {
  return c::guarded([&] {
    const tandem_autograd& a = c::need(passes, "passes");
    bool metadata = true;
    SaveOptions save = c::save_options(c::parsed(options), metadata);
    save.metadata = a.model->file().metadata();
    if (!metadata) std::erase_if(*save.metadata, [](const auto& entry) { return entry.first.starts_with(metadata_prefix); });
    ModelFile::WeightSource weights{{}, [&](const std::string& name) { return a.passes.parameter(name); }};
    for (const PlanParameter& p : a.passes.plan().parameters)
      if (p.role == ValueRole::plain) weights.weights.emplace_back(p.name, p.type);
    a.model->file().write_from(weights, &c::need(path, "path"), save);
  });
}
