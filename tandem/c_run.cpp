// The C API: training, measuring and using a model.
#include <algorithm>
#include <cmath>

#include "options/data_flags.h"
#include "options/device_flags.h"
#include "options/loss_flags.h"
#include "options/optimizer_flags.h"
#include "options/predict_flags.h"
#include "options/text.h"
#include "options/train_flags.h"
#include "tandem/c_handles.h"
#include "tandem/tandem.h"
#include "trainer/records/evaluation_json.h"
#include "trainer/records/run_folder.h"

namespace tandem::c {
namespace {

// What a fit may say of a model that is compiled for its data; all else is in the plan.
std::vector<const FlagRow*> rows_of_fit() {
  std::vector<const FlagRow*> rows{&optimizer_flags.lr,  &train_flags.epochs,  &train_flags.steps,          &train_flags.validation_split,
                                   &train_flags.augment, &train_flags.shuffle, &train_flags.check_replicas, &train_flags.eval_batch_size};
  for (const FlagGroup* group : std::initializer_list<const FlagGroup*>{&data_flags, &metric_flags, &rate_flags, &record_flags})
    rows.insert(rows.end(), group->rows().begin(), group->rows().end());
  return rows;
}
constexpr const FlagRow* rows_of_measuring[] = {
    &data_flags.data,   &data_flags.normalize, &data_flags.resize,   &data_flags.workers,    &data_flags.on_bad_sample,
    &split_flags.split, &metric_flags.metrics, &metric_flags.metric, &predict_flags.outputs, &device_flags.batch_size};

void check_callbacks(const tandem_callbacks* callbacks) {
  if (callbacks && callbacks->bytes < sizeof(tandem_callbacks))
    fail(ExitCode::usage, "tandem_callbacks of ", callbacks->bytes, " bytes, expected ", sizeof(tandem_callbacks));
}

tandem_step step_of(const StepReport& r) {
  return {sizeof(tandem_step), r.epoch, r.step, r.steps, r.samples, r.loss, r.accuracy, r.learning_rate, r.seconds};
}

// A callback's wish to end goes the way of tandem_model_stop().
Callbacks callbacks_of(tandem_model& m, const tandem_callbacks* asked) {
  Callbacks c;
  c.stop = [&m] { return m.stop.load(); };
  c.on_warning = [&m](const std::string& warning) { m.notes.push_back(warning); };
  if (!asked) return c;
  if (asked->on_step)
    c.on_step = [&m, asked](const StepReport& r) {
      const tandem_step step = step_of(r);
      if (asked->on_step(asked->context, &step) != 0) m.stop = true;
    };
  if (asked->on_epoch)
    c.on_epoch = [&m, asked](const EpochReport& r) {
      const std::string json = json_of(r).dump();
      const tandem_epoch epoch{sizeof(tandem_epoch), r.epoch,        r.epochs,        r.step,    r.loss,      r.accuracy,
                               r.val_loss,           r.val_accuracy, r.learning_rate, r.seconds, json.c_str()};
      if (asked->on_epoch(asked->context, &epoch) != 0) m.stop = true;
    };
  if (asked->on_warning) c.on_warning = [asked](const std::string& warning) { asked->on_warning(asked->context, warning.c_str()); };
  if (asked->learning_rate)
    c.learning_rate = [asked](std::int64_t step, double scheduled) { return asked->learning_rate(asked->context, step, scheduled); };
  return c;
}

Json json_of(const History& h) {
  Json::Array epochs;
  for (const EpochReport& report : h.epochs) epochs.push_back(tandem::json_of(report));
  return Json::Object{{"epochs", std::move(epochs)},      {"steps", h.steps},     {"samples_per_second", h.samples_per_second},
                      {"waiting_share", h.waiting_share}, {"stopped", h.stopped}, {"stopped_early", h.stopped_early}};
}

Json json_of(const Evaluation& e) {
  Json::Object object{{"samples", e.samples}, {"loss", e.loss}, {"accuracy", e.accuracy}, {"stopped", e.stopped}};
  const Json more = tandem::json_of(e);
  for (const auto& entry : more.object()) object.push_back(entry);
  return object;
}

History fit(tandem_model& m, const tandem_data* train, const tandem_data* validation, const Json& given,
            const tandem_callbacks* callbacks) {
  check_callbacks(callbacks);
  const bool planned = m.state == tandem_model::State::compiled_for_data;
  if (planned) {
    Options alone;
    alone.set(given);
    check_among(alone, rows_of_fit(), "a fit's: the model is compiled without it");
  }
  Options options = m.options;
  options.set(given);
  RunOptions run = options.run(m.model, backends());
  give_training_data(run, train, validation);
  const auto p = std::make_shared<Prepared>(prepared(m, std::move(run)));
  if (validation) p->fit.validation = validation->set.get();
  if (!planned) {
    compile(m, p->options);
    m.state = tandem_model::State::compiled_for_data;
  }
  p->fit.callbacks = callbacks_of(m, callbacks);
  m.measuring = p->measuring();
  History history = m.model.fit(*p->data.train, p->fit);
  p->fit.callbacks = {};
  m.run = p;
  m.validation = validation ? validation->set : nullptr;
  return history;
}

// What is measured or used, and how; of a model that is compiled for no training it is compiled for this.
struct Use {
  Prepared prepared;
  EvaluateOptions how;
};
Use used(tandem_model& m, const tandem_data* data, Purpose purpose, const Json& given) {
  Options options = m.options.as(purpose);
  options.set(given);
  const bool trained = m.state != tandem_model::State::untrained;
  if (trained) {
    Options alone(purpose);
    alone.set(given);
    check_among(alone, rows_of_measuring, "these: the model is compiled for a training");
  }
  RunOptions run = options.run(m.model, backends());
  if (data) run.data = data->set ? "" : data->spec;
  if (data && data->set) run.splits.test = shared(data->set);
  Use use{.prepared = prepared(m, std::move(run)), .how = {}};
  use.how = use.prepared.measuring();
  use.how.outputs = use.prepared.options.outputs;
  if (!trained) {
    compile(m, use.prepared.options);
  } else {
    use.how.batch = options.given("batch-size") ? use.prepared.options.plan.batch : 0;
    if (!options.given("normalize") && !options.given("resize")) use.how.preprocess = m.measuring.preprocess;
  }
  use.how.stop = [&m] { return m.stop.load(); };
  return use;
}

}  // namespace

std::vector<Tensor> tensors_of(const tandem_tensor* const* inputs, std::size_t count) {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < count; ++i) tensors.push_back(need((&need(inputs, "inputs"))[i], "inputs").values);
  return tensors;
}

