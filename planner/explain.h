// Why a node, value or parameter of a model is where a plan has it.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "kernels/backends.h"
#include "planner/lower/tuner.h"
#include "planner/pass_notes.h"

namespace tandem {

struct ExplainContext {
  const PassNotes* notes = nullptr;   // of the plan's making; null: the plan was read
  Backends backends{};                // of whose kernels the alternatives are told
  TuningOptions tuning{};             // by which kernels were timed
  std::map<std::string, std::vector<std::string>, std::less<>> modules{};  // of nodes, as CompileOptions has them
};

struct Explanation {
  struct Fact {
    std::string what, text;
  };
  std::string kind, name;  // "node", "value", "parameter"
  std::vector<Fact> facts;
};
// Of all that `pattern` names: a name, or a pattern with *, ? and [..], of a node, a module, a value or a parameter. Fails (usage) where it
// names nothing, with the nearest name.
std::vector<Explanation> explain(const Plan& plan, const std::string& pattern, const ExplainContext& context);

std::string text_of(const std::vector<Explanation>& explanations);  // lines of at most 100 columns
Json json_of(const std::vector<Explanation>& explanations);

}  // namespace tandem
