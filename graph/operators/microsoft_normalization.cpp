// Normalizations that ONNX Runtime's optimizer fuses with the sums before them, and the beginning of BERT: composed of ONNX's own.
#include "graph/operators/batch_first.h"
#include "graph/operators/rules.h"

namespace tandem::operator_rows {
namespace {

constexpr std::string_view microsoft = "com.microsoft";

int last_axis(const Shape& x) { return x.rank() - 1; }
// What ONNX Runtime gives statistics in.
DType wide(DType x) { return x == DType::float64 ? x : DType::float32; }
Shape without_features(const Shape& x) { return with_dim(x, last_axis(x), 1); }

void expect_features(const InferContext& c, std::initializer_list<int> inputs, std::int64_t features) {
  for (const int i : inputs)
    if (c.has_input(i)) expect_shape(c, i, Shape{features});
}

// Inputs: x, skip, scale and, of which there may be one or two, bias of the normalization and bias of the sum.
void infer_skip(InferContext& c) {
  const Shape& x = c.shape(0);
  if (x.rank() < 2) c.fail("input 0 is ", x, ", expected tokens of features");
  if (broadcast_inputs(c, 0, 2) != x) c.fail("skip ", c.shape(1), " does not broadcast to ", x);
  expect_features(c, {2, 3, 4}, x[last_axis(x)]);
  infer_same(c);
  for (const int i : {1, 2}) c.set_output(i, wide(c.input(0).dtype), without_features(x));
  c.set_output(3, c.input(0));
}

void follow_skip(FollowContext& c) {
  if (c.place(0).axis == last_axis(c.x())) c.fail("it normalises axis ", c.place().axis, ", which holds the samples");
  BatchPlace place = follow_operands(c, 0, 2, c.x());
  for (int i = 2; i < c.inputs(); ++i)
    if (c.place(i).present()) c.fail("its input ", i, " holds samples, too");
  c.set_all(place);
}

// y = normalize(x + skip + bias of the sum) · scale + bias; mean, 1/deviation, and that sum
template <bool simplified>
std::vector<ValueId> expand_skip(ExpandContext& e) {
  ValueId sum = e.add(e.x(0), e.x(1));
  constexpr int bias_of_sum = simplified ? 3 : 4;
  if (e.has_x(bias_of_sum)) sum = e.add(sum, e.x(bias_of_sum));
  const Attributes a{{"axis", std::int64_t{-1}}, {"epsilon", e.attributes().real("epsilon", 1e-12F)}};
  std::vector<ValueId> results(e.node().outputs.size());
  if (simplified) {
    const bool deviation = results.size() > 2 && e.node().outputs[2].present();
    const std::vector<ValueId> y = e.emit("SimplifiedLayerNormalization", {sum, e.x(2)}, a, deviation ? 2 : 1);
    results[0] = y[0];
    if (deviation) results[2] = y[1];
    if (results.size() > 1 && e.node().outputs[1].present())
      results[1] = e.broadcast_to(e.scalar(0, e.type(sum).dtype), without_features(e.shape(sum)));
  } else {
    std::vector<ValueId> operands{sum, e.x(2)};
    if (e.has_x(3)) operands.push_back(e.x(3));
    const std::vector<ValueId> y = e.emit("LayerNormalization", std::move(operands), a, results.size() > 1 ? 3 : 1);
    for (std::size_t i = 0; i < std::min(y.size(), results.size()); ++i) results[i] = y[i];
  }
  for (std::size_t i = 1; i < std::min<std::size_t>(3, results.size()); ++i)
    if (results[i].present()) results[i] = cast(e, results[i], wide(e.type(sum).dtype));
  if (results.size() > 3) results[3] = sum;
  return results;
}

void infer_simplified(InferContext& c) {
  const Shape& x = c.shape(0);
  const int axis = axis_of(c, c.attributes().integer("axis", -1), x.rank());
  if (broadcast_inputs(c, 0, 2) != x) c.fail("input 1 is ", c.input(1), ", which does not broadcast to x ", x);
  infer_same(c);
  Shape statistics = x;
  for (int i = axis; i < x.rank(); ++i) statistics[i] = 1;
  c.set_output(1, c.input(0).dtype, statistics);
}

std::vector<ValueId> expand_simplified(ExpandContext& e) {
  const Attributes a{{"axis", e.attributes().integer("axis", -1)}, {"epsilon", e.attributes().real("epsilon", 1e-5F)}};
  std::vector<ValueId> results{e.emit("RMSNormalization", {e.x(0), e.x(1)}, a)};
  if (e.node().outputs.size() > 1) {
    const int rank = e.shape(e.x()).rank();
    Ints axes = all_axes(rank);
    axes.erase(axes.begin(), axes.begin() + normalize_axis(a.integer("axis"), rank, "axis"));
    const ValueId square = e.emit("ReduceMean", {e.mul(e.x(), e.x())}, {{"axes", axes}, {"keepdims", std::int64_t{1}}});
    results.push_back(e.emit("Reciprocal", {e.emit("Sqrt", {e.add(square, e.attributes().real("epsilon", 1e-5F))})}));
  }
  return results;
}

// Written under ONNX's name, too.
Operator simplified_row(std::string_view domain) {
  return {.name = "SimplifiedLayerNormalization",
          .domain = domain,
          .since = {1},
          .inputs = {2, 2},
          .outputs = {1, 2},
          .types = {{"T", types::floats}, {"V", types::floats}},
          .infer = infer_simplified,
          .follow = [](FollowContext& c) { find_operator("RMSNormalization")->follow(c); },
          .expand = expand_simplified,
          .precision = PrecisionRole::parts,
          .operands = {{"X"}, {"scale", OperandRole::scale}}};
}

constexpr int ids = 0, segments = 1, words = 2, places = 3, kinds = 4, scale = 5, bias = 6, mask = 7, positions = 8;

void infer_embed(InferContext& c) {
  const Shape& x = c.shape(ids);
  expect_rank(c, ids, 2);
  const Shape table = c.shape(words);
  for (const int i : {words, places}) expect_rank(c, i, 2);
  for (const int i : {places, kinds})
    if (c.has_input(i) && (c.shape(i).rank() != 2 || c.shape(i)[1] != table[1]))
      c.fail("input ", i, " is ", c.shape(i), ", expected rows of ", table[1]);
  if (c.has_input(segments) != c.has_input(kinds)) c.fail("segment_ids and segment_embedding are given together or not at all");
  for (const int i : {segments, mask})
    if (c.has_input(i)) expect_shape(c, i, x);
  if (c.has_input(positions) && c.shape(positions) != x && c.shape(positions) != Shape{1, x[1]})
    c.fail("position_ids is ", c.shape(positions), ", expected ", x);
  if (!c.has_input(positions) && x[1] > c.shape(places)[0]) c.fail("there are ", x[1], " tokens and ", c.shape(places)[0], " positions");
  expect_features(c, {scale, bias}, table[1]);
  const TensorType y{c.input(words).dtype, {x[0], x[1], table[1]}};
  c.set_output(0, y);
  c.set_output(1, DType::int32, Shape{x[0]});
  c.set_output(2, y);
}

std::vector<ValueId> expand_embed(ExpandContext& e) {
  const auto rows = [&](int table, int at) { return e.emit("Gather", {e.x(table), e.x(at)}, {{"axis", std::int64_t{0}}}); };
  const Shape x = e.shape(e.x(ids));
  ValueId sum = rows(words, ids);
  sum = e.add(sum, e.has_x(positions) ? rows(places, positions) : slice_axis(e, e.x(places), 0, 0, x[1]));
  if (e.has_x(segments)) sum = e.add(sum, rows(kinds, segments));
  std::vector<ValueId> results{e.emit("LayerNormalization", {sum, e.x(scale), e.x(bias)},
                                      {{"axis", std::int64_t{-1}}, {"epsilon", e.attributes().real("epsilon", 1e-12F)}})};
  if (e.has_x(mask))
    results.push_back(e.emit("ReduceSum", {e.x(mask)}, {{"axes", Ints{1}}, {"keepdims", std::int64_t{0}}}));
  else
    results.push_back(e.graph().add_constant(e.node().name + "/no_mask", bounded_tensor({DType::int32, Shape{x[0]}})));
  results.push_back(sum);
  results.resize(e.node().outputs.size());
  return results;
}

Operator skip_row(std::string_view name, Arity inputs, std::vector<ValueId> (*expand)(ExpandContext&), std::vector<OperandRow> operands) {
  return {.name = name, .domain = microsoft, .since = {1}, .inputs = inputs, .outputs = {1, 4}, .types = {{"T", types::floats}},
          .infer = infer_skip, .follow = follow_skip, .expand = expand, .precision = PrecisionRole::parts, .operands = std::move(operands)};
}

}  // namespace

Operator simplified_layer_normalization() { return simplified_row(""); }
Operator microsoft_simplified_layer_normalization() { return simplified_row(microsoft); }

Operator microsoft_skip_layer_normalization() {
  return skip_row("SkipLayerNormalization", {3, 5}, expand_skip<false>,
                  {{"input"}, {"skip", OperandRole::addend}, {"gamma", OperandRole::scale}, {"beta", OperandRole::bias}, {"bias", OperandRole::bias}});
}
Operator microsoft_skip_simplified_layer_normalization() {
  return skip_row("SkipSimplifiedLayerNormalization", {3, 4}, expand_skip<true>,
                  {{"input"}, {"skip", OperandRole::addend}, {"gamma", OperandRole::scale}, {"bias", OperandRole::bias}});
}

// LayerNormalization of the sum of rows of tables: of words, positions (in order where none are given) and segments; also gives how
// many tokens of each sample the mask keeps, and the sum
Operator microsoft_embed_layer_normalization() {
  return {.name = "EmbedLayerNormalization",
          .domain = microsoft,
          .since = {1},
          .inputs = {1, 9},
          .outputs = {1, 3},
          .types = {{"T1", {DType::int32}},
                    {"T1", {DType::int32}},
                    {"T", types::floats},
                    {"T", types::floats},
                    {"T", types::floats},
                    {"T", types::floats},
                    {"T", types::floats},
                    {"T1", {DType::int32}}},
          .infer = infer_embed,
          .follow =
              [](FollowContext& c) {
                follow_batch_first(c, {ids, segments, mask, positions});
              },
          .expand = expand_embed,
          .precision = PrecisionRole::parts,
          .operands = {{"input_ids", OperandRole::index},
                       {"segment_ids", OperandRole::index},
                       {"word_embedding", OperandRole::embedding},
                       {"position_embedding", OperandRole::embedding},
                       {"segment_embedding", OperandRole::embedding},
                       {"gamma", OperandRole::scale},
                       {"beta", OperandRole::bias},
                       {"mask", OperandRole::index},
                       {"position_ids", OperandRole::index}}};
}

}  // namespace tandem::operator_rows
