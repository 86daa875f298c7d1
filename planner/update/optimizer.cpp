// The optimizers by name with the field's defaults, and their update nodes.
#include "planner/update/optimizer.h"

#include <algorithm>
#include <cctype>
#include <limits>

#include "base/option.h"
#include "base/suggest.h"

namespace tandem {
namespace {

struct Row {
  std::string_view name;
  UpdateKind kind;
  double learning_rate;
  OptimizerOptions defaults;
  std::vector<std::string_view> takes;  // beside weight_decay
};

// Defaults: PyTorch's, except sgd's rate and RMSprop's, which are Keras's, and those of papers: Lion (Chen et al. 2023), LAMB (You
// et al. 2020), LARS (You et al. 2017).
const std::vector<Row>& rows() {
  static const std::vector<Row> list{
      {"sgd", UpdateKind::sgd, 0.01, {}, {"momentum", "nesterov", "dampening"}},
      {"momentum", UpdateKind::sgd, 0.01, {.name = "sgd", .momentum = 0.9}, {}},
      {"nesterov", UpdateKind::sgd, 0.01, {.name = "sgd", .momentum = 0.9, .nesterov = true}, {}},
      {"rmsprop", UpdateKind::rmsprop, 0.001, {.name = "rmsprop", .epsilon = 1e-7}, {"rho", "epsilon", "momentum", "centered"}},
      {"adam", UpdateKind::adam, 0.001, {.name = "adam"}, {"beta1", "beta2", "epsilon", "amsgrad", "epsilon_hat"}},
      {"adamw", UpdateKind::adam, 0.001, {.name = "adamw", .weight_decay = 0.01, .decoupled = true}, {"beta1", "beta2", "epsilon", "amsgrad", "epsilon_hat"}},
      {"nadam", UpdateKind::nadam, 0.002, {.name = "nadam"}, {"beta1", "beta2", "epsilon", "decoupled"}},
      {"radam", UpdateKind::radam, 0.001, {.name = "radam"}, {"beta1", "beta2", "epsilon", "decoupled"}},
      {"adagrad", UpdateKind::adagrad, 0.01, {.name = "adagrad", .epsilon = 1e-10}, {"epsilon", "rate_decay"}},
      {"adadelta", UpdateKind::adadelta, 1, {.name = "adadelta", .epsilon = 1e-6}, {"rho", "epsilon"}},
      {"adamax", UpdateKind::adamax, 0.002, {.name = "adamax"}, {"beta1", "beta2", "epsilon"}},
      {"lion", UpdateKind::lion, 0.0001, {.name = "lion", .beta2 = 0.99}, {"beta1", "beta2"}},
      {"lamb", UpdateKind::lamb, 0.001, {.name = "lamb", .weight_decay = 0.01, .epsilon = 1e-6}, {"beta1", "beta2", "epsilon"}},
      {"adafactor", UpdateKind::assign, 0.01, {.name = "adafactor", .epsilon = 0.001}, {"epsilon"}},
      {"muon", UpdateKind::adam, 0.001, {.name = "muon", .momentum = 0.95, .nesterov = true, .weight_decay = 0.1, .decoupled = true}, {"momentum", "nesterov", "beta1", "beta2", "epsilon"}},
      {"lars", UpdateKind::lars, 1, {.name = "lars", .momentum = 0.9, .weight_decay = 0.0001, .epsilon = 0}, {"momentum", "trust", "epsilon"}},
  };
  return list;
}

// As a framework's user writes it: "AdamW", "torch.optim.RMSprop", "tf.keras.optimizers.Nadam".
std::string plain(std::string_view name) {
  if (const auto dot = name.rfind('.'); dot != std::string_view::npos) name.remove_prefix(dot + 1);
  std::string s;
  for (const char c : name)
    if (c != '_' && c != '-') s += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return s;
}

const Row* find(std::string_view name) {
  const std::string wanted = plain(name);
  for (const Row& row : rows())
    if (row.name == wanted) return &row;
  return nullptr;
}
const Row& row_of(const OptimizerOptions& o) {
  optimizer_defaults(o.name);
  return *find(o.name);
}

// What each number may be: least <= x < below.
struct Range {
  std::string_view name;
  double OptimizerOptions::*value;
  double least, below;
};
constexpr double unbounded = std::numeric_limits<double>::infinity();
constexpr Range ranges[] = {
    {"momentum", &OptimizerOptions::momentum, 0, 1}, {"weight decay", &OptimizerOptions::weight_decay, 0, unbounded},
    {"beta1", &OptimizerOptions::beta1, 0, 1},       {"beta2", &OptimizerOptions::beta2, 0, 1},
    {"rho", &OptimizerOptions::rho, 0, 1},           {"epsilon", &OptimizerOptions::epsilon, 0, unbounded},
    {"dampening", &OptimizerOptions::dampening, 0, unbounded}, {"rate decay", &OptimizerOptions::rate_decay, 0, unbounded},
    {"trust", &OptimizerOptions::trust, 0, unbounded}, {"clip norm", &OptimizerOptions::clip_norm, 0, unbounded},
    {"clip value", &OptimizerOptions::clip_value, 0, unbounded}, {"clip parameter norm", &OptimizerOptions::clip_parameter_norm, 0, unbounded},
};

void check(const OptimizerOptions& o) {
  for (const Range& r : ranges) {
    const double x = o.*r.value;
    if (x >= r.least && x < r.below) continue;  // false for what is not a number
    fail(ExitCode::usage, "optimizer '", o.name, "': ", r.name, " is ", x, ", expected a number of at least ", r.least,
         r.below == unbounded ? std::string() : concat(" and below ", r.below));
  }
  if (o.nesterov && o.momentum == 0) fail(ExitCode::usage, "optimizer ", o.name, ": Nesterov's momentum needs a momentum");
  if (o.nesterov && o.dampening != 0) fail(ExitCode::usage, "optimizer ", o.name, ": Nesterov's momentum goes without dampening");
  for (const UpdateGroup& g : o.groups) {
    const auto range = [&](std::string_view what, double x) {
      if (!(x >= 0 && x < unbounded)) fail(ExitCode::usage, option("groups"), ": ", what, " is ", x, ", expected a number of at least 0");
    };
    range("weight decay", g.weight_decay.value_or(0));
    range("the rate's factor", g.rate);
    range("from", g.from);
  }
}

float f(double v) { return static_cast<float>(v); }

}  // namespace

OptimizerOptions optimizer_defaults(std::string_view name) {
  const Row* row = find(name);
  if (row) return row->defaults;
  fail(ExitCode::usage, "optimizer '", name, "' is unknown", suggestion(plain(name), optimizer_names()));
}

double default_learning_rate(const OptimizerOptions& o) { return row_of(o).learning_rate; }

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const Row& r : rows()) names.emplace_back(r.name);
  return names;
}

