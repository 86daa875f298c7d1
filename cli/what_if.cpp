#include "cli/what_if.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "base/atomic_file.h"
#include "base/units.h"
#include "cli/backends.h"
#include "cli/table.h"
#include "trainer/records/curves.h"

namespace tandem {
namespace {

// The outermost links' rate is another.
std::vector<DeviceKind> with_link(std::vector<DeviceKind> kinds, double rate) {
  for (DeviceKind& kind : kinds)
    if (rate > 0 && !kind.links.levels.empty()) kind.links.levels.back().bandwidth = rate;
  return kinds;
}

std::string text_of(const std::vector<WhatIfRow>& rows, const WhatIf& asked, std::size_t columns) {
  std::vector<TableColumn> head = {{"devices", true}, {"batch", true}, {"precision", false, 2}, {"link", true, 3}, {"step", true},
                                   {"samples/s", true}, {"efficiency", true, 1}, {"memory", true}, {"of", true, 5},
                                   {"1M samples", true}, {"bound by", false, 4}};
  std::vector<std::vector<std::string>> body;
  std::string problems;
  for (const WhatIfRow& r : rows) {
    const std::string link = r.link > 0 ? fmt::format("{:g} GB/s", r.link / 1e9) : "";
    std::vector<std::string> line = {concat(r.devices), concat(r.batch), to_string(r.precision), link};
    if (!r.problem.empty()) {
      line.insert(line.end(), {"no plan", "", "", "", "", "", ""});
      problems += concat(r.devices, r.devices == 1 ? " device" : " devices", ", batch ", r.batch, ", ", r.precision, ": ", r.problem, "\n");
    } else {
      const StepBounds& b = r.bounds;
      const double largest = std::max({b.arithmetic, b.memory, b.latency, b.waiting});
      const std::string bound = fmt::format("{} {:.0f}%", b.largest(), 100 * largest / r.seconds);
      line.insert(line.end(), {text_of_seconds(r.seconds), fmt::format("{:.0f}", r.samples_per_second), fmt::format("{:.3f}", r.efficiency),
                               text_of_bytes(r.bytes), text_of_bytes(r.memory), fmt::format("{:.3g}", r.cost), bound});
    }
    body.push_back(std::move(line));
  }
  const auto leave_out = [&](std::string_view title) {
    const auto i = std::ranges::find(head, title, &TableColumn::title) - head.begin();
    head.erase(head.begin() + i);
    for (auto& line : body) line.erase(line.begin() + i);
  };
  if (asked.price == 0) leave_out("1M samples");
  if (asked.links.empty()) leave_out("link");
  return table(head, std::move(body), columns) + problems;
}

Json json_of(const std::vector<WhatIfRow>& rows) {
  Json::Array list;
  for (const WhatIfRow& r : rows) {
    Json::Object row = {{"devices", r.devices}, {"batch", r.batch}, {"precision", name_of(r.precision)}};
    if (r.link > 0) row.emplace_back("link", r.link);
    if (!r.problem.empty()) {
      row.emplace_back("problem", r.problem);
    } else {
      row.insert(row.end(), {{"seconds", r.seconds},
                             {"samples_per_second", r.samples_per_second},
                             {"efficiency", r.efficiency},
                             {"bytes", r.bytes},
                             {"memory", r.memory},
                             {"cost", r.cost},
                             {"bound", r.bounds.largest()},
                             {"bounds", Json::Object{{"arithmetic", r.bounds.arithmetic},
                                                     {"memory", r.bounds.memory},
                                                     {"latency", r.bounds.latency},
                                                     {"waiting", r.bounds.waiting}}}});
    }
    list.push_back(Json(std::move(row)));
  }
  return list;
}

// Rate, efficiency and memory by the number of devices, a line for each format, link and batch rule.
std::vector<Panel> panels_of(const std::vector<WhatIfRow>& rows, const WhatIf& asked) {
  std::vector<Panel> panels;
  for (const char* const title : {"samples/s", "efficiency", "GiB a device"}) panels.push_back({title, "devices", {}, true});
  std::string before;
  int devices = 0;
  for (const WhatIfRow& r : rows) {
    std::string name = to_string(r.precision);
    if (r.link > 0) name += fmt::format(", {:g} GB/s", r.link / 1e9);
    if (!asked.batches.empty())
      name += asked.per_device ? concat(", batch ", r.batch / r.devices, " each") : concat(", batch ", r.batch);
    if (name != before || r.devices <= devices)
      for (Panel& p : panels) p.series.push_back({name, {}, true});
    before = name;
    devices = r.devices;
    if (!r.problem.empty()) continue;
    const double values[] = {r.samples_per_second, r.efficiency, static_cast<double>(r.bytes) / (1 << 30)};
    for (std::size_t p = 0; p < panels.size(); ++p) panels[p].series.back().points.emplace_back(r.devices, values[p]);
  }
  return panels;
}

}  // namespace

void check_chart(const std::string& file) {
  if (!file.empty() && !file.ends_with(".svg") && !file.ends_with(".png"))
    fail(ExitCode::usage, "--output ", file, ": with --what-if it is a chart, expected a name that ends in .svg or .png");
}

void show_what_if(const Invocation& call, const ModelTemplate& model, const ModelOptions& options, const WhatIf& asked,
                  const std::vector<DeviceKind>& kinds, const std::string& chart) {
  std::deque<BackendSet> sets;  // as long as plans are made
  const auto described = [&](const DeviceSpec& d) { return find_device_kind(kinds, d.id.backend) != nullptr; };
  if (!asked.links.empty() && !std::ranges::any_of(options.plan.devices, described))
    fail(ExitCode::usage, "--what-if: link=... is for devices that are described, such as --devices h100");
  const std::vector<WhatIfRow> rows = what_if(model, options, asked, [&](double link) {
    return sets.emplace_back(BackendSet::load(options.plan.devices, with_link(kinds, link))).all();
  });
  if (!chart.empty()) {
    const std::vector<Panel> panels = panels_of(rows, asked);
    write_atomically(chart, chart.ends_with(".png") ? png_of(panels) : svg_of(panels));
  }
  if (call.json())
    call.print(json_of(rows));
  else
    call.write(text_of(rows, asked, output_columns(call.streams, call.environment)));
  if (asked.devices.size() > 1 && asked.batches.empty())
    call.say(concat("note: each device keeps ", options.plan.batch / static_cast<std::int64_t>(options.plan.devices.size()),
                    " samples; batch=N in --what-if is one batch for all"));
}

}  // namespace tandem
