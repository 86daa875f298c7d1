#include "trainer/records/run_facts.h"

#include <algorithm>

#include "base/hash.h"
#include "base/option.h"
#include "trainer/feed/preprocess.h"

namespace tandem {
namespace {

constexpr IfChanged refused = IfChanged::refused, warned = IfChanged::warned;

Json numbers_of(const std::map<std::string, std::int64_t>& single, const std::map<std::string, std::vector<std::int64_t>>& several) {
  Json::Object all;
  for (const auto& [name, size] : single) all.emplace_back(name, size);
  for (const auto& [name, sizes] : several) all.emplace_back(name, sizes);
  return all;
}

Json constants_of(const std::map<std::string, Tensor>& constants) {
  Json::Object all;
  for (const auto& [name, value] : constants) {
    Hash hash;
    hash.add(concat(value.type()));
    hash.add(value.bytes());
    all.emplace_back(name, hash.text());
  }
  return all;
}

Json groups_of(const std::vector<UpdateGroup>& groups) {
  Json::Array all;
  for (const UpdateGroup& g : groups)
    all.push_back(Json::Object{
        {"patterns", g.patterns}, {"weight_decay", g.weight_decay ? Json(*g.weight_decay) : Json()}, {"rate", g.rate}, {"from", g.from}});
  return all;
}

template <class T>
Json maybe(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

// The names of those that are trained.
std::string trained_weights(const Plan& plan) {
  std::vector<std::string> names;
  for (const PlanParameter& p : plan.parameters)
    if (p.trainable && p.role == ValueRole::plain) names.push_back(p.name);
  std::sort(names.begin(), names.end());
  Hash hash;
  for (const std::string& name : names) hash.add(concat(name, '\n'));
  return hash.text();
}

std::string shown(const Json& value) {
  constexpr std::size_t most = 80;
  const bool is_text = std::holds_alternative<std::string>(value.value());
  const std::string text = value.is_null() || (is_text && value.text().empty()) ? "none" : is_text ? value.text() : value.dump();
  return text.size() > most ? text.substr(0, most) + "..." : text;
}

bool untouched(const Waiting& w) { return !w.any && w.bad == 0 && w.cooldown == 0 && w.factor == 1; }

// What a plateau's state cannot be after so many epochs. A least rate bounds the factor by the learning rate, which may have changed since.
std::string not_of_plateau(const Waiting& w, const Schedule& s, std::int64_t epochs) {
  const double least = s.number("least", 0), by = s.number("factor", 0.1);
  bool reached = least > 0 && w.factor > 0 && w.factor <= 1;
  double factor = 1;
  for (std::int64_t n = 0; n <= epochs && !reached; ++n, factor *= by) reached = factor == w.factor;
  if (!reached) return concat("a factor of ", w.factor, " after ", epochs, " epochs");
  if (w.bad < 0 || w.bad > static_cast<std::int64_t>(s.number("patience", 10))) return concat(w.bad, " epochs without a better measure");
  if (w.cooldown < 0 || w.cooldown > static_cast<std::int64_t>(s.number("cooldown", 0)))
    return concat("a cooldown of ", w.cooldown, " epochs");
  return "";
}

}  // namespace

// A row a fact.
std::vector<RunFact> run_facts(const CompiledModel& s, const FitOptions& o, const BatchOrder& order, const std::string& templates,
                               const std::string& data) {
  const CompileOptions& plan = s.options.plan;
  const OptimizerOptions& by = plan.optimizer;
  Json::Object files, forms;
  for (const auto& [path, file] : s.source.other_files())
    if (plan.loss.name.find(path) != std::string::npos || path == s.options.teacher) files.emplace_back(path, file.fingerprint());
  for (const auto& [name, form] : plan.loss.label_forms)
    forms.emplace_back(name, Json::Object{{"dense", form.dense}, {"class_axis", maybe(form.class_axis)}});
  Hash weights;
  weights.add(std::as_bytes(std::span(plan.loss.class_weights)));
  const Json of_classes = plan.loss.class_weights.empty()        ? Json()
                          : plan.loss.class_weights.size() <= 10 ? Json(plan.loss.class_weights)
                                                            : Json(weights.text());
  return {
      {"template", "", refused, templates},
      {"data", "", refused, data},
      {"samples", "", refused, order.samples},
      {"files", "", refused, std::move(files)},
      {"trained_weights", "", refused, trained_weights(s.session->plan(0))},
      {"batch_size", "batch", refused, order.batch},
      {"seed", "seed", refused, static_cast<std::int64_t>(order.seed)},
      {"shuffle", "shuffle", refused, order.shuffle},
      {"loss", "loss", refused, plan.loss.name},
      {"loss_on", "loss_on", refused, plan.loss.on},
      {"class_axis", "class_axis", refused, maybe(plan.loss.class_axis)},
      {"dense_labels", "dense_labels", refused, plan.loss.dense_labels},
      {"label_forms", "", refused, std::move(forms)},
      {"label_smoothing", "label_smoothing", refused, plan.loss.smoothing},
      {"ignore_index", "ignore_index", refused, maybe(plan.loss.ignore_index)},
      {"shift_labels", "shift_labels", refused, plan.loss.shift_labels},
      {"class_weights", "class_weights", refused, of_classes},
      {"sample_weights", "sample_weights", refused, maybe(plan.loss.sample_weights)},
      {"temperature", "temperature", refused, plan.loss.distillation ? Json(plan.loss.distillation->temperature) : Json()},
      {"teacher_weight", "teacher_weight", refused, plan.loss.distillation ? Json(plan.loss.distillation->weight) : Json()},
      {"normalize", "normalize", refused, text_of_normalize(o.preprocess)},
      {"resize", "resize", refused, text_of(o.preprocess.resizing)},
      {"dims", "dims", refused, numbers_of(s.options.dims, s.options.buckets)},
      {"set", "set", refused, constants_of(s.options.constants)},
      {"batch_axis", "batch_axis", refused, [&] {
         Json::Object axes;
         for (const auto& [input, axis] : s.options.batch_axes) axes.emplace_back(input, axis);
         return Json(std::move(axes));
       }()},
      {"max_loop_iterations", "max_loop_iterations", refused, s.options.max_loop_iterations},
      {"running_variance", "running_variance", refused, maybe(s.options.unbiased_variance)},
      {"synchronize_batch_norm", "synchronize_batch_norm", refused, plan.synchronize_batch_norm},
      {"precision", "precision", refused, name_of(plan.precision)},
      {"loss_scale", "loss_scale", refused, plan.loss.scaling ? Json(plan.loss.scaling->start) : Json()},
      {"optimizer", "optimizer", refused, by.name},
      {"amsgrad", "amsgrad", refused, by.amsgrad},  // these two are states of their own
      {"centered", "centered", refused, by.centered},
      {"ema", "ema", refused, o.averaging.ema},
      {"swa", "swa", refused, o.averaging.swa},
      {"average_from", "average_from", refused, o.averaging.from},
      {"best", "best", refused, o.best},
      {"learning_rate", "learning_rate", warned, o.learning_rate ? *o.learning_rate : default_learning_rate(by)},
      {"lr_schedule", "lr_schedule", warned, text_of(o.schedule)},
      {"momentum", "momentum", warned, by.momentum},
      {"dampening", "dampening", warned, by.dampening},
      {"nesterov", "nesterov", warned, by.nesterov},
      {"weight_decay", "weight_decay", warned, by.weight_decay},
      {"beta1", "beta1", warned, by.beta1},
      {"beta2", "beta2", warned, by.beta2},
      {"rho", "rho", warned, by.rho},
      {"epsilon", "epsilon", warned, by.epsilon},
      {"epsilon_hat", "epsilon_hat", warned, by.epsilon_hat},
      {"decoupled", "decoupled", warned, by.decoupled},
      {"rate_decay", "rate_decay", warned, by.rate_decay},
      {"trust", "trust", warned, by.trust},
      {"groups", "groups", warned, groups_of(by.groups)},
      {"decay_vectors", "decay_vectors", warned, by.decay_vectors},
      {"clip_norm", "clip_norm", warned, by.clip_norm},
      {"clip_value", "clip_value", warned, by.clip_value},
      {"clip_parameter_norm", "clip_parameter_norm", warned, by.clip_parameter_norm},
      {"augment", "augment", warned, text_of_augment(o.preprocess)},
  };
}

Json json_of(const std::vector<RunFact>& facts) {
  Json::Object all;
  for (const RunFact& fact : facts) all.emplace_back(fact.key, fact.value);
  return all;
}

RunDifferences compare(const Json& was, const std::vector<RunFact>& now, const std::string& data_name) {
  const bool earlier =
      !was.find("files");  // an earlier version's: it has no other facts than these, and the last one only where it is above 1
  constexpr std::string_view always[] = {"template", "data", "samples", "batch_size", "seed", "shuffle", "loss", "optimizer", "precision"};
  RunDifferences found;
  for (const RunFact& fact : now) {
    const Json* const had = was.find(fact.key);
    if (!had && earlier && std::find(std::begin(always), std::end(always), fact.key) == std::end(always)) continue;
    if (had ? had->dump() == fact.value.dump() : was.at(fact.key).is_null()) continue;
    if (fact.key == "template") return {.refused = " is a checkpoint of another model", .warned = {}};
    if (fact.key == "data" || fact.key == "samples")
      return {.refused = concat(" is a checkpoint of a run on other data than ", data_name), .warned = {}};
    std::string& to = fact.if_changed == IfChanged::refused ? found.refused : found.warned;
    to += to.empty() ? ": the run was started with " : ", with ";
    if (fact.key == "trained_weights")
      to += concat("other weights to train than now (", option("freeze"), ", ", option("unfreeze"), ", ", option("trainable"), ", ",
                   option("constant"), ", ", option("tie"), ", ", option("untie"), ", ", option("lora"), " choose them)");
    else if (fact.field.empty())
      to += concat("other ", fact.key == "files" ? "contents of the files of its loss or teacher" : "forms of labels", " than now");
    else
      to += concat(option(fact.field), ' ', shown(*had), ", now it is ", shown(fact.value));
  }
  // What a measure has made of the rate belongs to its schedule.
  if (const Json* const schedule = was.find("lr_schedule"); schedule && schedule->text().starts_with("plateau"))
    for (const RunFact& fact : now)
      if (fact.key == "lr_schedule" && fact.value.text() != schedule->text())
        found.refused += concat(found.refused.empty() ? ": the run was started with " : ", with ", option("lr_schedule"), ' ',
                                shown(*schedule), ", whose factor and counters no other has; now it is ", shown(fact.value));
  return found;
}

std::string contradiction(const Position& at, const Json& was, const FitOptions& o, const BatchOrder& order) {
  const std::int64_t per_epoch = order.batches();
  if (per_epoch > 0 && (at.epoch > at.step / per_epoch || at.epoch * per_epoch + at.batch != at.step))
    return concat("step ", at.step, " is not in epoch ", at.epoch, ", behind ", at.batch, " batches of ", order.batches());
  const std::int64_t epochs = std::ssize(at.history);
  const Json* const recorded = was.find("lr_schedule");
  const Schedule schedule = recorded ? parse_schedule(recorded->text()) : o.schedule;
  if (!schedule.follows_measure() && !untouched(at.plateau))
    return concat("it has a plateau's factor, ", at.plateau.factor, ", or its counters, and the schedule ", schedule.name, " has none");
  if (const std::string odd = schedule.follows_measure() ? not_of_plateau(at.plateau, schedule, epochs) : ""; !odd.empty())
    return concat("the schedule ", text_of(schedule), " does not give ", odd);
  if (at.early.bad < 0 || at.early.bad > epochs || at.early.cooldown != 0 || at.early.factor != 1)
    return concat("early stopping counts ", at.early.bad, " epochs of ", epochs);
  if (at.averaged > (o.averaging.any() ? at.step : 0))
    return concat("the average of weights counts ", at.averaged, " steps of ", o.averaging.any() ? at.step : 0);
  if (at.measured > at.step || (epochs > 0 && at.history.back().step > at.step)) return concat("epochs are measured beyond step ", at.step);
  return "";
}

}  // namespace tandem