bool optimizer_takes(const OptimizerOptions& o, std::string_view option) {
  const std::vector<std::string_view>& takes = row_of(o).takes;
  return option == "weight_decay" || std::find(takes.begin(), takes.end(), option) != takes.end();
}

std::string to_string(const OptimizerOptions& o) {
  std::string s = o.name;
  const auto number = [&](std::string_view name, double value, bool always) {
    if (always ? optimizer_takes(o, name) : value != 0) s += concat(' ', name, '=', value);
  };
  const auto flag = [&](std::string_view name, bool value) {
    if (value && optimizer_takes(o, name)) s += concat(' ', name);
  };
  if (optimizer_takes(o, "momentum")) number("momentum", o.momentum, false);
  flag("nesterov", o.nesterov);
  if (optimizer_takes(o, "dampening")) number("dampening", o.dampening, false);
  number("beta1", o.beta1, true);
  number("beta2", o.beta2, true);
  number("rho", o.rho, true);
  if (o.epsilon != 0) number("epsilon", o.epsilon, true);
  flag("amsgrad", o.amsgrad);
  flag("epsilon_hat", o.epsilon_hat);
  flag("centered", o.centered);
  if (optimizer_takes(o, "rate_decay")) number("rate_decay", o.rate_decay, false);
  number("trust", o.trust, true);
  number("weight_decay", o.weight_decay, false);
  flag("decoupled", o.decoupled);
  number("clip_norm", o.clip_norm, false);
  number("clip_value", o.clip_value, false);
  number("clip_parameter_norm", o.clip_parameter_norm, false);
  if (!o.groups.empty()) s += concat(", ", o.groups.size(), o.groups.size() == 1 ? " group" : " groups");
  if (o.average) s += ", weights averaged";
  return s;
}

UpdateKind scalars_kind(const OptimizerOptions& o) {
  const UpdateKind kind = row_of(o).kind;
  return kind == UpdateKind::adam && o.epsilon_hat ? UpdateKind::adam_hat : kind;
}

UpdateRule update_rule(const OptimizerOptions& o) {
  const Row& row = row_of(o);
  check(o);
  UpdateRule rule{
      .op = std::string(update_rows()[static_cast<std::size_t>(row.kind)].op), .kind = row.kind, .attributes = {}, .states = {}};
  Attributes& a = rule.attributes;
  a.set("weight_decay", f(o.weight_decay));
  const auto takes = [&](std::string_view name) { return optimizer_takes(o, name); };
  for (const auto& [name, value] : {std::pair{"momentum", o.momentum},
                                    {"beta1", o.beta1},
                                    {"beta2", o.beta2},
                                    {"rho", o.rho},
                                    {"epsilon", o.epsilon},
                                    {"trust", o.trust}})
    if (takes(name)) a.set(name, f(value));
  for (const auto& [name, value] : {std::pair{"dampening", o.dampening}, {"rate_decay", o.rate_decay}})
    if (takes(name) && value != 0) a.set(name, f(value));
  if (takes("nesterov")) a.set("nesterov", std::int64_t{o.nesterov});
  if (row.kind == UpdateKind::adam || takes("decoupled")) a.set("decoupled", std::int64_t{o.decoupled});
  for (const auto& [name, value] : {std::pair{"amsgrad", o.amsgrad}, {"centered", o.centered}})
    if (takes(name) && value) a.set(name, std::int64_t{1});
  if (o.clip_value > 0) a.set("clip_value", f(o.clip_value));
  if (o.clip_parameter_norm > 0) a.set("clip_norm", f(o.clip_parameter_norm));
  if (o.average) a.set("average", std::int64_t{1});
  for (const UpdateState& s : update_states(row.kind, a)) rule.states.emplace_back(s.name);
  if (o.average) rule.states.emplace_back(average_state);
  return rule;
}

std::string reads_whole(const Value& parameter, const OptimizerOptions& o) {
  const UpdateKind kind = update_rule(o).kind;
  if (o.clip_parameter_norm > 0) return option("clip_parameter_norm");
  return kind == UpdateKind::lamb || kind == UpdateKind::lars || is_composed(parameter, o) ? concat("optimizer ", o.name) : std::string();
}

}  // namespace tandem
