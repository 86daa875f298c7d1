// A graph of ONNX's operators as a file that other runtimes run.
#pragma once
#include <string>

#include "graph/graph.h"

namespace tandem {

// As onnx_of, with the values of weights and constants that the graph has, of any size, as initializers. Weights without values stay
// inputs. Fails (model) where the file would be larger than one message of protobuf can be.
std::string runnable_onnx_of(const Graph& graph);

}  // namespace tandem
