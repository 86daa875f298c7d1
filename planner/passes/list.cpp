// The lists of passes, as rows.inc has them.
#include <vector>

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

}  // namespace tandem
