// What is known of a settled LSTM, GRU or RNN node, and the two ways of writing it out: with one node for what goes on in time
// (RecurrentTraining), which match_recurrent (planner/fuse) chooses where backends have a kernel for it, or step by step.
#pragma once
#include "graph/operator.h"

namespace tandem {

enum class Cell { lstm, gru, rnn };

struct CellFacts {
  Cell cell;
  std::string_view name;      // ONNX's
  std::int64_t gates;         // stacked in W and R: i, o, f, c; z, r, h; i
  std::int64_t functions;     // activations of a direction: f, g, h; f, g; f
  std::string_view defaults[3];
};
const CellFacts& facts_of(std::string_view name);  // "LSTM", "GRU", "RNN"

// X is [T,B,I], or [B,T,I] with layout 1; W is [D,G·H,I], R is [D,G·H,H].
struct RecurrentSizes {
  std::int64_t T, B, I, H, D;
};

// A node that RecurrentTraining can stand for: the usual activations, no clip, no peepholes, gates apart.
bool has_usual_form(const Graph& graph, const Node& node);

// The operands of RecurrentTraining, the products of all steps by W emitted before it, and its attributes.
struct FusedRecurrence {
  std::vector<ValueId> inputs;
  Attributes attributes;
};
FusedRecurrence fused_recurrence(ExpandContext& e);
// The node's outputs, of what RecurrentTraining gives.
std::vector<ValueId> recurrent_outputs(ExpandContext& e, ValueId y, ValueId y_h, ValueId y_c);

// The node step by step. Fails where there are too many steps for that.
std::vector<ValueId> expand_recurrent(ExpandContext& e);

}  // namespace tandem
