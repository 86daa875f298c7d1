#include "trainer/records/run_record.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>
#include <sstream>

#include "base/file.h"
#include "trainer/records/best_measure.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

std::string text_of_value(const Json& value) {
  const std::string dumped = value.dump();
  return dumped.starts_with('"') ? value.text() : dumped;
}

Json read_json(const fs::path& path) {
  try {
    return Json::parse(read_file(path));
  } catch (const Error& e) {
    fail(ExitCode::data, path.string(), ": ", e.what());
  }
}

std::int64_t modified(const fs::path& folder) {
  std::int64_t latest = 0;
  std::error_code error;
  for (const char* name : {"config.json", "metrics.csv", "steps.csv", run_end_name}) {
    const fs::file_time_type time = fs::last_write_time(folder / name, error);
    if (!error)
      latest = std::max(
          latest,
          std::int64_t{
              std::chrono::duration_cast<std::chrono::seconds>(fs::file_time_type::clock::to_sys(time).time_since_epoch()).count()});
  }
  return latest;
}

}  // namespace

std::string RunRecord::option(std::string_view key) const {
  const Json* found = config.find(key);
  return found ? text_of_value(*found) : "";
}

double RunRecord::seconds() const {
  double sum = 0;
  for (const EpochReport& e : epochs) sum += e.seconds;
  return sum;
}

BestEpoch best_of(const RunRecord& run) {
  BestEpoch best;
  if (const std::string asked = run.option("best"); !asked.empty()) {
    const BestMeasure measure(asked);
    double most = not_measured;
    for (const EpochReport& e : run.epochs)
      if (const double score = measure.score(e); std::isfinite(score) && !(score <= most)) {
        most = score;
        best = {measure.name_in(e), measure.least() ? -score : score, e.epoch};
      }
    if (std::isfinite(best.value)) return best;
  }
  const auto look = [&](const char* name, double EpochReport::*value, double sign) {
    if (std::isfinite(best.value)) return;
    for (const EpochReport& e : run.epochs)
      if (std::isfinite(e.*value) && !(sign * (e.*value) <= sign * best.value)) best = {name, e.*value, e.epoch};
  };
  look("val_accuracy", &EpochReport::val_accuracy, 1);
  look("val_loss", &EpochReport::val_loss, -1);
  look("accuracy", &EpochReport::accuracy, 1);
  look("loss", &EpochReport::loss, -1);
  return best;
}

bool is_run(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / "config.json", error) &&
         (fs::exists(folder / "plan.txt", error) || fs::exists(folder / "last.checkpoint", error));
}

RunRecord read_run(const fs::path& folder) {
  RunRecord run{.folder = folder,
                .name = folder.filename().empty() ? folder.parent_path().filename().string() : folder.filename().string()};
  run.config = read_json(folder / "config.json");
  if (!run.config.is_object()) fail(ExitCode::data, (folder / "config.json").string(), ": holds no options");
  run.modified = modified(folder);
  if (const fs::path end = folder / run_end_name; fs::exists(end)) {
    const Json said = read_json(end);
    run.state = said.at("state").text();
    if (const Json* error = said.find("error")) run.error = error->text();
  } else {
    run.state = is_locked(folder) ? "running" : "killed";
  }
  if (const fs::path file = folder / "metrics.jsonl"; fs::exists(file)) {
    std::istringstream lines(read_file(file));
    for (std::string line; std::getline(lines, line);) {
      try {
        run.epochs.push_back(epoch_report(Json::parse(line)));
      } catch (const Error& e) {
        fail(ExitCode::data, file.string(), ": line ", run.epochs.size() + 1, ": ", e.what());
      }
    }
  }
  return run;
}

std::vector<fs::path> find_runs(const fs::path& folder) {
  if (is_run(folder)) return {folder};
  std::vector<std::pair<std::int64_t, fs::path>> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (is_run(at->path())) found.emplace_back(modified(at->path()), at->path());
  if (error) fail(ExitCode::io, folder.string(), ": cannot be read: ", error.message());
  std::sort(found.begin(), found.end());
  std::vector<fs::path> folders;
  for (auto& [time, path] : found) folders.push_back(std::move(path));
  return folders;
}

std::vector<Panel> compare(const std::vector<RunRecord>& runs) {
  constexpr std::string_view of_place[] = {"epoch", "step", "seconds"};
  std::vector<std::string> names;
  for (const RunRecord& run : runs)
    for (const EpochReport& e : run.epochs) {
      const Json line = json_of(e);
      for (const auto& [name, value] : line.object())
        if (!value.is_null() && std::find(std::begin(of_place), std::end(of_place), name) == std::end(of_place) &&
            std::find(names.begin(), names.end(), name) == names.end())
          names.push_back(name);
    }
  std::vector<Panel> panels;
  for (const std::string& name : names) {
    Panel panel{.title = name, .x_label = "epoch", .series = {}};
    for (const RunRecord& run : runs) {
      Series line{.name = run.name, .points = {}, .marks = run.epochs.size() < 40};
      for (const EpochReport& e : run.epochs)
        if (const Json report = json_of(e); report.find(name) && !report.at(name).is_null())
          line.points.emplace_back(static_cast<double>(e.epoch), report.at(name).number());
      panel.series.push_back(std::move(line));
    }
    panels.push_back(std::move(panel));
  }
  return panels;
}

}  // namespace tandem
