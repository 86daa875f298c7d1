// A training step to look into: forward, loss and gradients as they are written, nothing fused, with what each value is like
// as outputs. For finding the node that first made a value that is not finite.
#pragma once
#include <string>
#include <vector>

#include "planner/loss/labels.h"

namespace tandem {

struct Watch {
  std::string made_by;  // "Exp 'x'", "the gradient of Exp 'x' (Mul)", "input 'x'", "parameter 'w'"
  std::string value;    // its name
  std::vector<std::size_t> operands;  // other watches
};

struct Watched {
  Graph graph;                 // of watches[i], outputs 3·i to 3·i + 2 are: 0 where it is finite throughout, its least and its
                               // largest element
  std::vector<Watch> watches;  // inputs and parameters, then all else in the order in which it is computed
};
// `model`: for training, of so many samples. Every call for the same model gives the same watches.
Watched watch(const Graph& model, std::span<const Labels> losses, const CompileOptions& options, std::int64_t samples);

}  // namespace tandem
