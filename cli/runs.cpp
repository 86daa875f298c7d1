// `tandem runs`: what was trained, and how runs differ.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <set>

#include "base/file.h"
#include "cli/command.h"
#include "cli/table.h"
#include "options/data_flags.h"
#include "options/train_flags.h"
#include "trainer/records/run_record.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

struct RunsFlags : FlagGroup {
  Switch compare{*this, "compare", off, "compare them (two or more runs that are named are compared anyway)"};
  Flag<std::string> output{*this, "output", "FILE", "", "draw their curves there, FILE.svg or FILE.png", {.scope = FlagScope::place}};
};
constexpr RunsFlags runs_flags;

std::string duration(double seconds) {
  const auto s = static_cast<std::int64_t>(seconds + 0.5);
  return s < 60     ? fmt::format("{}s", s)
         : s < 3600 ? fmt::format("{}m{:02}s", s / 60, s % 60)
                    : fmt::format("{}h{:02}m", s / 3600, s / 60 % 60);
}

std::string date(std::int64_t when) {
  const std::time_t time = static_cast<std::time_t>(when);
  std::tm local{};
  ::localtime_r(&time, &local);
  return fmt::format("{:%Y-%m-%d %H:%M}", local);
}

std::string number(double value) { return std::isfinite(value) ? fmt::format("{:.4g}", value) : "-"; }

std::string epochs_text(const RunRecord& run) {
  const std::string planned = run.option(train_flags.epochs.name);
  const std::int64_t done = run.epochs.empty() ? 0 : run.epochs.back().epoch;
  return planned.empty() || planned == "0" ? concat(done) : concat(done, '/', planned);
}

Json json_of(const RunRecord& run) {
  const BestEpoch best = best_of(run);
  return Json::Object{{"run", run.folder.string()},
                      {"model", run.option(model_file.name)},
                      {"data", run.option(data_flags.data.name)},
                      {"state", run.state},
                      {"error", run.error.empty() ? Json() : Json(run.error)},
                      {"epoch", run.epochs.empty() ? std::int64_t{0} : run.epochs.back().epoch},
                      {"step", run.epochs.empty() ? std::int64_t{0} : run.epochs.back().step},
                      {"best", best.epoch == 0 ? Json() : Json(Json::Object{{"metric", best.metric}, {"value", best.value}, {"epoch", best.epoch}})},
                      {"last", run.epochs.empty() ? Json() : tandem::json_of(run.epochs.back())},
                      {"seconds", run.seconds()},
                      {"modified", run.modified}};
}

void list(const Invocation& call, const std::vector<RunRecord>& runs) {
  std::vector<std::vector<std::string>> rows;
  for (const RunRecord& run : runs) {
    const BestEpoch best = best_of(run);
    rows.push_back({run.folder.string(), run.state, epochs_text(run), best.epoch == 0 ? "-" : concat(best.metric, ' ', number(best.value)),
                    duration(run.seconds()), date(run.modified), fs::path(run.option(model_file.name)).filename().string(),
                    run.option(data_flags.data.name)});
  }
  call.write(table({{"run"},
                    {"state"},
                    {"epoch", true},
                    {"best", false, 1},
                    {"time", true, 3},
                    {"last written", false, 5},
                    {"model", false, 2},
                    {"data", false, 4}},
                   rows, output_columns(call.streams, call.environment)));
  for (const RunRecord& run : runs)
    if (!run.error.empty())
      call.write(
          concat(wrapped(concat(run.folder.string(), ": ", run.error), output_columns(call.streams, call.environment) - 2, 2), '\n'));
}

// Those that the runs do not all have alike.
std::vector<std::string> options_that_differ(const std::vector<RunRecord>& runs) {
  constexpr const FlagRow* of_place[] = {&output_flags.output, &record_flags.run_dir, &common_flags.json, &common_flags.quiet};
  std::set<std::string> names;
  for (const RunRecord& run : runs)
    for (const auto& [name, value] : run.config.object()) names.insert(name);
  std::vector<std::string> differ;
  for (const std::string& name : names)
    if (std::ranges::find(of_place, name, &FlagRow::name) == std::end(of_place) &&
        std::any_of(runs.begin(), runs.end(), [&](const RunRecord& r) { return r.option(name) != runs[0].option(name); }))
      differ.push_back(name);
  return differ;
}

