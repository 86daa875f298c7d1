// Positions as rotations of pairs of numbers (Su et al. 2021), as ONNX and as ONNX Runtime write it: the operands stand in another order.
#include "graph/operators/batch_first.h"
#include "graph/operators/rotary_embedding.h"
#include "graph/operators/rules.h"

namespace tandem {
namespace {

// [samples, heads, tokens, width], or with the heads behind the tokens, where they share the last axis of x.
Shape apart(const Shape& x, std::int64_t heads) { return x.rank() == 4 ? x : Shape{x[0], x[1], heads, x[2] / heads}; }

}  // namespace

ValueId rotate(GraphBuilder& b, ValueId x, ValueId cosine, ValueId sine, const Rotation& r) {
  const Shape whole = b.shape(x), shape = apart(whole, r.heads);
  const std::int64_t width = shape[3], turned = r.width == 0 ? width : r.width;
  const bool heads_first = whole.rank() == 4;
  const Shape table = b.shape(cosine);  // [samples or 1, tokens, turned / 2]
  const Shape spread = heads_first ? Shape{table[0], 1, table[1], table[2]} : Shape{table[0], table[1], 1, table[2]};
  const ValueId c = b.reshape(cosine, spread), s = b.reshape(sine, spread), all = b.reshape(x, shape);
  const auto every_other = [&](std::int64_t first) {
    return b.emit("Slice", {all}, {{"starts", Ints{first}}, {"ends", Ints{turned}}, {"axes", Ints{3}}, {"steps", Ints{2}}});
  };
  const ValueId x1 = r.interleaved ? every_other(0) : slice_axis(b, all, 3, 0, turned / 2);
  const ValueId x2 = r.interleaved ? every_other(1) : slice_axis(b, all, 3, turned / 2, turned);
  const ValueId real = b.sub(b.mul(c, x1), b.mul(s, x2)), imaginary = b.add(b.mul(s, x1), b.mul(c, x2));
  std::vector<ValueId> parts{real, imaginary};
  if (r.interleaved) {
    Shape pairs = b.shape(real);
    pairs.dims.push_back(1);
    const ValueId joined = b.emit("Concat", {b.reshape(real, pairs), b.reshape(imaginary, pairs)}, {{"axis", std::int64_t{4}}});
    parts = {b.reshape(joined, with_dim(shape, 3, turned))};
  }
  if (turned < width) parts.push_back(slice_axis(b, all, 3, turned, width));
  return b.reshape(parts.size() == 1 ? parts[0] : b.emit("Concat", parts, {{"axis", std::int64_t{3}}}), whole);
}

ValueId rows_at(GraphBuilder& b, ValueId table, ValueId positions, std::int64_t tokens) {
  if (positions.present() && b.shape(positions).elements() > 1) return b.emit("Gather", {table, positions}, {{"axis", std::int64_t{0}}});
  const Shape t = b.shape(table);
  if (!positions.present()) return b.reshape(slice_axis(b, table, 0, 0, tokens), {1, tokens, t[1]});
  Tensor steps = bounded_tensor({DType::int64, Shape{1, tokens}});
  std::int64_t n = 0;
  for (std::int64_t& step : steps.write<std::int64_t>()) step = n++;
  const ValueId from = b.add(b.graph().add_constant("steps", std::move(steps)), cast(b, b.reshape(positions, Shape{}), DType::int64));
  return b.emit("Gather", {table, from}, {{"axis", std::int64_t{0}}});
}

namespace operator_rows {
namespace {

struct Operands {
  int positions, cosine, sine;
};
constexpr Operands of_onnx{3, 1, 2}, of_microsoft{1, 2, 3};

template <Operands o>
void infer_rotary(InferContext& c) {
  const Shape& x = c.shape(0);
  Attributes& a = c.node().attributes;
  const std::int64_t given = a.integer("num_heads", 0), turned_given = a.integer("rotary_embedding_dim", 0);
  if (x.rank() != 3 && x.rank() != 4) c.fail("input 0 is ", x, ", expected 3 or 4 axes");
  if (a.integer("is_packed_batching", 0) != 0) c.fail("is_packed_batching, samples of several lengths in one, is not supported");
  std::int64_t heads = x.rank() == 4 ? x[1] : given;
  const Shape table = c.shape(o.cosine);
  if (table.rank() < 2) c.fail("cos_cache is ", table, ", expected 2 or 3 axes");
  // ONNX Runtime's: without a number of heads, as wide as the table says.
  if (heads == 0 && o.positions == 1) heads = x[2] / std::max<std::int64_t>(1, 2 * table[table.rank() - 1]);
  if (heads < 1 || (x.rank() == 3 && x[2] % heads != 0)) c.fail("num_heads is ", heads, ", which does not divide the last axis of ", x);
  a.set("num_heads", heads);
  const std::int64_t width = x.rank() == 4 ? x[3] : x[2] / heads, turned = turned_given == 0 ? width : turned_given;
  if (turned < 2 || turned > width || turned % 2 != 0) c.fail("it turns ", turned, " of ", width, " numbers, expected an even part");
  const std::int64_t tokens = x.rank() == 4 ? x[2] : x[1];
  expect_shape(c, o.sine, table);
  if (table[table.rank() - 1] != turned / 2) c.fail("cos_cache is ", table, ", expected ", turned / 2, " in the last axis");
  if (c.has_input(o.positions)) {
    const Shape& at = c.shape(o.positions);
    expect_rank(c, o.cosine, 2);
    if (at != Shape{x[0], tokens} && at != Shape{1, tokens} && !(o.positions == 1 && at == Shape{1}))
      c.fail("position_ids is ", at, ", expected ", Shape{x[0], tokens});
    if (at.elements() == 1 && tokens > table[0]) c.fail("cos_cache is ", table, " and there are ", tokens, " tokens");
  } else if (table != Shape{x[0], tokens, turned / 2} && table != Shape{1, tokens, turned / 2}) {
    c.fail("cos_cache is ", table, ", expected ", Shape{x[0], tokens, turned / 2}, " where position_ids is left out");
  }
  infer_same(c);
}

template <Operands o>
void follow_rotary(FollowContext& c) {
  if (!c.place().present()) c.fail("its positions hold samples, and x does not");
  if (c.has_input(o.positions)) return follow_batch_first(c, {0, o.positions});
  follow_batch_first(c, {0, o.cosine, o.sine});
}

template <Operands o>
std::vector<ValueId> expand_rotary(ExpandContext& e) {
  const Attributes& a = e.attributes();
  const Shape x = e.shape(e.x());
  const auto row = [&](int table) {
    return e.has_x(o.positions) ? rows_at(e, e.x(table), e.x(o.positions), x.rank() == 4 ? x[2] : x[1]) : e.x(table);
  };
  const ValueId y = rotate(e, e.x(), row(o.cosine), row(o.sine),
                           {a.integer("num_heads"), a.integer("rotary_embedding_dim", 0), a.integer("interleaved", 0) != 0});
  const double scale = static_cast<double>(a.real("scale", 1));
  return {scale == 1 || o.positions != 1 ? y : e.mul(y, scale)};
}

}  // namespace

// (x₁, x₂) by pairs → (cos·x₁ − sin·x₂, sin·x₁ + cos·x₂), the angles by the tokens' positions
Operator rotary_embedding() {
  return {.name = "RotaryEmbedding",
          .since = {23},
          .inputs = {3, 4},
          .types = {{"T", types::floats}, {"T", types::floats}, {"T", types::floats}, {"M", types::integers_64}},
          .infer = infer_rotary<of_onnx>,
          .follow = follow_rotary<of_onnx>,
          .expand = expand_rotary<of_onnx>,
          .precision = PrecisionRole::parts,
          .operands = {
              {"X"}, {"cos_cache", OperandRole::constant}, {"sin_cache", OperandRole::constant}, {"position_ids", OperandRole::index}}};
}

Operator microsoft_rotary_embedding() {
  return {.name = "RotaryEmbedding",
          .domain = "com.microsoft",
          .since = {1},
          .inputs = {4, 4},
          .types = {{"T", types::floats}, {"M", types::integers_64}, {"T", types::floats}},
          .infer = infer_rotary<of_microsoft>,
          .follow = follow_rotary<of_microsoft>,
          .expand = expand_rotary<of_microsoft>,
          .precision = PrecisionRole::parts,
          .operands = {
              {"input"}, {"position_ids", OperandRole::index}, {"cos_cache", OperandRole::constant}, {"sin_cache", OperandRole::constant}}};
}

}  // namespace operator_rows
}  // namespace tandem
