// A node on its way into the graph: upgrades, static operands and re-batching work on it before its shape rule runs.
#pragma once
#include <string>
#include <vector>

#include "graph/operator.h"

namespace tandem {

// A constant that counts along an axis, read as positions in the batch, if that is what lies there: every element in steps of
// `stride`, or, where that is 0, the first coordinate of tuples.
struct Counted {
  ValueId constant;
  int axis;
  std::int64_t stride = 0;
};

struct Draft {
  std::string op;
  std::string domain;
  std::int64_t opset = 0;
  std::string name;
  Attributes attributes;
  std::vector<ValueId> inputs;
  int outputs = 1;
  std::vector<Counted> counted = {};  // what lifting the node took for positions
};

}  // namespace tandem