void give_tensors(std::vector<Tensor> all, tandem_tensor** out, std::size_t most, std::size_t* count) {
  need(count, "count");
  std::vector<std::unique_ptr<tandem_tensor>> handles;
  for (std::size_t i = 0; i < std::min(most, all.size()); ++i) handles.emplace_back(new tandem_tensor{std::move(all[i])});
  if (!handles.empty()) need(out, "tensors");
  for (std::size_t i = 0; i < handles.size(); ++i) out[i] = handles[i].release();
  *count = all.size();
}

}  // namespace tandem::c

using namespace tandem;

int tandem_model_fit(tandem_model* model, const tandem_data* train, const tandem_data* validation, const char* options,
                     const tandem_callbacks* callbacks, char** history) {
  return c::guarded([&] {
    tandem_model& m = c::need(model, "model");
    const c::Working working(m);
    const History h = c::fit(m, train, validation, c::parsed(options), callbacks);
    if (history) c::give(history, c::json_of(h).dump());
  });
}

int tandem_model_evaluate(tandem_model* model, const tandem_data* data, const char* options, char** result) {
  return c::guarded([&] {
    tandem_model& m = c::need(model, "model");
    const c::Working working(m);
    const c::Use use = c::used(m, data, Purpose::evaluate, c::parsed(options));
    c::give(result, c::json_of(m.model.evaluate(*use.prepared.data.part, use.how)).dump());
  });
}

int tandem_model_predict(tandem_model* model, const tandem_data* data, const char* options, tandem_tensor** tensors, size_t most,
                         size_t* count) {
  return c::guarded([&] {
    tandem_model& m = c::need(model, "model");
    const c::Working working(m);
    const c::Use use = c::used(m, data, Purpose::predict, c::parsed(options));
    std::vector<Tensor> all;
    for (NamedTensor& output : m.model.predict(*use.prepared.data.part, use.how)) all.push_back(std::move(output.tensor));
    c::give_tensors(std::move(all), tensors, most, count);
  });
}

int tandem_model_train_on_batch(tandem_model* model, const tandem_tensor* const* inputs, size_t count, double learning_rate,
                                tandem_step* report) {
  return c::guarded([&] {
    tandem_model& m = c::need(model, "model");
    const c::Working working(m);
    if (report && report->bytes < sizeof(tandem_step))
      fail(ExitCode::usage, "tandem_step of ", report->bytes, " bytes, expected ", sizeof(tandem_step));
    c::compile_without_data(m);
    const double rate = learning_rate >= 0
                            ? learning_rate
                            : default_learning_rate(m.options.as(Purpose::plan).run(m.model, backends()).model.plan.optimizer);
    const StepReport r = m.model.train_on_batch(c::tensors_of(inputs, count), rate);
    if (report) *report = c::step_of(r);
  });
}

int tandem_model_test_on_batch(tandem_model* model, const tandem_tensor* const* inputs, size_t count, char** result) {
  return c::guarded([&] {
    tandem_model& m = c::need(model, "model");
    c::compile_without_data(m);
    c::give(result, c::json_of(m.model.test_on_batch(c::tensors_of(inputs, count))).dump());
  });
}

int tandem_model_predict_on_batch(tandem_model* model, const tandem_tensor* const* inputs, size_t count, tandem_tensor** tensors,
                                  size_t most, size_t* outputs) {
  return c::guarded([&] {
    tandem_model& m = c::need(model, "model");
    c::compile_without_data(m);
    c::give_tensors(m.model.predict_on_batch(c::tensors_of(inputs, count)), tensors, most, outputs);
  });
}

int tandem_model_gradient(tandem_model* model, const tandem_tensor* const* inputs, size_t count, const char* name, tandem_tensor** out) {
  return c::guarded([&] {
    tandem_model& m = c::need(model, "model");
    tandem_tensor*& place = c::need(out, "out");
    const std::string wanted = &c::need(name, "name");
    c::compile_without_data(m);
    for (NamedTensor& gradient : m.model.gradients(c::tensors_of(inputs, count)))
      if (gradient.name == wanted) {
        place = new tandem_tensor{std::move(gradient.tensor)};
        return;
      }
    fail(ExitCode::usage, "there is no trained weight '", wanted, "'");
  });
}

int tandem_model_checkpoint(tandem_model* model, const char* folder) {
  return c::guarded([&] {
    tandem_model& m = c::need(model, "model");
    if (!m.run) fail(ExitCode::usage, "a checkpoint says where a fit has ended, and there was none");
    m.model.keep(&c::need(folder, "folder"), *m.run->data.train, m.run->fit);
  });
}
