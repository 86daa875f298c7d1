// What attention that turns its own operands shares with RotaryEmbedding.
#pragma once
#include "graph/operator.h"

namespace tandem {

struct Rotation {
  std::int64_t heads = 0;  // of a 3-D operand
  std::int64_t width = 0;  // of each head as many of the first numbers are turned; 0: all
  bool interleaved = false;
};
// x [samples, heads, tokens, width] or [samples, tokens, heads · width], by angles [samples or 1, tokens, half].
ValueId rotate(GraphBuilder& b, ValueId x, ValueId cosine, ValueId sine, const Rotation& rotation);
// Rows of a table of angles: those at `positions` [samples, tokens]; from the one position that it holds on; or, where it is absent, the
// first.
ValueId rows_at(GraphBuilder& b, ValueId table, ValueId positions, std::int64_t tokens);

}  // namespace tandem
