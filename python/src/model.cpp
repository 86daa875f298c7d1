#include "python/src/model.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>

#include "base/suggest.h"
#include "planner/plan/plan_formats.h"
#include "python/src/plan_key.h"
#include "python/src/reports.h"
#include "tandem/tandem.h"
#include "trainer/template/forms.h"

namespace tandem::python {
namespace {

std::unique_ptr<Dataset>& part_of(Splits& splits) {
  return splits.test ? splits.test : splits.validation ? splits.validation : splits.train;
}

Tensor cast(Tensor tensor, DType wanted) {
  return wanted == DType::undefined || wanted == tensor.dtype() ? tensor : tensor.cast(wanted);
}

}  // namespace

// A model works for one thread at a time; within a training that thread may look at the weights, measure and save.
class PyModel::Busy {
 public:
  enum Work { looks, trains };
  Busy(PyModel& model, Work work) : model_(model), first_(!model.user_), trains_(work == trains) {
    const std::thread::id me = std::this_thread::get_id();
    if (model.user_.value_or(me) != me) fail(ExitCode::usage, "the model is in use by another thread");
    if (trains_ && model.training_) fail(ExitCode::usage, "the model is being trained: a callback may measure and save it, not train it");
    model.user_ = me;
    if (first_) model.interruption_.emplace();
    if (trains_) model.training_ = true;
  }
  ~Busy() {
    if (first_) model_.user_.reset();
    if (first_) model_.interruption_.reset();
    if (trains_) model_.training_ = false;
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  PyModel& model_;
  const bool first_, trains_;
};

template <class Work>
auto PyModel::without_lock(const Work& work) {
  try {
    const nb::gil_scoped_release released;
    return work();
  } catch (const Stopped&) {
    interruption_->raise();
    throw;
  }
}

PyModel::PyModel(std::string path, const std::string& options)
    : path_(std::move(path)), model_(Model::load(path_, Options::parse(options).weights())) {}

std::vector<std::string> PyModel::inputs() const {
  std::vector<std::string> names;
  for (const ModelInput& input : model_.file().inputs()) names.push_back(input.name);
  return names;
}

RunOptions PyModel::asked(const Options& options, Purpose purpose) const {
  return options.as(purpose).run(model_, backends());
}

std::string PyModel::summary(const std::string& options) const {
  const RunOptions run = asked(Options::parse(options), Purpose::plan);
  return text_of(model_.source().summary({.dims = dims_of(run.model),
                                          .freeze = run.model.plan.trained.freeze,
                                          .unfreeze = run.model.plan.trained.unfreeze,
                                          .batch_axes = run.model.batch_axes,
                                          .constants = run.model.constants,
                                          .max_loop_iterations = run.model.max_loop_iterations}));
}

// Of arrays or batches.
std::unique_ptr<Dataset> PyModel::dataset(const Data& given, const ModelOptions& options) const {
  if (auto* const batches = std::get_if<Batches*>(&given)) return dataset_of(**batches);
  auto data = std::make_unique<ArrayDataset>();
  std::vector<std::string> constants;  // inputs that hold no samples
  for (const InputForm& input : model_.file().input_forms(import_options(options, options.micro_batch(), false)))
    if (input.batch_axis == no_samples) constants.push_back(input.name);
  for (const auto& [name, role, array] : std::get<Arrays>(given))
    if (role == "input" && std::ranges::find(constants, name) != constants.end())
      data->add_constant(name, array);
    else
      data->add(name, role_of(role), array);
  return data;
}

Splits PyModel::opened(const std::string& spec, const ModelOptions& options) const {
  RunOptions planned{.purpose = Purpose::plan, .model = options};
  return open_data(spec, model_.data_request(prepare(model_, std::move(planned), backends()).options));
}

// `validation` beside `data`: else the data's own validation part is taken, where it has one.
Prepared PyModel::prepared(const Options& options, Purpose purpose, const Data* data, const Data* validation) {
  RunOptions run = asked(options, purpose);
  run.on_note = [this](const std::string& text) { notes_.push_back(text); };
  run.on_warning = [this](const std::string& text) { notes_.push_back("warning: " + text); };
  const auto spec = [](const Data* d) { return d ? std::get_if<std::string>(d) : nullptr; };
  if (spec(data) && !validation) run.data = *spec(data);
  if (spec(data) && validation) run.splits = opened(*spec(data), run.model);
  if (data && !spec(data)) (purpose == Purpose::train ? run.splits.train : run.splits.test) = dataset(*data, run.model);
  if (spec(validation)) {
    Splits other = opened(*spec(validation), run.model);
    run.splits.validation = std::move(part_of(other));
  }
  if (validation && !spec(validation)) run.splits.validation = dataset(*validation, run.model);
  return without_lock([&] { return prepare(model_, std::move(run), backends()); });
}

void PyModel::compile(const Options& options, Prepared& run, Purpose purpose) {
  const std::string key = plan_key(options, run.options);
  measuring_ = run.measuring();
  if (purpose_ == purpose && key == key_) return;
  run.options.plan.stop = [this] { return interruption_ && interruption_->asked(); };
  purpose_.reset();
  without_lock([&] { model_.compile(run.options, backends()); });
  notes_.insert(notes_.end(), model_.notes().begin(), model_.notes().end());
  settled_ = run.options;
  request_ = model_.data_request();
  key_ = key;
  purpose_ = purpose;
  rate_ = run.fit.learning_rate.value_or(default_learning_rate(run.options.plan.optimizer));
}

void PyModel::compile_for_training(const std::string& options) {
  if (purpose_) return;
  const Options values = Options::parse(options);
  Prepared run = prepared(values, Purpose::plan, nullptr, nullptr);
  compile(values, run, Purpose::train);
}

void PyModel::check(const std::string& options) {
  const Busy busy(*this, Busy::trains);
  const Options values = Options::parse(options);
  const RunOptions run = asked(values, Purpose::plan);
  if (!model_.source().dims_request(run.model)) {  // else the data tells sizes
    const ModelOptions settled = prepared(values, Purpose::plan, nullptr, nullptr).options;
    notes_.clear();  // the run says them again
    without_lock([&] { model_.source().check(settled, backends()); });
  }
  Model::check(run.fit);
  purpose_.reset();
}

std::string PyModel::plan(const std::string& options, const std::string& format) {
  const Busy busy(*this, Busy::looks);
  compile_for_training(options);
  const Plan& plan = model_.plan();
  if (const PlanFormat* const found = find_plan_format(format)) return found->write(plan);
  fail(ExitCode::usage, "plan: unknown format '", format, "', expected ", plan_format_names());
}

std::string PyModel::config(const std::string& options) {
  const Busy busy(*this, Busy::looks);
  compile_for_training(options);
  return model_.get_config().dump();
}

nb::dict PyModel::fit(const std::string& options, const Data& data, const std::optional<Data>& validation, nb::object hooks) {
  const Busy busy(*this, Busy::trains);
  const Options values = Options::parse(options);
  Prepared run = prepared(values, Purpose::train, &data, validation ? &*validation : nullptr);
  compile(values, run, Purpose::train);
  rate_ = run.fit.learning_rate.value_or(rate_);

  const auto report = [&](const char* hook, const auto& what) {
    const nb::gil_scoped_acquire lock;
    const nb::object answer = hooks.attr(hook)(dict_of(what));
    if (nb::isinstance<nb::bool_>(answer) && nb::cast<bool>(answer)) interruption_->stop();
  };
  run.fit.callbacks.on_step = [&](const StepReport& r) { report("on_step", r); };
  run.fit.callbacks.on_epoch = [&](const EpochReport& r) { report("on_epoch", r); };
  run.fit.callbacks.on_warning = [&](const std::string& text) { notes_.push_back("warning: " + text); };
  run.fit.callbacks.stop = [&] { return interruption_->asked(); };
  run.fit.run_ahead = !nb::cast<bool>(hooks.attr("looks_at_steps"));
  fit_ = &run.fit;
  const struct Ended {
    PyModel& model;
    ~Ended() { model.fit_ = nullptr; }
  } ended{*this};
  const History history = without_lock([&] { return model_.fit(*run.data.train, run.fit); });
  interruption_->raise();

  nb::dict result;
  result["steps"] = history.steps;
  result["samples_per_second"] = history.samples_per_second;
  result["waiting_share"] = history.waiting_share;
  result["stopped"] = history.stopped || history.stopped_early;
  return result;
}

// Of a model that was compiled already the values stay on its devices: only the data is looked at.
Splits PyModel::part_for(const Data& data) const {
  Splits splits;
  if (const auto* const spec = std::get_if<std::string>(&data)) {
    DataRequest request = model_.data_request();
    request.parts = {"test", "validation", "train"};
    splits = open_data(*spec, request);
  } else {
    splits.test = dataset(data, settled_);
  }
  if (!part_of(splits)) fail(ExitCode::data, "the data has no part to measure");
  return splits;
}

nb::dict PyModel::evaluate(const std::string& options, const Data& data) {
  const Busy busy(*this, Busy::looks);
  const Options values = Options::parse(options);
  Splits splits;
  if (purpose_) {
    splits = part_for(data);
  } else {
    Prepared run = prepared(values, Purpose::evaluate, &data, nullptr);
    compile(values, run, Purpose::evaluate);
    splits = std::move(run.data.splits);
  }
  EvaluateOptions measuring = measuring_;
  measuring.metrics = asked(values, Purpose::evaluate).fit.metrics;
  measuring.stop = [&] { return interruption_->asked(); };
  const Evaluation evaluation = without_lock([&] { return model_.evaluate(*part_of(splits), measuring); });
  interruption_->raise();
  return dict_of(evaluation);
}

nb::list PyModel::predict(const std::string& options, const Data& data, const std::vector<std::string>& outputs) {
  const Busy busy(*this, Busy::looks);
  Splits splits;
  if (purpose_) {
    splits = part_for(data);
  } else {
    const Options values = Options::parse(options);
    Prepared run = prepared(values, Purpose::predict, &data, nullptr);
    compile(values, run, Purpose::predict);
    splits = std::move(run.data.splits);
  }
  EvaluateOptions measuring = measuring_;
  measuring.outputs = outputs;
  measuring.stop = [&] { return interruption_->asked(); };
  std::vector<NamedTensor> results = without_lock([&] { return model_.predict(*part_of(splits), measuring); });
  interruption_->raise();
  nb::list list;
  for (NamedTensor& r : results) list.append(nb::make_tuple(r.name, array_of(std::move(r.tensor))));
  return list;
}

// A step takes its values as they are given: nothing is prepared. Where the options say no batch's size it is this one's.
void PyModel::compile_for_batch(const std::string& options, const Arrays& arrays) {
  if (purpose_ == Purpose::train) return;
  Options values = Options::parse(options);
  if (!values.given("batch_size") && !arrays.empty())
    values.set("batch_size", static_cast<std::int64_t>(std::get<Array>(arrays[0]).shape(0)));
  const Data data = arrays;
  Prepared run = prepared(values, Purpose::train, &data, nullptr);
  compile(values, run, Purpose::train);
}

// In the order that the library's steps take them: inputs, labels, weights. They are where the arrays hold them.
std::vector<Tensor> PyModel::tensors_of(const Arrays& arrays) const {
  std::vector<Tensor> tensors;
  for (const Field& input : request_.inputs) {
    const auto given = std::ranges::find(arrays, input.name, [](const NamedArray& a) { return std::get<0>(a); });
    if (given == arrays.end()) fail(ExitCode::data, "the batch has no values for the model's input '", input.name, "' ", input.sample);
    tensors.push_back(cast(view_of(std::get<Array>(*given)), input.sample.dtype));
  }
  for (const Role role : {Role::label, Role::weight})
    for (const auto& [name, as, array] : arrays)
      if (role_of(as) == role) tensors.push_back(cast(view_of(array), role == Role::label ? request_.label.dtype : DType::float32));
  return tensors;
}

nb::dict PyModel::train_on_batch(const std::string& options, const Arrays& arrays, std::optional<double> rate) {
  const Busy busy(*this, Busy::trains);
  compile_for_batch(options, arrays);
  const std::vector<Tensor> tensors = tensors_of(arrays);
  return dict_of(without_lock([&] { return model_.train_on_batch(tensors, rate.value_or(rate_)); }));
}

nb::dict PyModel::test_on_batch(const std::string& options, const Arrays& arrays) {
  const Busy busy(*this, Busy::looks);
  compile_for_batch(options, arrays);
  const std::vector<Tensor> tensors = tensors_of(arrays);
  return dict_of(without_lock([&] { return model_.test_on_batch(tensors, measuring_.metrics); }));
}

nb::dict PyModel::gradients(const std::string& options, const Arrays& arrays) {
  const Busy busy(*this, Busy::looks);
  compile_for_batch(options, arrays);
  const std::vector<Tensor> tensors = tensors_of(arrays);
  return dict_of(without_lock([&] { return model_.gradients(tensors); }));
}

nb::dict PyModel::weights(const std::string& options) {
  const Busy busy(*this, Busy::looks);
  compile_for_training(options);
  return dict_of(model_.parameters());
}

void PyModel::set_weights(const std::string& options, const std::vector<std::pair<std::string, Array>>& values) {
  const Busy busy(*this, Busy::looks);
  compile_for_training(options);
  std::vector<NamedTensor> tensors;
  const std::vector<PlanParameter>& all = model_.plan().parameters;
  for (const auto& [name, array] : values) {
    const auto held = std::ranges::find(all, name, &PlanParameter::name);
    if (held == all.end()) {
      std::vector<std::string> names;
      for (const PlanParameter& p : all) names.push_back(p.name);
      fail(ExitCode::usage, "the model has no weight '", name, "'", suggestion(name, names));
    }
    Tensor tensor = cast(view_of(array), held->type.dtype);
    if (tensor.type() != held->type) fail(ExitCode::usage, "weight '", name, "' is ", held->type, ", got ", tensor.type());
    tensors.push_back({name, std::move(tensor)});
  }
  without_lock([&] { model_.set_parameters(tensors); });
}

// The training reads the rate of its options before every step.
void PyModel::set_rate(double rate) {
  if (!(rate >= 0 && std::isfinite(rate))) fail(ExitCode::usage, "learning rate ", rate, ", expected a finite number of at least 0");
  rate_ = rate;
  if (fit_) fit_->learning_rate = rate;
}

nb::dict PyModel::layer(const std::string& name) {
  const Busy busy(*this, Busy::looks);
  Layer layer = model_.get_layer(name);
  nb::dict dict;
  dict["name"] = layer.name;
  dict["nodes"] = layer.nodes;
  dict["operators"] = layer.operators;
  dict["outputs"] = layer.outputs;
  dict["weights"] = dict_of(std::move(layer.weights));
  return dict;
}

void PyModel::save(const std::string& options, const std::string& path, bool overwrite, bool metadata) {
  const Busy busy(*this, Busy::looks);
  compile_for_training(options);
  without_lock([&] { model_.save(path, metadata, {.overwrite = overwrite}); });
}

void bind_model(nb::module_& module) {
  nb::class_<Batches>(module, "Batches")
      .def("__init__", [](Batches* place, nb::object next, std::int64_t size, Arrays first) {
        new (place) Batches{std::move(next), size, std::move(first)};
      });
  nb::class_<PyModel>(module, "Model")
      .def(nb::init<std::string, const std::string&>())
      .def_prop_ro("name", &PyModel::name)
      .def("inputs", &PyModel::inputs)
      .def("outputs", &PyModel::outputs)
      .def("summary", &PyModel::summary)
      .def("check", &PyModel::check)
      .def("plan", &PyModel::plan)
      .def("config", &PyModel::config)
      .def("fit", &PyModel::fit, nb::arg("options"), nb::arg("data"), nb::arg("validation").none(), nb::arg("hooks"))
      .def("evaluate", &PyModel::evaluate)
      .def("predict", &PyModel::predict)
      .def("train_on_batch", &PyModel::train_on_batch, nb::arg("options"), nb::arg("arrays"), nb::arg("rate").none())
      .def("test_on_batch", &PyModel::test_on_batch)
      .def("gradients", &PyModel::gradients)
      .def("weights", &PyModel::weights)
      .def("set_weights", &PyModel::set_weights)
      .def("layer", &PyModel::layer)
      .def("save", &PyModel::save)
      .def_prop_rw("learning_rate", &PyModel::rate, &PyModel::set_rate)
      .def("take_notes", &PyModel::take_notes);
}

}  // namespace tandem::python
