#include "cli/planned_options.h"

#include <algorithm>

#include "base/printable.h"
#include "options/device_flags.h"
#include "options/loss_flags.h"
#include "options/optimizer_flags.h"
#include "options/plan_file_flags.h"
#include "options/train_flags.h"
#include "options/weight_flags.h"
#include "planner/plan/plan_file.h"
#include "trainer/devices.h"

namespace tandem {
namespace {

const FlagGroup* const deciding_groups[] = {&loss_flags,    &target_flags,  &optimizer_flags, &weight_flags,
                                            &tune_flags,    &adapter_flags, &device_flags,    &placement_flags};
// Of these groups what each run has for itself: the plan is the same.
const FlagRow* const own_of_a_run[] = {&optimizer_flags.lr, &device_flags.tuning_cache, &device_flags.retune, &device_flags.log_placement};

std::vector<const FlagRow*> deciding_rows(bool evaluates) {
  std::vector<const FlagRow*> rows;
  for (const FlagGroup* group : deciding_groups)
    for (const FlagRow* row : group->rows())
      if (std::ranges::find(own_of_a_run, row) == std::end(own_of_a_run)) rows.push_back(row);
  for (const FlagRow* row : metric_flags.rows())
    if (evaluates) rows.push_back(row);
  return rows;
}

// Whether two texts of an option say the same.
bool same(const FlagRow& row, const std::string& a, const std::string& b) {
  if (a == b) return true;
  try {
    if (&row == &device_flags.devices) return to_string(parse_devices(a)) == to_string(parse_devices(b));
    return parse_number(a, "") == parse_number(b, "");
  } catch (const Error&) {
    return false;
  }
}

std::string quoted(const std::string& text) { return text.empty() ? "nothing" : concat("'", text, "'"); }

Json::Object options_of(const Plan& plan, const std::string& file) {
  if (plan.record.options.empty())
    fail(ExitCode::model, file, ": does not say by which options it was made, as plans of earlier versions: make it again from its model");
  try {
    return Json::parse(plan.record.options).object();
  } catch (const Error& e) {
    fail(ExitCode::model, file, ": the options that it was made by: ", e.what());
  }
}

}  // namespace

std::string planned_options(const Arguments& call, bool evaluates) {
  Json::Object options;
  for (const FlagRow* row : deciding_rows(evaluates))
    if (call.given(*row) || row == &device_flags.devices || row == &device_flags.batch_size)
      options.emplace_back(row->name, as_text(call.text(*row)));
  return Json(std::move(options)).dump();
}

Arguments with_planned_options(const Invocation& call) {
  Arguments a = call.arguments;
  const std::string file = a[plan_file_flags.plan];
  if (file.empty() && a[plan_file_flags.replan]) fail(ExitCode::usage, "--replan needs --plan FILE.plan, the plan that may not fit");
  const std::filesystem::path config = std::filesystem::path(a[record_flags.run_dir]) / "config.json";
  if (file.empty() || (a[record_flags.resume] && std::filesystem::exists(config))) return a;
  const Json::Object options = options_of(read_plan(file), file);
  const auto planned = [&](const FlagRow& row) {
    const auto it = std::ranges::find(options, row.name, [](const auto& o) { return o.first; });
    return it == options.end() ? std::string(row.absent) : from_text(it->second.text());
  };
  for (const FlagRow* row : deciding_rows(true)) {
    if (!a.has(*row)) continue;
    const bool named = std::ranges::any_of(options, [&](const auto& o) { return o.first == row->name; });
    if (!a.given(*row)) {
      if (named) a.set(*row, planned(*row));
      continue;
    }
    const bool of_measures = std::ranges::find(metric_flags.rows(), row) != metric_flags.rows().end();
    if (a[plan_file_flags.replan] || (of_measures && !named) || same(*row, a.text(*row), planned(*row))) continue;
    fail(ExitCode::usage, row->flag(), ' ', quoted(a.text(*row)), ": ", file, " was planned with ", quoted(planned(*row)),
         ", and what a plan was made by cannot be changed (--replan makes it anew)");
  }
  return a;
}

}  // namespace tandem
