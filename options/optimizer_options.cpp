#include "options/optimizer_options.h"

#include <algorithm>

#include "base/spec.h"

namespace tandem {
namespace {

std::string listed(const std::vector<std::string>& names) {
  std::string s;
  for (const std::string& name : names) s += concat(s.empty() ? "" : ", ", name);
  return s;
}

// Groups whose rates are told in numbers need the run's.
double base_rate(const OptionValues& a, const OptimizerOptions& o) {
  return a[optimizer_flags.lr].value_or(default_learning_rate(o));
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
    const auto wrong = [&](std::string_view what) {
      fail(ExitCode::usage, optimizer_flags.group.told(), " '", trimmed(part), "': ", what,
           ", expected 'PATTERNS: weight-decay=X,lr=X or lr=0.1x,from=EPOCH'");
    };
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
        group.weight_decay = parse_number(value, concat(optimizer_flags.group.told(), ": weight-decay"));
      } else if (key == "lr") {
        const bool factor = value.ends_with('x');
        if (factor) value.pop_back();
        group.rate = parse_number(value, concat(optimizer_flags.group.told(), ": lr"));
        if (!factor && rate == 0) wrong(concat("a rate in numbers needs ", optimizer_flags.lr.told(), " above 0"));
        if (!factor) group.rate /= rate;
      } else if (key == "from") {
        group.from = parse_number(value, concat(optimizer_flags.group.told(), ": from")) - 1;
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

std::string names_of_optimizers(const FlagRow&) {
  return listed(optimizer_names());
}
std::string names_of_schedules(const FlagRow&) {
  return help_of_schedules();
}
std::string takers_of(const FlagRow& row) {
  std::vector<std::string> takers;
  for (const std::string& name : optimizer_names())
    if (const OptimizerOptions optimizer = optimizer_defaults(name); optimizer.name == name && optimizer_takes(optimizer, row.field()))
      takers.push_back(name);
  return listed(takers);
}

OptimizerOptions read_optimizer(const FlagRow&, const std::string& text) {
  return optimizer_defaults(text);
}
Schedule read_schedule(const FlagRow&, const std::string& text) {
  return parse_schedule(text);
}
RateTestOptions read_rate_range(const FlagRow& row, const std::string& text) {
  const std::vector<std::string> range = split(text, ',');
  if (range.size() != 3) fail(ExitCode::usage, row.told(), ' ', text, ": expected A,B,N");
  return {.least = parse_number(range[0], row.told()),
          .most = parse_number(range[1], row.told()),
          .steps = parse_integer(range[2], row.told())};
}

OptimizerOptions optimizer_options(const OptionValues& a) {
  return optimizer_options(a, a[optimizer_flags.optimizer]);
}

OptimizerOptions optimizer_options(const OptionValues& a, OptimizerOptions o) {
  const auto check_taken = [&](const FlagRow& row) {
    if (!optimizer_takes(o, row.field())) fail(ExitCode::usage, row.told(), ": the optimizer ", o.name, " has none");
  };
  for (const auto& flag : optimizer_flags.numbers) {
    const std::optional<double> number = a[flag];
    if (!number) continue;
    check_taken(flag);
    o.*flag.sets = *number;
  }
  for (const auto& flag : optimizer_flags.choices) {
    if (!a[flag]) continue;
    check_taken(flag);
    o.*flag.sets = true;
  }
  o.weight_decay = a[optimizer_flags.weight_decay].value_or(o.weight_decay);
  o.decay_vectors = a[optimizer_flags.decay_on_vectors];
  if (a.given(optimizer_flags.group)) o.groups = parse_groups(a[optimizer_flags.group], base_rate(a, o));
  o.clip_norm = a[optimizer_flags.clip_norm];
  o.clip_value = a[optimizer_flags.clip_value];
  o.clip_parameter_norm = a[optimizer_flags.clip_parameter_norm];
  o.average = a[optimizer_flags.ema] > 0 || a[optimizer_flags.swa];
  return o;
}

void read_rate_options(const OptionValues& a, FitOptions& o) {
  o.schedule = a[rate_flags.lr_schedule];
  o.learning_rate = a[optimizer_flags.lr];
  o.averaging = {.ema = a[optimizer_flags.ema], .swa = a[optimizer_flags.swa], .from = a[rate_flags.average_from]};
  o.best = a[rate_flags.best];
  o.early_stopping = {.patience = a[rate_flags.early_stopping], .min_delta = a[rate_flags.min_delta]};
  const ExportedWeights which = a[rate_flags.exports];
  if ((which == ExportedWeights::average || which == ExportedWeights::both) && !o.averaging.any())
    fail(ExitCode::usage, rate_flags.exports.told(), ' ', a.text(rate_flags.exports), ": no average is kept (", optimizer_flags.ema.told(),
         " or ", optimizer_flags.swa.told(), " keep one)");
  if (o.averaging.from > 0 && !o.averaging.any())
    fail(ExitCode::usage, rate_flags.average_from.told(), " needs ", optimizer_flags.ema.told(), " or ", optimizer_flags.swa.told());
  if (o.early_stopping.min_delta > 0 && o.early_stopping.patience == 0)
    fail(ExitCode::usage, rate_flags.min_delta.told(), " needs ", rate_flags.early_stopping.told());
}

}  // namespace tandem
