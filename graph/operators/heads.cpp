#include "graph/operators/heads.h"

namespace tandem::operator_rows::heads {

ValueId heads_apart(GraphBuilder& b, ValueId x, std::int64_t heads) {
  const Shape s = b.shape(x);
  return s.rank() == 4 ? x : b.transpose(b.reshape(x, {s[0], s[1], heads, s[2] / heads}), {0, 2, 1, 3});
}
ValueId heads_together(GraphBuilder& b, ValueId x) {
  const Shape s = b.shape(x);
  return b.reshape(b.transpose(x, {0, 2, 1, 3}), {s[0], s[2], s[1] * s[3]});
}

ValueId counted(GraphBuilder& b, std::int64_t n, Shape shape) {
  Tensor t = bounded_tensor({DType::int32, Shape{n}});
  std::int32_t next = 0;
  for (std::int32_t& v : t.write<std::int32_t>()) v = next++;
  return b.graph().add_constant("places", t.reshaped(std::move(shape)));
}

void expect_bias_of_scores(const InferContext& c, int input, const Shape& scores) {
  if (!c.has_input(input)) return;
  const Shape& s = c.shape(input);
  const bool fits =
      s.rank() == 4 && (s[0] == 1 || s[0] == scores[0]) && (s[1] == 1 || s[1] == scores[1]) && s[2] == scores[2] && s[3] == scores[3];
  if (!fits) c.fail("attention_bias is ", s, ", expected it to broadcast to ", scores);
}
void refuse(const InferContext& c, int input, const char* what) {
  if (c.has_input(input)) c.fail(what, " is not supported");
}
std::int64_t heads_of(const InferContext& c, const char* attribute) {
  const std::int64_t heads = c.attributes().integer(attribute);
  constexpr std::int64_t most = 1 << 16;
  if (heads < 1 || heads > most) c.fail(attribute, " is ", heads, ", expected 1 to ", most);
  return heads;
}
void expect_divided(const InferContext& c, std::int64_t size, std::int64_t heads) {
  if (size % heads != 0) c.fail(heads, " heads do not divide ", size, " numbers");
}

Result attend(ExpandContext& e, ValueId q, ValueId k, ValueId v, ValueId bias, ValueId past_key, ValueId past_value, bool causal,
              Attributes more) {
  Attributes a = std::move(more);
  a.set("is_causal", std::int64_t{causal});
  if (e.attributes().real("scale", 0) != 0) a.set("scale", e.attributes().real("scale"));
  std::vector<ValueId> operands{q, k, v};
  if (bias.present() || past_key.present()) operands.push_back(bias);
  if (past_key.present()) operands.insert(operands.end(), {past_key, past_value});
  const std::vector<ValueId> r = e.emit("Attention", std::move(operands), std::move(a), 4);
  return {r[0], r[1], r[2], r[3]};
}

ValueId either(GraphBuilder& b, ValueId x, ValueId y) { return !x.present() ? y : !y.present() ? x : b.add(x, y); }

}  // namespace tandem::operator_rows::heads
