// What ONNX Runtime's operators of attention share: heads in an axis of their own, attention as ONNX's, and what is refused.
#pragma once
#include "graph/operators/rules.h"

namespace tandem::operator_rows::heads {

// [samples, heads, tokens, width] of what holds the heads in its last axis.
ValueId heads_apart(GraphBuilder& b, ValueId x, std::int64_t heads);
ValueId heads_together(GraphBuilder& b, ValueId x);
// 0, 1, ... below n.
ValueId counted(GraphBuilder& b, std::int64_t n, Shape shape);

void expect_bias_of_scores(const InferContext& c, int input, const Shape& scores);
void refuse(const InferContext& c, int input, const char* what);
std::int64_t heads_of(const InferContext& c, const char* attribute = "num_heads");
void expect_divided(const InferContext& c, std::int64_t size, std::int64_t heads);

struct Result {
  ValueId y, key, value, shares;
};
// q, k, v [samples, heads, tokens, width]; `bias` may be absent, and so may the past.
Result attend(ExpandContext& e, ValueId q, ValueId k, ValueId v, ValueId bias, ValueId past_key, ValueId past_value, bool causal,
              Attributes more = {});
// A sum of which either may be absent.
ValueId either(GraphBuilder& b, ValueId x, ValueId y);

}  // namespace tandem::operator_rows::heads
