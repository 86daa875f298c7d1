// How two plans differ: what a step computes, where, by which kernels, and what moves.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"
#include "planner/plan/plan.h"

namespace tandem {

enum class Change { changed, removed, added };  // from the first plan to the second
enum class DiffUnit { text, bytes, seconds, count };

struct DiffRow {
  Change change = Change::changed;
  std::string name;    // of a device, parameter, value or ONNX node
  std::string kind;    // operator, kind of exchange; or empty
  std::string what;    // which fact of it: "kernel"
  Json before, after;  // null where a plan has none
  DiffUnit unit = DiffUnit::text;
};
struct DiffTable {
  std::string title;    // "Steps of cpu:0-1"
  std::string summary;  // "1 added, 2 changed, 32 the same"; or empty
  std::vector<DiffRow> rows;
};
struct PlanDiff {
  // Whether both do the same: steps, kernels, operands, places in memory and exchanges, on the same devices. Times, which are estimated or
  // measured, and the options that plans were made by are shown beside other differences, and are none.
  bool equal = true;
  std::vector<DiffTable> tables;  // those with rows; none where the plans are equal
};
// Devices are compared by their place in the plans: the first with the first. Steps are paired where they come from one ONNX node and
// have one operator; transfers where one node wants one value; exchanges by kind and what they carry.
PlanDiff diff_of(const Plan& before, const Plan& after);

// A plan with the name that it is shown by, as of its file.
struct NamedPlan {
  std::string name;
  const Plan& plan;
};
struct DiffFormat {
  std::string_view name;
  std::string (*write)(const NamedPlan& before, const NamedPlan& after, const PlanDiff& diff);
};
// text: tables of at most 100 columns; json: all rows; html: both plans side by side, below what differs. Null: there is none.
const DiffFormat* find_diff_format(std::string_view name);

}  // namespace tandem
