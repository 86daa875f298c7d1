// What a loop has come to behind its last iteration.
#pragma once
#include "importer/build/builder.h"

namespace tandem {

// Where an iteration may lie behind the end, `active` says whether it does not.
struct Builder::LoopState {
  Symbol active;
  std::vector<Symbol> carried;
  std::vector<List> gathered;
};

// What ends a Loop: a count, a condition, or both. Each is known when the plan is made or computed from data.
struct Builder::LoopEnd {
  std::int64_t limit = -1;  // iterations that a known count allows; -1: no such count
  Symbol iterations_left;   // a count that is computed from data
  Symbol condition;         // of the iteration that is next
  bool capped = false;      // there may be iterations that are not planned
};

}  // namespace tandem
