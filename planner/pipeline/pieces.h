// A model as a row of pieces between which a pipeline may cut it, with what each takes.
#pragma once
#include <vector>

#include "graph/graph.h"
#include "planner/pipeline/cuts.h"

namespace tandem {

// What a device of a stage holds for each byte of a micro-batch's activations, and for each of a trained parameter.
struct HeldShares {
  double activations = 1, parameters = 1;
};

struct ModelPieces {
  std::vector<Piece> pieces;
  std::vector<int> of_node;  // by node of the model: its piece; operands are made in no later one
};

// The model's nodes in their order. Nodes of one ONNX node are not cut apart; what is computed of parameters and constants alone stands
// with its first reader. Times are in operations: those of a node, or ten for each byte that it reads or writes, whichever is more; as
// much again for each gradient that it gives. Of more than 2,000 places to cut those remain at which the least has to be sent.
ModelPieces pieces_of(const Graph& model, const HeldShares& held);

}  // namespace tandem
