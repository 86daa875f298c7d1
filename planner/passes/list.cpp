// The lists of passes, as rows.inc has them.
#include <algorithm>
#include <vector>

#include "base/option.h"
#include "base/suggest.h"
#include "planner/passes/run_passes.h"

namespace tandem {
namespace pass_rows {

#define PASS(lists, name) Pass name();
#include "planner/passes/rows.inc"
#undef PASS

}  // namespace pass_rows

namespace {

enum Lists : unsigned { training = 1, inference = 2, both = training | inference };

std::vector<Pass> list_of(Lists wanted) {
  std::vector<Pass> list;
#define PASS(lists, name) \
  if ((lists & wanted) != 0) list.push_back(pass_rows::name());
#include "planner/passes/rows.inc"
#undef PASS
  return list;
}

}  // namespace

std::span<const Pass> passes_of(PlanMode mode) {
  static const std::vector<Pass> trains = list_of(training), predicts = list_of(inference);
  return mode == PlanMode::training ? trains : predicts;
}

void check_left_out(const std::vector<std::string>& left_out) {
  if (left_out.empty()) return;
  const std::vector<Pass> all = list_of(both);
  std::vector<std::string> names;
  for (const Pass& pass : all) names.emplace_back(pass.name);
  for (const std::string& name : left_out) {
    const auto pass = std::find_if(all.begin(), all.end(), [&](const Pass& p) { return p.name == name; });
    if (pass == all.end()) {
      const std::string near = nearest(name, names);
      fail(ExitCode::usage, option("without_passes"), ": there is no pass '", name, "'",
           near.empty() ? std::string() : concat(", did you mean '", near, "'?"));
    }
    if (pass->required.empty() && pass->gives.empty()) continue;
    fail(ExitCode::usage, option("without_passes"), ": no plan can be without '", name,
         "': ", pass->required.empty() ? "other passes need what it gives" : pass->required);
  }
}

}  // namespace tandem
