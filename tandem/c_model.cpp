// The C API: models.
#include <algorithm>

#include "options/data_flags.h"
#include "options/device_flags.h"
#include "options/loss_flags.h"
#include "options/optimizer_flags.h"
#include "options/predict_flags.h"
#include "options/text.h"
#include "options/train_flags.h"
#include "options/values.h"
#include "tandem/c_handles.h"
#include "tandem/tandem.h"
#include "trainer/template/summary_json.h"

namespace tandem::c {

Json parsed(const char* options) {
  return !options || *options == '\0' ? Json(Json::Object()) : Json::parse(options);
}

void check_among(const Options& options, std::span<const FlagRow* const> rows, std::string_view when) {
  const Json values = options.values();
  for (const auto& [name, value] : values.object())
    if (!find_row(rows, name)) {
      std::string key = name;
      std::ranges::replace(key, '-', '_');
      fail(ExitCode::usage, "option ", key, " is none of ", when);
    }
}

Prepared prepared(tandem_model& m, RunOptions run) {
  run.on_note = run.on_warning = [&m](const std::string& note) {
    if (std::ranges::find(m.notes, note) == m.notes.end()) m.notes.push_back(note);
  };
  return prepare(m.model, std::move(run), backends());
}

void compile(tandem_model& m, ModelOptions& options) {
  options.plan.stop = [&m] { return m.stop.load(); };
  m.model.compile(options, backends());
}

void give_training_data(RunOptions& run, const tandem_data* train, const tandem_data* validation) {
  if (train && !run.data.empty()) fail(ExitCode::usage, "option data ", run.data, " and the argument train: give one of them");
  if (train && !train->set) run.data = train->spec;
  if (train && train->set) run.splits.train = shared(train->set);
  if (!validation) return;
  if (!validation->set)
    fail(ExitCode::usage, "the validation data ", validation->spec, " are to be a part of the training's (val=), or arrays");
  if (run.splits.train) run.splits.validation = shared(validation->set);
}

void compile_without_data(tandem_model& m) {
  if (m.state != tandem_model::State::untrained) return;
  RunOptions run = m.options.as(Purpose::plan).run(m.model, backends());
  Prepared p = prepared(m, std::move(run));
  compile(m, p.options);
  m.measuring = p.measuring();
  m.state = tandem_model::State::compiled;
}

const PlanFormat& format_of(const char* name) {
  const std::string_view asked = &need(name, "format");
  if (const PlanFormat* const found = find_plan_format(asked)) return *found;
  fail(ExitCode::usage, "format '", asked, "': expected ", plan_format_names());
}

SaveOptions save_options(const Json& options, bool& metadata) {
  static constexpr const FlagRow* rows[] = {&output_flags.metadata, &output_flags.keep_external_layout, &record_flags.overwrite};
  const KeysInMessages keys;
  OptionValues values;
  for (const auto& [given, value] : options.object()) {
    std::string name = given;
    std::ranges::replace(name, '_', '-');
    const FlagRow* const row = find_row(rows, name);
    if (!row) unknown_option("option", given, rows, "", ": expected metadata, keep_external_layout or overwrite");
    values.set(*row, option_text(*row, value));
  }
  metadata = values[output_flags.metadata];
  return {.keep_external_layout = values[output_flags.keep_external_layout], .overwrite = values[record_flags.overwrite]};
}

namespace {

std::string plan_of(const tandem_model& m, const PlanFormat& format, const Json& options) {
  if (m.state != tandem_model::State::untrained && options.object().empty()) return format.write(m.model.plan());
  Options asked = m.options;
  asked.set(options);
  const Prepared p = prepare(m.model, asked.as(Purpose::plan).run(m.model, backends()), backends());
  return format.write(m.model.source().make_plan(p.options, backends()));
}

}  // namespace
}  // namespace tandem::c

using namespace tandem;

int tandem_model_load(const char* path, const char* options, tandem_model** out) {
  return c::guarded([&] {
    tandem_model*& place = c::need(out, "out");
    const std::string file = &c::need(path, "path");
    Options given;
    given.set(c::parsed(options));
    Model model = Model::load(file, given.weights());
    place = new tandem_model(std::move(model), std::move(given));
  });
}
void tandem_model_free(tandem_model* model) {
  delete model;
}

int tandem_model_summary_json(const tandem_model* model, char** json) {
  return c::guarded([&] {
    const Model& m = c::need(model, "model").model;
    c::give(json, json_of(m.source().summary(), m.file()).dump());
  });
}

int tandem_model_compile(tandem_model* model, const tandem_data* train, const tandem_data* validation, const char* options) {
  return c::guarded([&] {
    tandem_model& m = c::need(model, "model");
    const c::Working working(m);
    Options o = m.options;
    o.set(c::parsed(options));
    const bool data = train || o.given("data");
    RunOptions run = (data ? o : o.as(Purpose::plan)).run(m.model, backends());
    c::give_training_data(run, train, validation);
    Prepared p = c::prepared(m, std::move(run));
    c::compile(m, p.options);
    m.options = std::move(o);
    m.measuring = p.measuring();
    m.state = data ? tandem_model::State::compiled_for_data : tandem_model::State::compiled;
  });
}

int tandem_model_plan(tandem_model* model, const char* format, const char* options, char** out, size_t* size) {
  return c::guarded([&] {
    const std::string text = c::plan_of(c::need(model, "model"), c::format_of(format), c::parsed(options));
    c::give(out, text);
    if (size) *size = text.size();
  });
}

int tandem_model_notes_json(const tandem_model* model, char** json) {
  return c::guarded([&] {
    std::vector<std::string> notes = c::need(model, "model").notes;
    notes.insert(notes.end(), model->model.notes().begin(), model->model.notes().end());
    c::give(json, Json(notes).dump());
  });
}
int tandem_model_config_json(const tandem_model* model, char** json) {
  return c::guarded([&] { c::give(json, c::need(model, "model").model.get_config().dump()); });
}

void tandem_model_stop(tandem_model* model) {
  if (model) model->stop = true;
}

int tandem_model_weights_json(const tandem_model* model, char** json) {
  return c::guarded([&] {
    Json::Array list;
    for (const PlanParameter& p : c::need(model, "model").model.plan().parameters)
      if (p.role == ValueRole::plain)
        list.push_back(Json::Object{{"name", p.name}, {"dtype", static_cast<int>(p.type.dtype)}, {"dims", Json(p.type.shape.dims)}});
    c::give(json, Json(std::move(list)).dump());
  });
}

int tandem_model_get_weight(const tandem_model* model, const char* name, tandem_tensor** out) {
  return c::guarded([&] {
    tandem_tensor*& place = c::need(out, "out");
    place = new tandem_tensor{c::need(model, "model").model.parameter(&c::need(name, "name"))};
  });
}

int tandem_model_set_weight(tandem_model* model, const char* name, const tandem_tensor* values) {
  return c::guarded([&] {
    const NamedTensor one{&c::need(name, "name"), c::need(values, "values").values};
    c::need(model, "model").model.set_parameters(std::span(&one, 1));
  });
}

int tandem_model_save(const tandem_model* model, const char* path, const char* options) {
  return c::guarded([&] {
    bool metadata = true;
    const SaveOptions save = c::save_options(c::parsed(options), metadata);
    c::need(model, "model").model.save(&c::need(path, "path"), metadata, save);
  });
}
int tandem_model_save_adapter(const tandem_model* model, const char* path) {
  return c::guarded([&] { c::need(model, "model").model.save_adapter(&c::need(path, "path")); });
}
