// Connectionist temporal classification (Graves et al., 2006): -log of the sum, over all alignments of a sequence of labels
// with T places, of the product of the probabilities of the classes that stand there. Between labels may stand blanks, and must
// between two alike.
#pragma once
#include "graph/operator.h"

namespace tandem {

struct Ctc {
  std::int64_t blank = 0;      // its class; below zero: counted from the last
  std::int64_t padding = -1;   // of labels: does not count
  bool zero_infinity = false;  // labels that do not fit into T places cost nothing; else infinitely much
  bool per_label = true;       // divided by the number of labels, as PyTorch's mean
};

// Of scores x [N,T,C] and labels t [N,S] (int64), [N]. The recursion's steps stand one behind the other in the graph, T of them;
// its gradient comes of their operators. All is float32, or x's type where that is wider; what cannot be is 1e-30, not 0.
ValueId ctc(GraphBuilder& b, ValueId x, ValueId t, const Ctc& options);

}  // namespace tandem
