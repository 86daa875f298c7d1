#include "trainer/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "base/option.h"
#include "base/spec.h"
#include "planner/check_options.h"
#include "ranks/world.h"
#include "trainer/feed/preprocess.h"
#include "trainer/measure/scores.h"
#include "trainer/records/best_measure.h"
#include "trainer/slice_choice.h"
#include "trainer/template/input_options.h"

namespace tandem {
namespace {

// What a trained file says of its training, as "tandem.FIELD" in its metadata.
struct Word {
  std::string_view field;
  bool (*is_default)(const RunOptions& o);
  void (*take)(RunOptions& o, const std::string& text);
  std::string_view usual = "";  // says nothing
  std::string_view more = "";   // of the note
};
const Word of_inputs[] = {
    {"set", [](const RunOptions& o) { return o.model.constants.empty(); },
     [](RunOptions& o, const std::string& text) { o.model.constants = parse_constants(split(text, ','), "set"); }},
    {"batch_axis", [](const RunOptions& o) { return o.model.batch_axes.empty(); },
     [](RunOptions& o, const std::string& text) { o.model.batch_axes = parse_axes(split(text, ','), "batch axis"); }},
};
const Word of_loss[] = {
    {"loss", [](const RunOptions& o) { return o.model.plan.loss.name == CompileOptions().loss.name; },
     [](RunOptions& o, const std::string& text) {
       o.model.plan.loss.name = text;
       o.model.plan.loss.assumed = false;
     },
     "softmax-cross-entropy"},
    {"loss_on", [](const RunOptions& o) { return o.model.plan.loss.on.empty(); },
     [](RunOptions& o, const std::string& text) { o.model.plan.loss.on = text; }},
    {"class_axis", [](const RunOptions& o) { return !o.model.plan.loss.class_axis; },
     [](RunOptions& o, const std::string& text) { o.model.plan.loss.class_axis = static_cast<int>(parse_integer(text, "class axis")); }},
    {"ignore_index", [](const RunOptions& o) { return !o.model.plan.loss.ignore_index; },
     [](RunOptions& o, const std::string& text) { o.model.plan.loss.ignore_index = parse_integer(text, "ignore index"); }},
    {"shift_labels", [](const RunOptions& o) { return !o.model.plan.loss.shift_labels; },
     [](RunOptions& o, const std::string& text) { o.model.plan.loss.shift_labels = text == "on"; }, "off"},
};
const Word of_samples[] = {
    {"resize", [](const RunOptions& o) { return text_of(o.fit.preprocess.resizing) == text_of(Resizing()); },
     [](RunOptions& o, const std::string& text) { o.fit.preprocess.resizing = parse_resizing(text); }},
    {"normalize", [](const RunOptions& o) { return o.fit.preprocess.mean.empty() && !o.fit.preprocess.measure; },
     [](RunOptions& o, const std::string& text) { parse_normalize(o.fit.preprocess, text); }, "", ", none for none"},
};

bool has_image_files(const Dataset& data) { return std::ranges::any_of(data.fields(), &Field::encoded); }

// What data is read from, opened to see the shapes of its arrays; null: such data is read by the model's shapes.
std::unique_ptr<Dataset> arrays_of(const std::string& source, const DataRequest& request) {
  const bool bare = source.find(':') == std::string::npos && (source.ends_with(".npy") || source.ends_with(".npz"));
  if (!bare && !source.starts_with("npz:") && !source.starts_with("npy:")) return nullptr;
  Splits splits = open_data(source, request);
  return std::move(splits.train ? splits.train : splits.test ? splits.test : splits.validation);
}

// A split by name; empty: the first of test, validation, train that the data has.
const Dataset& split_of(const Splits& splits, std::string_view name) {
  const std::pair<std::string_view, const Dataset*> parts[] = {
      {"test", splits.test.get()}, {"validation", splits.validation.get()}, {"train", splits.train.get()}};
  std::string there;  // parts, listed
  for (const auto& [part, data] : parts) {
    if (data && (name.empty() || name == part)) return *data;
    if (data) there += concat(there.empty() ? " (it has " : ", ", part);
  }
  fail(name.empty() ? ExitCode::data : ExitCode::usage, "the data has no part '", name, "'", there, there.empty() ? "" : ")");
}

// The steps are members, and stand in the order of the table below.
class Preparation {
 public:
  Preparation(const Model& model, RunOptions& asked, Backends backends);
  Prepared take();

