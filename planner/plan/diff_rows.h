// What the parts of a comparison of plans are made with.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "base/id_vector.h"
#include "planner/plan/diff.h"

namespace tandem {

// DiffRows of one thing that both plans have: a row for each that differs.
class DiffRows {
 public:
  DiffRows(DiffTable& table, std::string name, std::string_view kind = "") : table_(table), name_(std::move(name)), kind_(kind) {}
  void row(std::string what, Json before, Json after, DiffUnit unit = DiffUnit::text) {
    if (before.dump() != after.dump())
      table_.rows.push_back({Change::changed, name_, kind_, std::move(what), std::move(before), std::move(after), unit});
  }

 private:
  DiffTable& table_;
  std::string name_, kind_;
};

// A row for a thing that one plan alone has, by one fact of it.
inline void add_only(DiffTable& table, bool added, std::string name, std::string_view kind, std::string what, Json value, DiffUnit unit) {
  table.rows.push_back({added ? Change::added : Change::removed, std::move(name), std::string(kind), std::move(what),
                        added ? Json() : value, added ? value : Json(), unit});
}

// What changes for many things when it does for one is a number.
inline void add_count(DiffTable& table, std::string what, std::size_t count) {
  if (count > 0) table.rows.push_back({Change::changed, "", "", std::move(what), Json(), Json(count), DiffUnit::count});
}

// Items by their places in two lists, paired where they have one key: of several the first with the first. Absent: -1. Those of the second
// list alone stand behind what they follow there. Items have several keys, those of the first list of keys count first.
struct Pair {
  int before = -1, after = -1;
  bool both() const { return before >= 0 && after >= 0; }
};
using Keys = std::vector<std::string>;  // by item
std::vector<Pair> paired(const std::vector<Keys>& before, const std::vector<Keys>& after);

template <class List, class Key>
Keys keys_of(const List& list, Key&& key) {
  Keys keys;
  for (const auto& item : list) keys.push_back(key(item));
  return keys;
}

template <class Parts>
std::string joined(const Parts& parts) {
  std::string text;
  for (const auto& part : parts) text += concat(text.empty() ? "" : ", ", part);
  return text;
}

// What one device does, by one of the plans.
struct ProgramSide {
  const Plan& plan;
  const DeviceProgram& program;
  const Step& step(int i) const { return program.steps[StepId{i}]; }
};
DiffTable diff_of_steps(const ProgramSide& before, const ProgramSide& after, const std::string& devices);

}  // namespace tandem
