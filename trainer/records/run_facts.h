// What a run was started with, as its checkpoints say it, and what another value means for a run that is resumed. Options that have
// no fact here may change freely: devices, records, how long the run lasts (docs/training.md has the list of all).
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "trainer/compiled_model.h"
#include "trainer/feed/loader.h"
#include "trainer/records/position.h"

namespace tandem {

enum class IfChanged {
  refused,  // what the checkpoint holds would mean something else: another model, objective, data or state
  warned,   // the run goes on by the new value; a warning names both
};

struct RunFact {
  std::string_view key;    // in the checkpoint
  std::string_view field;  // as option() names it; empty: no option says it
  IfChanged if_changed;
  Json value;
};

// `templates`, `data`: fingerprints.
std::vector<RunFact> run_facts(const CompiledModel& state, const FitOptions& options, const BatchOrder& order, const std::string& templates,
                               const std::string& data);
Json json_of(const std::vector<RunFact>& facts);

// What differs between a checkpoint's run and this one: a clause each, for a message. Facts that the checkpoint does not know, as an
// earlier version wrote it, are not compared. Fails (model) where a fact that every version has is missing.
struct RunDifferences {
  std::string refused, warned;  // empty: nothing
};
RunDifferences compare(const Json& was, const std::vector<RunFact>& now, const std::string& data_name);

// What of a position no run has that was started so, such as a plateau's factor where no schedule follows a measure; empty: nothing. `was`:
// the checkpoint's facts. Its schedule is told there, else it is the options'.
std::string contradiction(const Position& at, const Json& was, const FitOptions& options, const BatchOrder& order);

}  // namespace tandem
