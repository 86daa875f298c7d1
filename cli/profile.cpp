#include "cli/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "base/atomic_file.h"
#include "base/units.h"
#include "cli/table.h"
#include "planner/plan/bounds.h"
#include "planner/plan/print.h"
#include "planner/plan/trace.h"

namespace tandem {
namespace {

struct KernelTime {
  std::string name;
  std::int64_t count = 0;
  double measured = 0, planned = 0;  // seconds
};

// Of a device's step, the slowest first.
std::vector<KernelTime> kernel_times(const Plan& flat, std::size_t device, const Timeline& line) {
  std::map<std::string, KernelTime> sums;
  const IdVector<StepId, Step>& steps = flat.program_of(device).steps;
  for (StepId s{0}; s.index < std::ssize(steps); ++s.index) {
    const auto* launch = steps[s].as<LaunchStep>();
    const std::string name = launch ? concat(launch->op, ' ', launch->kernel) : std::string(kind_of(flat, steps[s]));
    KernelTime& sum = sums[name];
    sum.name = name;
    ++sum.count;
    sum.measured += line.ends[s] - line.begins[s];
    sum.planned += steps[s].seconds;
  }
  std::vector<KernelTime> list;
  for (auto& [name, sum] : sums) list.push_back(std::move(sum));
  std::ranges::stable_sort(list, std::greater(), &KernelTime::measured);
  return list;
}

std::string text_of(const std::vector<KernelTime>& list, double step, std::size_t columns) {
  constexpr std::size_t most = 12;
  const std::vector<TableColumn> head = {{"kernel"},         {"times", true},   {"measured", true},
                                         {"share", true, 1}, {"planned", true}, {"ratio", true}};
  std::vector<std::vector<std::string>> rows;
  for (const KernelTime& k : list) {
    if (rows.size() == most) break;
    rows.push_back({shorten(k.name, 52), concat(k.count), text_of_seconds(k.measured), fmt::format("{:.1f}%", 100 * k.measured / step),
                    text_of_seconds(k.planned), k.planned > 0 ? fmt::format("{:.2f}", k.measured / k.planned) : ""});
  }
  return table(head, std::move(rows), columns);
}

Json json_of(const std::vector<KernelTime>& list) {
  Json::Array rows;
  for (const KernelTime& k : list)
    rows.push_back(Json::Object{{"kernel", k.name}, {"times", k.count}, {"measured", k.measured}, {"planned", k.planned}});
  return rows;
}

}  // namespace

void report_profile(const Invocation& call, const std::string& file, const Plan& plan, const std::vector<Timeline>& measured) {
  write_atomically(file, trace_of(plan, measured));
  const Plan flat = written_out(plan);
  const std::size_t device = longest_of(measured);
  const double step = measured[device].seconds;
  const std::vector<KernelTime> list = kernel_times(flat, device, measured[device]);
  const std::string name = to_string(plan.devices[device].device);
  if (call.json()) {
    call.print(Json::Object{
        {"event", "profile"}, {"file", file}, {"device", name}, {"seconds", step}, {"planned", plan.seconds}, {"kernels", json_of(list)}});
    return;
  }
  call.say(concat("profile of one step, in ", file, ": ", text_of_seconds(step), " on ", name, ", planned ",
                  text_of_seconds(plan.seconds)));
  std::istringstream lines(text_of(list, step, output_columns(call.streams, call.environment)));
  for (std::string line; std::getline(lines, line);) call.say(line);
}

}  // namespace tandem
