#include "python/src/autograd.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "options/options.h"
#include "planner/plan/plan_formats.h"
#include "python/src/arrays.h"
#include "tandem/tandem.h"
#include "trainer/autograd.h"

namespace tandem::python {
namespace {

using Values = std::vector<std::pair<std::string, Array>>;

// Where the arrays hold them.
std::vector<NamedTensor> views_of(const Values& values) {
  std::vector<NamedTensor> list;
  for (const auto& [name, array] : values) list.push_back({name, view_of(array)});
  return list;
}

nb::list list_of(std::vector<NamedTensor> tensors) {
  nb::list list;
  for (NamedTensor& t : tensors) list.append(nb::make_tuple(t.name, array_of(std::move(t.tensor))));
  return list;
}

template <class Work>
auto without_lock(const Work& work) {
  const nb::gil_scoped_release released;
  return work();
}

class PyPass {
 public:
  explicit PyPass(Autograd autograd) : autograd_(std::move(autograd)) {}
  std::unique_ptr<PyPass> again() const {
    return without_lock([&] { return std::make_unique<PyPass>(autograd_.again()); });
  }
  std::string plan(const std::string& format) const {
    if (const PlanFormat* const found = find_plan_format(format)) return found->write(autograd_.plan());
    fail(ExitCode::usage, "plan: unknown format '", format, "', expected ", plan_format_names());
  }
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> parameters() const {  // with their shapes
    std::vector<std::pair<std::string, std::vector<std::int64_t>>> list;
    for (const PlanParameter& p : autograd_.plan().parameters)
      if (p.role == ValueRole::plain) list.emplace_back(p.name, p.type.shape.dims);
    return list;
  }
  void set_parameters(const Values& values) {
    const std::vector<NamedTensor> tensors = views_of(values);
    without_lock([&] { autograd_.set_parameters(tensors); });
  }
  nb::list statistics() const {
    return list_of(without_lock([&] { return autograd_.statistics(); }));
  }
  nb::list forward(const Values& inputs, std::int64_t step) {
    const std::vector<NamedTensor> tensors = views_of(inputs);
    return list_of(without_lock([&] { return autograd_.forward(tensors, step); }));
  }
  nb::list backward(const Values& gradients) {
    const std::vector<NamedTensor> tensors = views_of(gradients);
    return list_of(without_lock([&] { return autograd_.backward(tensors); }));
  }

 private:
  Autograd autograd_;
};

class PyPasses {
 public:
  PyPasses(const std::string& path, std::string options)
      : options_(Options::parse(options)), model_(Model::load(path, options_.weights())) {}

  std::vector<std::string> inputs() const {
    std::vector<std::string> names;
    for (const ModelInput& input : model_.file().inputs()) names.push_back(input.name);
    return names;
  }
  std::vector<std::string> tensors() const {  // of floats
    std::vector<std::string> names;
    for (const TemplateTensor& t : model_.file().tensors())
      if (is_float(t.type.dtype)) names.push_back(t.name);
    return names;
  }
  std::vector<std::string> outputs() const { return model_.file().outputs(); }

  std::unique_ptr<PyPass> plan(std::int64_t batch, std::vector<std::string> parameters, std::vector<std::string> inputs,
                               std::vector<std::string> frozen, const std::string& mode) {
    Options options = options_;
    options.set("batch_size", batch);
    if (!options.given("init")) options.set("init", "keep");  // what is zero in the module is meant
    AutogradOptions o{.model = options.as(Purpose::plan).run(model_, backends()).model,
                      .parameters = std::move(parameters),
                      .inputs = std::move(inputs),
                      .frozen = std::move(frozen),
                      .mode = mode == "train" ? AutogradMode::train : mode == "eval" ? AutogradMode::eval : AutogradMode::predict};
    return without_lock([&] { return std::make_unique<PyPass>(Autograd(model_.source(), o, backends())); });
  }

 private:
  const Options options_;
  const Model model_;
};

}  // namespace

void bind_autograd(nb::module_& module) {
  nb::class_<PyPass>(module, "Pass")
      .def("again", &PyPass::again)
      .def("plan", &PyPass::plan)
      .def("parameters", &PyPass::parameters)
      .def("set_parameters", &PyPass::set_parameters)
      .def("statistics", &PyPass::statistics)
      .def("forward", &PyPass::forward)
      .def("backward", &PyPass::backward);
  nb::class_<PyPasses>(module, "Passes")
      .def(nb::init<const std::string&, std::string>())
      .def("inputs", &PyPasses::inputs)
      .def("tensors", &PyPasses::tensors)
      .def("outputs", &PyPasses::outputs)
      .def("plan", &PyPasses::plan, nb::arg("batch"), nb::arg("parameters"), nb::arg("inputs"), nb::arg("frozen"), nb::arg("mode"));
}

}  // namespace tandem::python
