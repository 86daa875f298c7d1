#include "trainer/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/spec.h"

namespace tandem {
namespace {

struct Key {
  std::string_view name;
  double absent;
  bool positive;  // else 0 will do
};

// Where a step stands, behind the warm-up.
struct Moment {
  double step, steps;  // the last step is `steps` − 1
  double epoch;        // steps in epochs
  double share() const { return std::min(1.0, step / std::max(1.0, steps - 1)); }  // of the way to the last step
};

struct Row {
  std::string_view name, other;  // other: PyTorch's
  std::vector<Key> keys;         // beside warmup
  double (*factor)(const Schedule& s, const Moment& m);  // of the base rate
};

double towards(double from, double to, double share) { return to + (from - to) * 0.5 * (1 + std::cos(std::numbers::pi * share)); }

double restarts(const Schedule& s, const Moment& m) {
  double period = s.number("every", 10), at = m.epoch;
  const double multiply = s.number("multiply", 1);
  if (multiply == 1) {
    at = std::fmod(at, period);
  } else {
    const double n = std::floor(std::log(at / period * (multiply - 1) + 1) / std::log(multiply) + 1e-12);
    at -= period * (std::pow(multiply, n) - 1) / (multiply - 1);
    period *= std::pow(multiply, n);
  }
  return towards(1, s.number("final", 0), at / period);
}

double one_cycle(const Schedule& s, const Moment& m) {
  const double first = 1 / s.number("start", 25), last = first / s.number("end", 10000),
               peak = std::max(1.0, s.number("peak", 0.3) * m.steps) - 1;
  if (m.step <= peak) return peak == 0 ? 1 : towards(first, 1, m.step / peak);
  return towards(1, last, std::min(1.0, (m.step - peak) / std::max(1.0, m.steps - 1 - peak)));
}

const std::vector<Row>& rows() {
  static const std::vector<Row> list{
      {"constant", "constantlr", {}, [](const Schedule&, const Moment&) { return 1.0; }},
      {"step",
       "steplr",
       {{"every", 10, true}, {"factor", 0.1, true}},
       [](const Schedule& s, const Moment& m) {
         return std::pow(s.number("factor", 0.1), std::floor(m.epoch / s.number("every", 10) + 1e-9));
       }},
      {"multistep",
       "multisteplr",
       {{"factor", 0.1, true}},
       [](const Schedule& s, const Moment& m) {
         return std::pow(s.number("factor", 0.1),
                         static_cast<double>(std::count_if(s.at.begin(), s.at.end(), [&](double e) { return m.epoch + 1e-9 >= e; })));
       }},
      {"exponential",
       "exponentiallr",
       {{"factor", 0.9, true}},
       [](const Schedule& s, const Moment& m) { return std::pow(s.number("factor", 0.9), m.epoch); }},
      {"polynomial",
       "polynomiallr",
       {{"power", 2, true}, {"final", 0, false}},
       [](const Schedule& s, const Moment& m) {
         return s.number("final", 0) + (1 - s.number("final", 0)) * std::pow(1 - m.share(), s.number("power", 2));
       }},
      {"linear",
       "linearlr",
       {{"final", 0, false}},
       [](const Schedule& s, const Moment& m) { return 1 + (s.number("final", 0) - 1) * m.share(); }},
      {"cosine",
       "cosineannealinglr",
       {{"final", 0, false}},
       [](const Schedule& s, const Moment& m) { return towards(1, s.number("final", 0), m.share()); }},
      {"restarts", "cosineannealingwarmrestarts", {{"every", 10, true}, {"multiply", 1, true}, {"final", 0, false}}, restarts},
      {"onecycle", "onecyclelr", {{"peak", 0.3, true}, {"start", 25, true}, {"end", 10000, true}}, one_cycle},
      {"plateau",
       "reducelronplateau",
       {{"patience", 10, false}, {"factor", 0.1, true}, {"threshold", 0.0001, false}, {"cooldown", 0, false}, {"least", 0, false}},
       [](const Schedule&, const Moment&) { return 1.0; }},
  };
  return list;
}

const Row* find(std::string_view name) {
  std::string plain;
  if (const auto dot = name.rfind('.'); dot != std::string_view::npos) name.remove_prefix(dot + 1);
  for (const char c : name)
    if (c != '-' && c != '_') plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto row = std::find_if(rows().begin(), rows().end(), [&](const Row& r) { return r.name == plain || r.other == plain; });
  return row == rows().end() ? nullptr : &*row;
}

// 30+60: multistep's epochs.
std::vector<double> epochs_of(const std::string& text) {
  std::vector<double> list;
  for (const std::string& part : split(text, '+')) list.push_back(parse_number(part, "learning-rate schedule: at"));
  if (list.empty() || !std::is_sorted(list.begin(), list.end()))
    fail(ExitCode::usage, "learning-rate schedule multistep: at is '", text, "', expected epochs in order, such as at=30+60");
  return list;
}

}  // namespace

double Schedule::number(std::string_view key, double absent) const {
  const auto it = numbers.find(key);
  return it == numbers.end() ? absent : it->second;
}

Schedule parse_schedule(std::string_view text) {
  const Spec spec = parse_spec(text);
  const Row* const row = find(spec.name);
  if (!row) {
    std::vector<std::string> names;
    for (const Row& r : rows()) names.emplace_back(r.name);
    fail(ExitCode::usage, "unknown learning-rate schedule '", text, "'", suggestion(spec.name, names));
  }
  Schedule s{.name = std::string(row->name), .numbers = {}, .at = {}};
  std::vector<Key> keys = row->keys;
  keys.push_back({"warmup", 0, false});
  std::vector<std::string> allowed;
  for (const Key& key : keys) {
    allowed.emplace_back(key.name);
    const double value = s.numbers[std::string(key.name)] = spec.number(key.name, key.absent);
    if (!(key.positive ? value > 0 : value >= 0))
      fail(ExitCode::usage, "learning-rate schedule '", text, "': ", key.name, " is ", value, ", it must be ",
           key.positive ? "positive" : "positive or 0");
  }
  if (s.name == "multistep") {
    allowed.emplace_back("at");
    if (spec.text("at", "").empty()) fail(ExitCode::usage, "learning-rate schedule multistep needs at=EPOCHS, such as at=30+60");
    s.at = epochs_of(spec.text("at", ""));
  }
  for (const auto& [key, value] : spec.options)
    if (std::find(allowed.begin(), allowed.end(), key) == allowed.end())
      fail(ExitCode::usage, "learning-rate schedule '", s.name, "' has no option '", key, "'", suggestion(key, allowed));
  if (s.number("peak", 0) > 1 || s.number("multiply", 1) < 1)
    fail(ExitCode::usage, "learning-rate schedule '", text, "': peak is a share of the run, multiply at least 1");
  return s;
}

std::string text_of(const Schedule& s) {
  std::string text = s.name, at;
  for (const auto& [key, value] : s.numbers) text += fmt::format(",{}={}", key, value);  // the shortest that reads back alike
  for (const double epoch : s.at) at += fmt::format("{}{}", at.empty() ? "" : "+", epoch);
  if (!at.empty()) text += ",at=" + at;
  const Schedule whole = parse_schedule(text);
  return whole.numbers == s.numbers ? text : text_of(whole);
}

std::string help_of_schedules() {
  std::string s;
  for (const Row& row : rows()) {
    std::string keys = row.name == "multistep" ? "at=E+E" : "";
    for (const Key& key : row.keys) keys += concat(keys.empty() ? "" : ", ", key.name, '=', key.absent);
    s += concat(s.empty() ? "" : "; ", row.name, keys.empty() ? "" : concat(" (", keys, ')'));
  }
  return s + ". Options follow a name: step,every=5,warmup=1, where warmup is epochs with any";
}

double learning_rate(const Schedule& s, double base, std::int64_t step, std::int64_t steps, double steps_per_epoch) {
  const double warmup = s.number("warmup", 0) * steps_per_epoch, now = static_cast<double>(step);
  if (now < warmup) return base * (now + 1) / (warmup + 1);
  const Moment m{.step = now - warmup, .steps = static_cast<double>(steps) - warmup, .epoch = (now - warmup) / steps_per_epoch};
  return base * find(s.name)->factor(s, m);
}

bool Waiting::add(double measure, double threshold, bool relative, std::int64_t patience) {
  if (!std::isfinite(measure)) measure = std::numeric_limits<double>::max();
  const double wanted = relative ? best - std::abs(best) * threshold : best - threshold;
  if (!any || measure < wanted) {
    best = measure;
    any = true;
    bad = 0;
  } else {
    ++bad;
  }
  if (cooldown > 0) {
    --cooldown;
    bad = 0;
  }
  return bad > patience;
}

void follow_measure(const Schedule& s, double base, double measure, Waiting& w) {
  if (!s.follows_measure() || !w.add(measure, s.number("threshold", 0.0001), true, static_cast<std::int64_t>(s.number("patience", 10))))
    return;
  w.factor = std::max(w.factor * s.number("factor", 0.1), base > 0 ? s.number("least", 0) / base : 0);
  w.bad = 0;
  w.cooldown = static_cast<std::int64_t>(s.number("cooldown", 0));
}

}  // namespace tandem
