// The optimizers by name with the field's defaults, and their update nodes.
#include "planner/passes/optimizer.h"

#include <limits>

#include "graph/suggest.h"

namespace tandem {
namespace {

struct Row {
  std::string_view name;
  std::string_view op;
  OptimizerOptions defaults;
};

// Defaults: PyTorch's, except RMSprop's, which are Keras's (rho 0.9, epsilon 1e-7).
const std::vector<Row>& rows() {
  static const std::vector<Row> list{
      {"sgd", "SgdUpdate", {}},
      {"rmsprop", "RmspropUpdate", {.name = "rmsprop", .epsilon = 1e-7}},
      {"adam", "AdamUpdate", {.name = "adam"}},
      {"adamw", "AdamUpdate", {.name = "adamw", .weight_decay = 0.01}},
  };
  return list;
}

const Row* find(std::string_view name) {
  for (const Row& row : rows())
    if (row.name == name) return &row;
  return nullptr;
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
};

void check(const OptimizerOptions& o) {
  for (const Range& r : ranges) {
    const double x = o.*r.value;
    if (x >= r.least && x < r.below) continue;  // false for what is not a number
    fail(ExitCode::usage, "optimizer '", o.name, "': ", r.name, " is ", x, ", expected a number of at least ", r.least,
         r.below == unbounded ? std::string() : concat(" and below ", r.below));
  }
  if (o.nesterov && o.momentum == 0) fail(ExitCode::usage, "optimizer ", o.name, ": Nesterov's momentum needs a momentum");
}

float f(double v) { return static_cast<float>(v); }

}  // namespace

OptimizerOptions optimizer_defaults(std::string_view name) {
  const Row* row = find(name);
  if (row) return row->defaults;
  std::vector<std::string> names;
  for (const Row& r : rows()) names.emplace_back(r.name);
  fail(ExitCode::usage, "optimizer '", name, "' is unknown", suggestion(name, names));
}

std::string to_string(const OptimizerOptions& o) {
  std::string s = o.name;
  const bool adam = o.name.starts_with("adam");
  if (!adam && o.momentum != 0) s += concat(" momentum=", o.momentum);
  if (o.nesterov) s += " nesterov";
  if (adam) s += concat(" beta1=", o.beta1, " beta2=", o.beta2);
  if (o.name == "rmsprop") s += concat(" rho=", o.rho);
  if (o.name != "sgd") s += concat(" epsilon=", o.epsilon);
  if (o.weight_decay != 0) s += concat(" weight_decay=", o.weight_decay);
  return s;
}

UpdateRule update_rule(const OptimizerOptions& o) {
  optimizer_defaults(o.name);
  check(o);
  UpdateRule rule{.op = std::string(find(o.name)->op)};
  rule.attributes.set("weight_decay", f(o.weight_decay));
  if (rule.op == "AdamUpdate") {
    rule.states = {"adam_m", "adam_v"};
    rule.attributes.set("beta1", f(o.beta1));
    rule.attributes.set("beta2", f(o.beta2));
    rule.attributes.set("epsilon", f(o.epsilon));
    rule.attributes.set("decoupled", std::int64_t{o.name == "adamw"});
    return rule;
  }
  rule.attributes.set("momentum", f(o.momentum));
  if (rule.op == "RmspropUpdate") {
    rule.states = {"rmsprop_s"};
    rule.attributes.set("rho", f(o.rho));
    rule.attributes.set("epsilon", f(o.epsilon));
  } else {
    rule.attributes.set("nesterov", std::int64_t{o.nesterov});
  }
  if (o.momentum != 0) rule.states.push_back("momentum");
  return rule;
}

}  // namespace tandem