 private:
  // Of what the file says.
  void take_inputs();
  void take_placement();
  void take_loss() { take_words(of_loss); }
  void take_own_step();
  void assume_loss();
  void plan_class_weights();
  void check_model() {
    if (asked_.purpose != Purpose::plan) refuse_external_loss(o_.plan);
    source_.check(o_, backends_);
  }
  // Of what the data says.
  void take_preprocess() { take_words(of_samples); }
  void settle_fit();
  void open();
  void take_constants();
  void tell_data();
  void settle_preprocess();
  void mix_labels();
  void fit_labels() { note(source_.fit_labels(o_, *first_)); }
  void count_class_weights();
  void check_data();
  void measure_best();
  void give_bytes() { source_.fit_inputs(o_, *first_, asked_.fit.preprocess); }

  struct Step {
    void (Preparation::*take)();
    bool train, plan, evaluate, predict;
    bool serves(Purpose p) const { return std::array{train, plan, evaluate, predict}[static_cast<std::size_t>(p)]; }
  };
  static const Step of_file[], of_data[];

  bool given(std::string_view field) const { return asked_.chosen.contains(field); }
  bool has_data() const { return !asked_.data.empty() || asked_.splits.train || asked_.splits.validation || asked_.splits.test; }
  void note(const std::string& text) const {
    if (asked_.on_note && !text.empty()) asked_.on_note(text);
  }
  void take_words(std::span<const Word> words);
  std::vector<const Dataset*> parts() const;

