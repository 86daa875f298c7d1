#include "trainer/run_folder.h"

#include <cmath>

#include "trainer/curves.h"
#include "trainer/file.h"

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
    fail("trace of ", trace.means_.size(), " means, ", trace.count_, " steps of a window of ", trace.window_, ", expected fewer than ", most,
         " and fewer than the window's, which has 1 to ", longest);
  return trace;
}

Json json_of(const EpochReport& report) {
  Json::Object object;
  for (const Column& c : columns) object.emplace_back(c.name, c.whole ? Json(report.*c.whole) : Json(report.*c.real));
  return object;
}

EpochReport epoch_report(const Json& json) {
  EpochReport report;
  for (const Column& c : columns) {
    const Json& value = json.at(c.name);
    if (c.whole)
      report.*c.whole = value.integer();
    else
      report.*c.real = value.is_null() ? not_measured : value.number();
  }
  return report;
}

std::string csv_of(const std::vector<EpochReport>& epochs) {
  std::string csv;
  for (const Column& c : columns) csv += concat(csv.empty() ? "" : ",", c.name);
  csv += '\n';
  for (const EpochReport& e : epochs) {
    for (const Column& c : columns) {
      if (&c != columns) csv += ',';
      if (c.whole)
        csv += std::to_string(e.*c.whole);
      else if (std::isfinite(e.*c.real))
        csv += text_of(e.*c.real);
    }
    csv += '\n';
  }
  return csv;
}

std::string curves_of(const std::vector<EpochReport>& epochs, const LossTrace& trace, double steps_per_epoch) {
  Series steps{.name = "training"}, val_loss{.name = "validation", .marks = true};
  Series accuracy{.name = "training", .marks = true}, val_accuracy{.name = "validation", .marks = true};
  for (const auto& [step, loss] : trace.points()) steps.points.emplace_back(step / steps_per_epoch, loss);
  for (const EpochReport& e : epochs) {
    const double x = static_cast<double>(e.step) / steps_per_epoch;
    if (std::isfinite(e.val_loss)) val_loss.points.emplace_back(x, e.val_loss);
    if (std::isfinite(e.accuracy)) accuracy.points.emplace_back(x, e.accuracy);
    if (std::isfinite(e.val_accuracy)) val_accuracy.points.emplace_back(x, e.val_accuracy);
  }
  std::vector<Panel> panels;
  const auto add = [&](std::string title, std::vector<Series> series) {
    std::erase_if(series, [](const Series& s) { return s.points.empty(); });
    if (!series.empty()) panels.push_back({std::move(title), "epoch", std::move(series)});
  };
  add("Loss", {steps, val_loss});
  add("Accuracy", {accuracy, val_accuracy});
  return svg_of(panels);
}

RunFolder::RunFolder(std::filesystem::path path, bool held, std::function<void(const std::string&)> warn)
    : path_(std::move(path)), warn_(std::move(warn)) {
  if (!kept()) return;
  make_writable_folder(path_);
  if (!held) lock_ = RunLock(path_);
}

void RunFolder::start_anew() const {
  std::error_code error;
  if (kept())
    for (const std::filesystem::path& file : {last(), previous(), best()}) std::filesystem::remove(file, error);
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

Checkpoint RunFolder::read_last(std::string& note) const {
  try {
    return read_checkpoint(last());
  } catch (const Error& damaged) {
    if (!std::filesystem::exists(previous())) throw;
    Checkpoint before = read_checkpoint(previous());
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
    if (told_.insert(name).second && warn_) warn_(concat(e.what(), "; the run goes on without it"));
  }
}

void RunFolder::write_metrics(const std::vector<EpochReport>& epochs, const LossTrace& trace, double steps_per_epoch) const {
  write("metrics.csv", csv_of(epochs));
  write("curves.svg", curves_of(epochs, trace, steps_per_epoch));
}

}  // namespace tandem
