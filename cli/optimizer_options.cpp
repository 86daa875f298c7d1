#include "cli/optimizer_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>

#include "base/file.h"
#include "base/spec.h"
#include "trainer/records/curves.h"

namespace tandem {
namespace {

struct Number {
  std::string_view option, name, help;
  double OptimizerOptions::*value;
};
constexpr Number numbers[] = {
    {"momentum", "momentum", "momentum (default 0; lars 0.9)", &OptimizerOptions::momentum},
    {"dampening", "dampening", "what of a gradient does not go into the momentum", &OptimizerOptions::dampening},
    {"beta1", "beta1", "decay of the first moment (default 0.9)", &OptimizerOptions::beta1},
    {"beta2", "beta2", "decay of the second moment (default 0.999; lion 0.99)", &OptimizerOptions::beta2},
    {"rho", "rho", "decay of the mean square (default 0.9)", &OptimizerOptions::rho},
    {"epsilon", "epsilon", "added to the denominator", &OptimizerOptions::epsilon},
    {"rate-decay", "rate_decay", "the rate is divided by 1 + X for each step before", &OptimizerOptions::rate_decay},
    {"trust", "trust", "trust coefficient (default 0.001)", &OptimizerOptions::trust},
};
struct Flag {
  std::string_view option, name, help;
  bool OptimizerOptions::*value;
};
constexpr Flag flags[] = {
    {"nesterov", "nesterov", "Nesterov's momentum", &OptimizerOptions::nesterov},
    {"amsgrad", "amsgrad", "divide by the largest second moment so far", &OptimizerOptions::amsgrad},
    {"centered", "centered", "divide by the variance in place of the mean square", &OptimizerOptions::centered},
    {"epsilon-hat", "epsilon_hat", "add epsilon before the root is corrected, as Keras and ONNX do", &OptimizerOptions::epsilon_hat},
    {"decoupled", "decoupled", "weight decay as AdamW's, not by way of the gradient", &OptimizerOptions::decoupled},
};

std::string listed(const std::vector<std::string>& names) {
  std::string s;
  for (const std::string& name : names) s += concat(s.empty() ? "" : ", ", name);
  return s;
}

// "adam, adamw: help"
std::string help_of(std::string_view name, std::string_view help) {
  std::vector<std::string> takers;
  for (const std::string& optimizer : optimizer_names())
    if (optimizer_takes(optimizer_defaults(optimizer), name) && optimizer == optimizer_defaults(optimizer).name) takers.push_back(optimizer);
  return concat(listed(takers), ": ", help);
}

// Groups whose rates are told in numbers need the run's.
double base_rate(const Arguments& a, const OptimizerOptions& o) { return a.text("lr").empty() ? default_learning_rate(o) : a.number("lr"); }

// Rows hold no strings of their own.
std::string_view kept(std::string text) {
  static std::deque<std::string> all;
  return all.emplace_back(std::move(text));
}

std::string trimmed(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return std::string(s);
}

}  // namespace

std::vector<UpdateGroup> parse_groups(const std::string& text, double rate) {
  std::vector<UpdateGroup> groups;
  for (const std::string& part : split(text, ';')) {
    if (trimmed(part).empty()) continue;
    const std::size_t colon = part.rfind(':');
    const auto wrong = [&](std::string_view what) { fail(ExitCode::usage, "--group '", trimmed(part), "': ", what, ", expected 'PATTERNS: weight-decay=X,lr=X or lr=0.1x,from=EPOCH'"); };
    if (colon == std::string::npos) wrong("no ':' behind the patterns");
    UpdateGroup group;
    for (const std::string& pattern : split(part.substr(0, colon), ','))
      if (!trimmed(pattern).empty()) group.patterns.push_back(trimmed(pattern));
    if (group.patterns.empty()) wrong("it names no parameter");
    bool any = false;
    for (const std::string& setting : split(part.substr(colon + 1), ',')) {
      const std::size_t equals = setting.find('=');
      if (equals == std::string::npos) wrong(concat("'", trimmed(setting), "' sets nothing"));
      const std::string key = trimmed(setting.substr(0, equals));
      std::string value = trimmed(setting.substr(equals + 1));
      any = true;
      if (key == "weight-decay") {
        group.weight_decay = parse_number(value, "--group: weight-decay");
      } else if (key == "lr") {
        const bool factor = value.ends_with('x');
        if (factor) value.pop_back();
        group.rate = parse_number(value, "--group: lr");
        if (!factor && rate == 0) wrong("a rate in numbers needs --lr above 0");
        if (!factor) group.rate /= rate;
      } else if (key == "from") {
        group.from = parse_number(value, "--group: from") - 1;
        if (group.from < 0) wrong("epochs count from 1");
      } else {
        wrong(concat("'", key, "' is none of weight-decay, lr, from"));
      }
    }
    if (!any) wrong("it sets nothing");
    groups.push_back(std::move(group));
  }
  return groups;
}

std::vector<OptionRow> optimizer_rows() {
  std::vector<OptionRow> rows{
      {"", "optimizer and learning rate", "", ""},
      {"optimizer", "NAME", "sgd", kept(concat(listed(optimizer_names()), "; as Keras and PyTorch write them, too"))},
      {"lr", "X", "", "learning rate (default the optimizer's usual one)"},
      {"weight-decay", "X", "", "weight decay (default 0, adamw and lamb 0.01, lars 0.0001); decoupled with adamw, lion and lamb"},
  };
  for (const Number& n : numbers) rows.push_back({n.option, "X", "", kept(help_of(n.name, n.help))});
  for (const Flag& f : flags) rows.push_back({f.option, "", "off", kept(help_of(f.name, f.help))});
  rows.push_back({"decay-on-vectors", "", "on", "let biases, scales and shifts of normalizations decay, too: whatever has one axis"});
  rows.push_back({"group", "GROUPS", "", "parameters with numbers of their own, groups separated by ';', such as 'bias,*norm*: weight-decay=0; head*: lr=10x,from=2'"});
  rows.push_back({"clip-norm", "X", "0", "largest norm of all gradients together (0: any)"});
  rows.push_back({"clip-value", "X", "0", "cut gradients to at most X in size (0: not)"});
  rows.push_back({"clip-parameter-norm", "X", "0", "largest norm of each parameter's gradient (0: any)"});
  rows.push_back({"accumulate", "N", "1", "batches that make one step, as one batch of N times the size would"});
  rows.push_back({"ema", "DECAY", "0", "keep a moving average of the weights, such as 0.999, measure it and write it (0: none)"});
  rows.push_back({"swa", "", "off", "keep the mean of the weights at the ends of epochs, measure it and write it"});
  return rows;
}

std::vector<OptionRow> rate_rows() {
  return {
      {"lr-schedule", "SPEC", "constant", kept(help_of_schedules())},
      {"average-from", "EPOCHS", "0", "epochs before --ema or --swa begins"},
      {"export", "NAME", "", "which weights to write: last, average, or both (the last ones beside --output); default average where one is kept"},
      {"best", "[min:|max:]NAME", "", "what --keep best, --early-stopping and plateau go by, such as f1 or val_rmse (default the validation's accuracy, or the least loss)"},
      {"early-stopping", "EPOCHS", "0", "end after so many epochs without a better measure (0: never)"},
      {"min-delta", "X", "0", "what --early-stopping takes for better"},
      {"find-lr", "FILE.svg", "", "test learning rates on this data, draw how the loss goes, suggest one, and train nothing"},
      {"find-lr-range", "A,B,N", "1e-7,10,100", "rates from A to B in N steps that --find-lr tests"},
  };
}

OptimizerOptions optimizer_options(const Arguments& a) { return optimizer_options(a, optimizer_defaults(a.text("optimizer"))); }

OptimizerOptions optimizer_options(const Arguments& a, OptimizerOptions o) {
  for (const Number& n : numbers) {
    if (!a.given(n.option)) continue;
    if (!optimizer_takes(o, n.name)) fail(ExitCode::usage, "--", n.option, ": the optimizer ", o.name, " has none");
    o.*n.value = a.number(n.option);
  }
  for (const Flag& f : flags) {
    if (!a.on(f.option)) continue;
    if (!optimizer_takes(o, f.name)) fail(ExitCode::usage, "--", f.option, ": the optimizer ", o.name, " has none");
    o.*f.value = true;
  }
  if (a.given("weight-decay")) o.weight_decay = a.number("weight-decay");
  o.decay_vectors = a.on("decay-on-vectors");
  if (a.given("group")) o.groups = parse_groups(a.text("group"), base_rate(a, o));
  o.clip_norm = a.number("clip-norm");
  o.clip_value = a.number("clip-value");
  o.clip_parameter_norm = a.number("clip-parameter-norm");
  o.accumulate = a.integer("accumulate") > 1;
  o.average = a.number("ema") > 0 || a.on("swa");
  return o;
}

void rate_options(const Invocation& call, const OptimizerOptions& optimizer, FitOptions& o) {
  const Arguments& a = call.arguments;
  o.schedule = parse_schedule(a.text("lr-schedule"));
  o.learning_rate = a.text("lr").empty() ? default_learning_rate(optimizer) : a.number("lr");  // the table of choices says which
  o.accumulate = a.integer("accumulate");
  o.averaging = {.ema = a.number("ema"), .swa = a.on("swa"), .from = a.number("average-from")};
  o.best = a.text("best");
  o.early_stopping = {.patience = a.integer("early-stopping"), .min_delta = a.number("min-delta")};
  const std::string& which = a.text("export");
  if (which != "" && which != "last" && which != "average" && which != "both") fail(ExitCode::usage, "--export ", which, ": expected last, average or both");
  if ((which == "average" || which == "both") && !o.averaging.any()) fail(ExitCode::usage, "--export ", which, ": no average is kept (--ema or --swa keep one)");
  if (o.averaging.from > 0 && !o.averaging.any()) fail(ExitCode::usage, "--average-from needs --ema or --swa");
  if (o.early_stopping.min_delta > 0 && o.early_stopping.patience == 0) fail(ExitCode::usage, "--min-delta needs --early-stopping");
}

void find_rate(const Invocation& call, Model& model, const Dataset& data, const FitOptions& options, bool writes) {
  const Arguments& a = call.arguments;
  const std::vector<std::string> range = split(a.text("find-lr-range"), ',');
  if (range.size() != 3) fail(ExitCode::usage, "--find-lr-range ", a.text("find-lr-range"), ": expected A,B,N");
  const RateTestOptions test{.least = parse_number(range[0], "--find-lr-range"), .most = parse_number(range[1], "--find-lr-range"), .steps = parse_integer(range[2], "--find-lr-range")};
  call.say(fmt::format("testing learning rates from {} to {} in {} steps", test.least, test.most, test.steps));
  const RateTest found = model.test_rates(data, options, test);
  if (!writes) return;
  const bool any = std::isfinite(found.suggestion);
  Panel panel{.title = any ? fmt::format("suggested learning rate {:.2g}", found.suggestion) : "no rate makes the loss fall", .x_label = "log10 of the learning rate", .series = {{.name = "loss", .points = {}}, {.name = "smoothed", .points = {}}}};
  double least = std::numeric_limits<double>::infinity();
  for (const double loss : found.smoothed) least = std::min(least, loss);
  for (std::size_t i = 0; i < found.rates.size(); ++i) {
    const double x = std::log10(found.rates[i]);
    panel.series[0].points.emplace_back(x, std::min(found.losses[i], test.ends_at * std::abs(least) + least));
    panel.series[1].points.emplace_back(x, found.smoothed[i]);
    if (found.rates[i] == found.suggestion) panel.series.push_back({.name = "suggestion", .points = {{x, found.smoothed[i]}}, .marks = true});
  }
  write_atomically(a.text("find-lr"), svg_of(std::span(&panel, 1)));
  if (call.json()) {
    Json::Array rates, losses;
    for (std::size_t i = 0; i < found.rates.size(); ++i) {
      rates.emplace_back(found.rates[i]);
      losses.emplace_back(found.smoothed[i]);
    }
    call.print(Json::Object{{"event", "find-lr"}, {"suggestion", any ? Json(found.suggestion) : Json()}, {"rates", std::move(rates)}, {"losses", std::move(losses)}});
  } else if (any) {
    call.write(fmt::format("suggested learning rate {:.2g}: there the loss falls fastest (--lr {:.2g})\nwrote {}\n", found.suggestion, found.suggestion, a.text("find-lr")));
  } else {
    call.write(fmt::format("no learning rate from {} to {} makes the loss fall\nwrote {}\n", test.least, test.most, a.text("find-lr")));
  }
}

}  // namespace tandem