  const Model& model_;
  const ModelTemplate& source_ = model_.source();
  RunOptions& asked_;
  ModelOptions& o_;
  const Backends backends_;
  Prepared prepared_;
  DataRequest request_;
  const Dataset* first_ = nullptr;  // the part that the others are like
  bool own_optimizer_ = false;
};

// clang-format off
const Preparation::Step Preparation::of_file[] = {
    //                                   train  plan   evaluate predict
    {&Preparation::take_inputs,          true,  true,  true,    true},
    {&Preparation::take_placement,       true,  true,  true,    true},
    {&Preparation::take_loss,            true,  true,  true,    false},
    {&Preparation::take_own_step,        true,  true,  false,   false},
    {&Preparation::assume_loss,          true,  true,  true,    true},
    {&Preparation::plan_class_weights,   false, true,  false,   false},
    {&Preparation::check_model,          true,  false, false,   false},
};
const Preparation::Step Preparation::of_data[] = {
    {&Preparation::take_preprocess,      true,  true,  true,    true},
    {&Preparation::settle_fit,           true,  false, false,   false},
    {&Preparation::open,                 true,  true,  true,    true},
    {&Preparation::take_constants,       true,  true,  true,    true},
    {&Preparation::tell_data,            true,  false, true,    true},
    {&Preparation::settle_preprocess,    true,  true,  true,    true},
    {&Preparation::mix_labels,           true,  false, false,   false},
    {&Preparation::fit_labels,           true,  true,  true,    false},
    {&Preparation::count_class_weights,  true,  false, false,   false},
    {&Preparation::check_data,           true,  false, false,   false},
    {&Preparation::measure_best,         true,  false, false,   false},
    {&Preparation::give_bytes,           true,  true,  true,    true},
};
// clang-format on

Preparation::Preparation(const Model& model, RunOptions& asked, Backends backends)
    : model_(model), asked_(asked), o_(asked.model), backends_(backends) {
  const bool trains = asked_.purpose == Purpose::train || asked_.purpose == Purpose::plan;
  o_.plan.mode = trains ? PlanMode::training : PlanMode::inference;
  o_.measures = asked_.purpose == Purpose::evaluate;
  if (o_.measures) o_.metrics = asked_.fit.metrics;
  for (const auto words : std::initializer_list<std::span<const Word>>{of_inputs, of_loss, of_samples})
    for (const Word& word : words)
      if (!word.is_default(asked_)) asked_.chosen.emplace(word.field);
  if (!asked_.adjust_own_optimizer && o_.plan.optimizer != OptimizerOptions()) asked_.chosen.emplace("optimizer");
  if (asked_.fit.metrics != FitOptions().metrics) asked_.chosen.emplace("metrics");
  o_.plan.loss.assumed = !given("loss");
  if (!trains) return;
  o_.plan.optimizer.average |= asked_.fit.averaging.any();
}

Prepared Preparation::take() {
  const auto take_steps = [&](std::span<const Step> steps) {
    for (const Step& step : steps)
      if (step.serves(asked_.purpose)) (this->*step.take)();
  };
  const bool needs_data = asked_.purpose == Purpose::train || asked_.purpose == Purpose::evaluate;
  if (needs_data && !has_data()) fail(ExitCode::usage, option("data"), " is missing: a run needs some");
  take_steps(of_file);
  if (has_data()) take_steps(of_data);
  note(choose_slices(source_, o_, asked_.slices, backends_));
  prepared_.options = std::move(o_);
  prepared_.fit = std::move(asked_.fit);
  return std::move(prepared_);
}

// Where nobody says otherwise.
void Preparation::take_words(std::span<const Word> words) {
  for (const Word& word : words) {
    const auto entry = model_.file().metadata().find(concat("tandem.", word.field));
    if (given(word.field) || entry == model_.file().metadata().end() || entry->second == word.usual) continue;
    try {
      word.take(asked_, entry->second);
    } catch (const Error& e) {
      fail(ExitCode::model, "the model's metadata ", entry->first, ": ", e.what());
    }
    std::string name(word.field);
    std::ranges::replace(name, '_', '-');
    note(concat(name, " is ", entry->second, ", as the model was trained (", option(word.field), " overrules it", word.more, ")"));
  }
}

// What the file says of devices.
void Preparation::take_placement() {
  for (const std::string& text : source_.fit_placement(o_, asked_.configuration)) note(text);
}

void Preparation::take_inputs() {
  take_words(of_inputs);
  if (!has_data()) return;
  const std::optional<DataRequest> request = source_.dims_request(o_);
  if (!request) return;
  if (!asked_.data.empty()) {
    if (const std::unique_ptr<Dataset> data = arrays_of(asked_.data, *request)) source_.fit_dims(o_, *data);
    return;
  }
  const Splits& s = asked_.splits;
  source_.fit_dims(o_, *(s.train ? s.train : s.test ? s.test : s.validation));
}

void Preparation::take_own_step() {
  const bool loss = !given("loss"), optimizer = !given("optimizer");
  const bool other_weights = !model_.file().head().empty() || !model_.file().adapters().empty();  // its optimizer knows none of them
  if ((!loss && !optimizer) || other_weights) return;
  const std::optional<TrainingStep>& step = prepared_.own_step = model_.file().training_step();
  if (!step) return;
  note(concat(step->line, loss && optimizer ? concat(" (", option("loss"), " and ", option("optimizer"), " overrule it)")
                          : loss            ? concat("; of this ", option("optimizer"), " overrules the optimizer")
                                            : concat("; of this ", option("loss"), " overrules the loss")));
  if (loss) {
    const std::string on = o_.plan.loss.on;
    source_.take_loss(*step, o_);
    if (given("loss_on")) o_.plan.loss.on = on;
  }
  if (!optimizer) return;
  const bool average = o_.plan.optimizer.average;
  source_.take_optimizer(*step, o_);
  if (asked_.adjust_own_optimizer) asked_.adjust_own_optimizer(o_.plan.optimizer);
  o_.plan.optimizer.average = average;
  own_optimizer_ = true;
}

// Told where no data will tell it better.
void Preparation::assume_loss() {
  const std::string assumed = source_.assume_loss(o_);
  if (asked_.purpose == Purpose::plan && !has_data()) note(assumed);
}

// Of `balanced` the numbers are left open.
void Preparation::plan_class_weights() {
  if (asked_.class_weights.empty()) return;
  if (asked_.class_weights != "balanced") {
    o_.plan.loss.class_weights = source_.class_weights(asked_.class_weights, o_, MemoryDataset("no data"));
    return;
  }
  const std::int64_t classes = model_.data_request(o_).classes;
  if (classes == 0) fail(ExitCode::usage, option("class_weights"), ": the loss ", o_.plan.loss.name, " has no classes");
  o_.plan.loss.class_weights.assign(static_cast<std::size_t>(classes), 1.0);
  note("balanced weights of classes come of data: the plan has 1 for each, and is the same but for these numbers");
}

void Preparation::settle_fit() {
  FitOptions& fit = asked_.fit;
  if (!fit.learning_rate) fit.learning_rate = own_optimizer_ ? prepared_.own_step->learning_rate : default_learning_rate(o_.plan.optimizer);
  Model::check(fit);
}

void Preparation::open() {
  if (o_.world && asked_.fit.preprocess.bad_samples > 0)
    fail(ExitCode::usage, option("on_bad_sample"), " skip works with one process only: several would skip different samples");
  const bool trains = o_.plan.mode == PlanMode::training;
  request_ = model_.data_request(o_);
  if (!trains) request_.parts = asked_.split.empty() ? std::vector<std::string>{"test", "validation", "train"} : std::vector{asked_.split};
  RunData& data = prepared_.data;
  data.splits = asked_.data.empty() ? std::move(asked_.splits) : open_data(asked_.data, request_);
  if (!trains) {
    first_ = data.part = &split_of(data.splits, asked_.split);
    return;
  }
  if (!data.splits.train) fail(ExitCode::data, asked_.data.empty() ? "the data" : asked_.data, " has no training part");
  data.train = data.splits.train.get();
  data.validation = data.splits.validation.get();
  data.test = data.splits.test.get();
  if (asked_.validation_split != 0) {
    std::tie(data.kept, data.held_out) = hold_out(*data.train, asked_.validation_split, request_.seed);
    data.train = data.kept.get();
    data.validation = data.held_out.get();
  }
  if (!data.validation) data.validation = data.test;
  first_ = data.train;
  asked_.fit.validation = data.validation;
}

// Those that must fit the options; of a plan the training part alone.
std::vector<const Dataset*> Preparation::parts() const {
  std::vector<const Dataset*> parts{first_};
  if (asked_.purpose == Purpose::train) parts.insert(parts.end(), {prepared_.data.validation, prepared_.data.test});
  std::erase(parts, nullptr);
  return parts;
}

void Preparation::take_constants() {
  for (const Dataset* data : parts()) source_.fit_constants(o_, *data);
}

void Preparation::tell_data() {
  const bool trains = asked_.purpose == Purpose::train;
  if (trains && given("metrics") && !prepared_.data.validation && asked_.on_warning)
    asked_.on_warning(concat(option("metrics"), " ", fmt::format("{}", fmt::join(asked_.fit.metrics, ",")),
                             ": they are measured on validation data, and there is none (", option("validation_split"), " 0.1 holds a tenth out)"));
  for (const std::string& found : first_->notes()) note(found);
  const auto named = std::ssize(class_names(*first_));
  if (trains && named > 0 && named < request_.classes && request_.label_rows == 1)
    note(concat("the data has ", named, named == 1 ? " class" : " classes", ", the model's output has ", request_.classes,
                ": the others are never right (", option("head"), " ", named, " trains a classifier of these alone)"));
}

// Measures what is to be measured, and says how image files are brought to the model's size.
void Preparation::settle_preprocess() {
  Preprocess& p = asked_.fit.preprocess;
  if (p.measure) {
    const std::int64_t samples = measure_normalize(p, *first_, request_);
    note(concat("normalize is ", text_of_normalize(p), ", as measured on ", samples, " samples of ", first_->name()));
  }
  if (!has_image_files(*first_)) return;
  const std::int64_t side = p.resizing.shorter;
  const std::string size = side > 0 ? concat("to ", side, " pixels of the shorter side") : "to cover the model's size";
  const std::string how = p.resizing.stretch ? "stretched to the model's size" : concat("resized ", size, " and cropped in the middle");
  const std::string normalize = option("normalize");
  const std::string plain = concat("; their values are 0 to 1 (", normalize, "; weights of ImageNet want ", normalize, " imagenet)");
  const bool trains_on_boxes = request_.training && p.random_box;
  const std::string boxes = trains_on_boxes ? concat(", in training random boxes of 8 to 100% (", option("augment"), " crop)") : "";
  note(concat("images are ", how, boxes, " (", option("resize"), " overrules it)", p.mean.empty() ? plain : ""));
}

void Preparation::mix_labels() {
  if (!asked_.fit.preprocess.mixes()) return;
  o_.plan.loss.dense_labels = true;
  note(concat("labels of mixed samples are shares of classes (", option("augment"),
              " mixup, cutmix); the accuracy in training counts the class of the larger share"));
}

void Preparation::count_class_weights() {
  if (asked_.class_weights.empty()) return;
  std::vector<double>& weights = o_.plan.loss.class_weights;
  weights = source_.class_weights(asked_.class_weights, o_, *first_);
  if (asked_.class_weights != "balanced") return;
  constexpr std::size_t most = 10;
  std::string list;
  for (std::size_t i = 0; i < std::min(most, weights.size()); ++i) list += fmt::format("{}{:.4g}", i ? ", " : "", weights[i]);
  note(concat("the classes' weights are ", list, weights.size() > most ? ", ..." : ""));
}

// What the best is told by is measured.
void Preparation::measure_best() {
  std::string best = BestMeasure(asked_.fit.best).name();
  if (best.starts_with("val_")) best.erase(0, 4);
  if (!best.empty() && lower_is_better(best)) asked_.fit.metrics.push_back(best);
}

void Preparation::check_data() {
  for (const Dataset* data : parts())
    if (data->size() > 0)
      if (const std::string found = source_.check_data(*data, o_, asked_.fit.preprocess); data == first_) note(found);
}

}  // namespace

Prepared prepare(const Model& model, RunOptions options, Backends backends) {
  const World::Busy busy(options.model.world);
  return Preparation(model, options, backends).take();
}

}  // namespace tandem