// A line for each run where all numbers have room, else a block for each.
void compare_options(const Invocation& call, const std::vector<RunRecord>& runs, const std::vector<std::string>& names) {
  std::vector<TableColumn> head{{""}};
  std::vector<std::vector<std::string>> rows;
  for (const RunRecord& run : runs) head.push_back({run.name});
  for (const std::string& name : names) {
    rows.push_back({"--" + name});
    for (const RunRecord& run : runs) rows.back().push_back(run.option(name).empty() ? "-" : run.option(name));
  }
  for (const auto& [title, value] : {std::pair<std::string_view, double EpochReport::*>{"loss", &EpochReport::loss},
                                     {"accuracy", &EpochReport::accuracy},
                                     {"val_loss", &EpochReport::val_loss},
                                     {"val_accuracy", &EpochReport::val_accuracy}}) {
    if (std::none_of(runs.begin(), runs.end(),
                     [&value = value](const RunRecord& r) { return !r.epochs.empty() && std::isfinite(r.epochs.back().*value); }))
      continue;
    rows.push_back({concat("last ", title)});
    for (const RunRecord& run : runs) rows.back().push_back(run.epochs.empty() ? "-" : number(run.epochs.back().*value));
  }
  std::set<std::string> metrics;
  for (const RunRecord& run : runs)
    if (!run.epochs.empty())
      for (const auto& [name, value] : run.epochs.back().metrics) metrics.insert(name);
  for (const std::string& name : metrics) {
    rows.push_back({concat("last ", name)});
    for (const RunRecord& run : runs) {
      const bool there = !run.epochs.empty() && run.epochs.back().metrics.contains(name);
      rows.back().push_back(there ? number(run.epochs.back().metrics.at(name)) : "-");
    }
  }
  rows.push_back({"best"});
  for (const RunRecord& run : runs) {
    const BestEpoch best = best_of(run);
    rows.back().push_back(best.epoch == 0 ? "-" : fmt::format("{} {} (epoch {})", best.metric, number(best.value), best.epoch));
  }
  std::string text = table(head, rows, output_columns(call.streams, call.environment));
  if (text.find('\n') > output_columns(call.streams, call.environment)) {
    text.clear();
    for (const auto& row : rows) {
      text += row[0] + '\n';
      for (std::size_t r = 0; r < runs.size(); ++r) text += concat("  ", runs[r].name, "  ", row[r + 1], '\n');
    }
  }
  call.write(text);
}

int run(const Invocation& call) {
  const Arguments& a = call.arguments;
  std::vector<std::string> given = a.rest();
  if (given.empty()) given.emplace_back("runs");
  if (a.rest().empty() && !fs::exists(given[0])) {
    if (call.json()) call.print(Json::Object{{"runs", Json::Array{}}});
    call.say("no runs here: tandem train keeps its runs in runs/");
    return 0;
  }
  std::vector<RunRecord> runs;
  for (const std::string& folder : given) {
    if (!fs::is_directory(folder)) fail(ExitCode::io, folder, fs::exists(folder) ? ": is no folder" : ": there is no such folder");
    for (const fs::path& path : find_runs(folder)) {
      try {
        runs.push_back(read_run(path));
      } catch (const Error& e) {
        call.warn(e.what());
      }
    }
  }
  const std::string output = a[runs_flags.output];
  if (!output.empty() && !output.ends_with(".svg") && !output.ends_with(".png"))
    fail(ExitCode::usage, "--output ", output, ": expected a name that ends in .svg or .png");
  const bool together = a[runs_flags.compare] || !output.empty() || (given.size() > 1 && runs.size() == given.size());
  const std::vector<std::string> differ = together ? options_that_differ(runs) : std::vector<std::string>();
  if (call.json()) {
    Json::Array list;
    for (const RunRecord& r : runs) list.push_back(json_of(r));
    Json::Object object{{"runs", std::move(list)}};
    if (together) {
      Json::Object options;
      for (const std::string& name : differ) {
        Json::Array values;
        for (const RunRecord& r : runs) values.push_back(r.config.find(name) ? r.config.at(name) : Json());
        options.emplace_back(name, std::move(values));
      }
      object.emplace_back("differ", std::move(options));
    }
    call.print(std::move(object));
  } else if (runs.empty()) {
    call.say(concat("no runs in ", given[0]));
  } else if (together && runs.size() > 1) {
    compare_options(call, runs, differ);
  } else {
    list(call, runs);
  }
  if (!output.empty()) {
    const std::vector<Panel> panels = compare(runs);
    write_atomically(output, output.ends_with(".svg") ? svg_of(panels) : png_of(panels));
    call.say("wrote " + output);
  }
  return 0;
}

}  // namespace

Command runs_command() {
  return {
      .name = "runs",
      .help = "list training runs, compare them, draw their curves",
      .positionals = {{"folders..."}},
      .usage = "[DIR...] [options]",
      .examples =
          "  tandem runs                                  # those in runs/\n"
          "  tandem runs runs/lenet-1 runs/lenet-2        # the options that differ, and what came of them\n"
          "  tandem runs runs --compare --output all.png  # their curves in one picture\n",
      .options = {&runs_flags},
      .run = run,
  };
}

}  // namespace tandem
