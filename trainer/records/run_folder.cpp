#include "trainer/records/run_folder.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <map>

#include "base/file.h"
#include "base/printable.h"
#include "trainer/checkpoint_parts.h"

namespace tandem {
namespace {

// The columns of metrics.csv and of an epoch in a checkpoint.
struct Column {
  const char* name;
  double EpochReport::*real;
  std::int64_t EpochReport::*whole;
};
constexpr Column columns[] = {
    {"epoch", nullptr, &EpochReport::epoch},
    {"step", nullptr, &EpochReport::step},
    {"loss", &EpochReport::loss, nullptr},
    {"accuracy", &EpochReport::accuracy, nullptr},
    {"val_loss", &EpochReport::val_loss, nullptr},
    {"val_accuracy", &EpochReport::val_accuracy, nullptr},
    {"learning_rate", &EpochReport::learning_rate, nullptr},
    {"seconds", &EpochReport::seconds, nullptr},
    {"samples_per_second", &EpochReport::samples_per_second, nullptr},
};

}  // namespace

void LossTrace::add(double loss) {
  sum_ += loss;
  if (++count_ < window_) return;
  means_.push_back(sum_ / static_cast<double>(count_));
  sum_ = 0;
  count_ = 0;
  if (means_.size() < most) return;
  for (std::size_t i = 0; i < most / 2; ++i) means_[i] = (means_[2 * i] + means_[2 * i + 1]) / 2;
  means_.resize(most / 2);
  window_ *= 2;
}

std::vector<std::pair<double, double>> LossTrace::points() const {
  std::vector<std::pair<double, double>> list;
  const auto width = static_cast<double>(window_);
  for (std::size_t i = 0; i < means_.size(); ++i) list.emplace_back((static_cast<double>(i) + 0.5) * width, means_[i]);
  return list;
}

Json LossTrace::json() const {
  return Json::Object{{"window", window_}, {"means", means_}, {"sum", sum_}, {"count", count_}};
}

LossTrace LossTrace::from(const Json& json) {
  LossTrace trace;
  trace.window_ = json.at("window").integer();
  for (const Json& mean : json.at("means").array()) trace.means_.push_back(mean.number());
  trace.sum_ = json.at("sum").number();
  trace.count_ = json.at("count").integer();
  constexpr std::int64_t longest = std::int64_t{1} << 53;
  if (trace.window_ < 1 || trace.window_ > longest || trace.count_ < 0 || trace.count_ >= trace.window_ || trace.means_.size() >= most)
    fail("trace of ", trace.means_.size(), " means, ", trace.count_, " steps of a window of ", trace.window_, ", expected fewer than ",
         most, " and fewer than the window's, which has 1 to ", longest);
  return trace;
}

Json json_of(const EpochReport& report) {
  Json::Object object;
  for (const Column& c : columns) {
    if (c.real == &EpochReport::learning_rate)  // times stay last
      for (const auto& [name, value] : report.metrics) object.emplace_back(name, value);
    object.emplace_back(c.name, c.whole ? Json(report.*c.whole) : Json(report.*c.real));
  }
  return object;
}

EpochReport epoch_report(const Json& json) {
  EpochReport report;
  const auto real = [](const Json& value) { return value.is_null() ? not_measured : value.number(); };
  for (const Column& c : columns) {
    const Json& value = json.at(c.name);
    if (c.whole)
      report.*c.whole = value.integer();
    else
      report.*c.real = real(value);
  }
  for (const auto& [name, value] : json.object())
    if (std::none_of(std::begin(columns), std::end(columns), [&key = name](const Column& c) { return c.name == key; }))
      report.metrics[name] = real(value);
  return report;
}

std::string csv_of(const std::vector<EpochReport>& epochs) {
  std::set<std::string> metrics;
  for (const EpochReport& e : epochs)
    for (const auto& [name, value] : e.metrics) metrics.insert(name);
  std::string csv;
  const auto row = [&](const EpochReport* e) {  // null: the header
    std::string line;
    const auto cell = [&](const std::string& text) { line += text + ','; };
    const auto number = [](double value) { return std::isfinite(value) ? text_of(value) : std::string(); };
    for (const Column& c : columns) {
      if (c.real == &EpochReport::learning_rate)
        for (const std::string& name : metrics) cell(!e ? csv_cell(name) : e->metrics.contains(name) ? number(e->metrics.at(name)) : "");
      cell(!e ? std::string(c.name) : c.whole ? std::to_string(e->*c.whole) : number(e->*c.real));
    }
    line.back() = '\n';
    csv += line;
  };
  row(nullptr);
  for (const EpochReport& e : epochs) row(&e);
  return csv;
}

std::vector<Panel> panels_of(const std::vector<EpochReport>& epochs, const Traces& traces) {
  std::vector<Panel> panels;
  const auto add = [&](std::string title, std::vector<Series> series) {
    std::erase_if(series, [](const Series& s) { return s.points.empty(); });
    if (!series.empty()) panels.push_back({std::move(title), "epoch", std::move(series)});
  };
  const auto in_epochs = [&](const LossTrace& trace) {
    std::vector<std::pair<double, double>> points = trace.points();
    for (auto& p : points) p.first /= traces.steps_per_epoch;
    return points;
  };
  const auto measured = [&](const std::string& name, const auto& value_of) {
    Series s{.name = name, .points = {}, .marks = true};
    for (const EpochReport& e : epochs)
      if (const double v = value_of(e); std::isfinite(v)) s.points.emplace_back(static_cast<double>(e.step) / traces.steps_per_epoch, v);
    return s;
  };
  const auto metric = [](std::string name) {
    return [name = std::move(name)](const EpochReport& e) {
      const auto found = e.metrics.find(name);
      return found == e.metrics.end() ? not_measured : found->second;
    };
  };
  add("Loss",
      {{.name = "training", .points = in_epochs(traces.losses)}, measured("validation", [](const EpochReport& e) { return e.val_loss; })});
  add("Accuracy", {measured("training", [](const EpochReport& e) { return e.accuracy; }),
                   measured("validation", [](const EpochReport& e) { return e.val_accuracy; })});
  constexpr std::string_view of_validation = "val_";
  std::set<std::string> names;
  for (const EpochReport& e : epochs)
    for (const auto& [name, value] : e.metrics) names.insert(name.starts_with(of_validation) ? name.substr(of_validation.size()) : name);
  for (const std::string& name : names)
    add(name, {measured("training", metric(name)), measured("validation", metric(concat(of_validation, name)))});
  add("Learning rate", {{.name = "", .points = in_epochs(traces.rates)}});
  return panels;
}

RunFolder::RunFolder(std::filesystem::path path, bool held, std::function<void(const std::string&)> warn)
    : path_(std::move(path)), warn_(std::move(warn)) {
  if (!kept()) return;
  make_writable_folder(path_);
  if (!held) lock_ = RunLock(path_);
  remove_unnamed_parts(path_);
}

void RunFolder::start_anew() const {
  std::error_code error;
  if (!kept()) return;
  for (const std::filesystem::path& file : {last(), previous(), best()}) std::filesystem::remove(file, error);
  keep_latest(0);
  remove_unnamed_parts(path_);
  for (std::filesystem::directory_iterator at(path_, error), end; !error && at != end; at.increment(error))
    if (std::error_code ignored; at->path().filename().string().starts_with("events.out.tfevents."))
      std::filesystem::remove(at->path(), ignored);
}

void RunFolder::keep_latest(std::int64_t most) const {
  std::map<std::int64_t, std::filesystem::path> steps;
  std::error_code error;
  for (std::filesystem::directory_iterator at(path_, error), end; !error && at != end; at.increment(error)) {
    constexpr std::string_view before = "step-", after = ".checkpoint";
    const std::string name = at->path().filename().string();
    std::int64_t step = 0;
    if (!name.starts_with(before) || !name.ends_with(after) || name.size() <= before.size() + after.size()) continue;
    const char *first = name.data() + before.size(), *last = name.data() + name.size() - after.size();
    if (std::from_chars(first, last, step).ptr == last) steps[step] = at->path();
  }
  for (auto it = steps.begin(); it != steps.end() && std::ssize(steps) > most; it = steps.erase(it))
    std::filesystem::remove(it->second, error);
}

void RunFolder::keep_step(std::int64_t step, std::int64_t most) const {
  link_last(path_ / concat("step-", step, ".checkpoint"));
  keep_latest(most);
}

void RunFolder::take_up() const {
  std::error_code error;
  if (kept()) std::filesystem::remove(path_ / run_end_name, error);
}

void RunFolder::write_end(std::string_view state, const std::string& error) const {
  Json::Object end{{"state", state}};
  if (!error.empty()) end.emplace_back("error", error);
  write(run_end_name, Json(std::move(end)).dump() + "\n");
}

bool RunFolder::link_last(const std::filesystem::path& name) const {
  // By a name that is renamed, so that at no moment is there none.
  const std::filesystem::path link = path_ / concat('.', name.filename().string(), ".tandem-0-0");
  for (int attempt = 0; attempt < 2; ++attempt) {  // an error may pass at once
    std::error_code error, ignored;
    std::filesystem::remove(link, ignored);
    std::filesystem::create_hard_link(last(), link, error);
    if (!error) std::filesystem::rename(link, name, error);
    if (error) continue;
    std::filesystem::remove(link, ignored);  // renaming one name of a file to another of the same leaves both
    return true;
  }
  return false;
}

Checkpoint RunFolder::read_last(std::string& note, const Read& read) const {
  try {
    return read(last());
  } catch (const Error& damaged) {
    if (damaged.code() == ExitCode::communication) throw;
    Checkpoint before;
    try {
      before = read(previous());
    } catch (const Error& e) {
      if (e.code() == ExitCode::communication || std::filesystem::exists(previous())) throw;
      throw damaged;
    }
    note = concat(damaged.what(), "; going on from the checkpoint before it, ", previous().string());
    return before;
  }
}

void RunFolder::write(const std::string& name, std::string_view contents) const {
  if (!kept()) return;
  try {
    write_atomically(path_ / name, contents);
  } catch (const Error& e) {
    if (e.code() != ExitCode::io) throw;
    if (warned_.insert(name).second && warn_) warn_(concat(e.what(), "; the run goes on without it"));
  }
}

void RunFolder::write_metrics(const std::vector<EpochReport>& epochs, const Traces& traces) const {
  if (!kept()) return;
  std::string lines;
  for (const EpochReport& e : epochs) lines += json_of(e).dump() + '\n';
  const std::vector<Panel> panels = panels_of(epochs, traces);
  write("metrics.csv", csv_of(epochs));
  write("metrics.jsonl", lines);
  write("curves.svg", svg_of(panels));
  write("curves.png", png_of(panels));
}

}  // namespace tandem
