// Attention as one kernel, forward and backward: what match_attention (planner/fuse) makes of products, masks and softmax. Operands
// are [B,H,S,D], queries, and [B,H',T,D], keys and values, H' dividing H: query head h reads key head h·H'/H. In memory they may lie
// in any order of these axes, so that an exporter's Transposes cost nothing.
#include <limits>

#include "graph/operators/rules.h"

namespace tandem::operator_rows {
namespace {

DType statistics_of(DType dtype) { return is_float(dtype) && size_of(dtype) == 2 ? DType::float32 : dtype; }

// The first three operands of both operators, mask, random numbers and what says how the samples are split, and the attributes in their
// one form.
void check_attention(InferContext& c, int mask_at) {
  const int random_at = mask_at + 1;
  for (int i = 0; i < 3; ++i) {
    expect_rank(c, i, 4);
    expect_dtype(c, i, c.input(0).dtype);
  }
  const Shape &q = c.shape(0), &k = c.shape(1), &v = c.shape(2);
  if (!is_float(c.input(0).dtype)) c.fail("query is ", c.input(0), ", expected floats");
  if (k[0] != q[0] || k[3] != q[3] || k[1] < 1 || q[1] % k[1] != 0)
    c.fail("query is ", q, ", key is ", k, ", expected [B,H,S,D] and [B,H',T,D] with H' dividing H");
  if (v[0] != k[0] || v[1] != k[1] || v[2] != k[2])
    c.fail("key is ", k, ", value is ", v, ", expected them to differ in the last axis alone");
  if (c.has_input(mask_at)) {
    expect_rank(c, mask_at, 4);
    if (c.input(mask_at).dtype != DType::boolean) expect_dtype(c, mask_at, statistics_of(c.input(0).dtype));
    const Shape &mask = c.shape(mask_at), scores{q[0], q[1], q[2], k[2]};
    for (int i = 0; i < 4; ++i)
      if (mask[i] != scores[i] && (i == 3 || mask[i] != 1))
        c.fail("mask is ", mask, ", which does not broadcast to ", scores, " (its last axis must be whole)");
  }
  Attributes& a = c.node().attributes;
  const float ratio = a.real("ratio", 0);
  if (!(ratio >= 0 && ratio < 1)) c.fail("ratio is ", ratio, ", expected a number in [0, 1)");
  if ((ratio > 0) != c.has_input(random_at))
    c.fail("ratio is ", ratio, ", and random numbers are ", c.has_input(random_at) ? "given" : "not given");
  if (c.has_input(random_at)) {
    expect_shape(c, random_at, Shape{4});
    expect_dtype(c, random_at, DType::int64);
  }
  a.set("scale", a.real("scale"));
  a.set("causal", std::int64_t{a.integer("causal", 0) != 0});
  const std::int64_t offset = a.integer("offset", 0);
  if (offset < 0) c.fail("offset is ", offset, ", expected 0 or more");
  a.set("offset", offset);
  const std::int64_t guarded = a.integer("guarded", 0);
  if (guarded < 0 || guarded > 2) c.fail("guarded is ", guarded, ", expected 0, 1 or 2");
  a.set("guarded", guarded);
  a.set("fill", a.real("fill", -std::numeric_limits<float>::infinity()));
  a.set("ratio", ratio);
  a.set("layer", a.integer("layer", 0));
  a.set("inner", a.integer("inner", 1));
}

// By samples, or by heads, with their key heads. Random numbers are told by the sample alone.
void place_attention(PlaceContext& c, int mask_at) {
  BatchPlace place;
  for (int i = 0; i < mask_at; ++i)
    if (c.split(i) && !place.present()) place = c.place(i);
  const bool drops = c.has_input(mask_at + 1);
  if (drops && !place.present() && c.split(mask_at + 2, 0)) place = c.place(mask_at + 2);
  if (!place.present()) c.fail("its mask is split alone");
  if (place.axis > 1) c.fail("axis ", place.axis, " of ", c.x(), " is split, which it works on as a whole");
  // Heads that share a key go where it goes: parts of the keys are parts of the heads.
  if (place.axis == 1 && c.x(0)[1] != c.x(1)[1] && (place.outer != 1 || c.x(1)[1] % c.batch() != 0))
    c.fail("its heads share ", c.x(1)[1], " keys, which have no ", c.batch(), " equal parts");
  const bool whole_samples = c.has_input(mask_at + 2) && !c.split(mask_at + 2);
  if (drops && (place.outer != 1 || (place.axis == 0 && (c.attributes().integer("inner") == 0 || whole_samples))))
    c.fail("it drops by numbers that are counted by samples and by heads");
  for (int i = 0; i <= mask_at; ++i) {
    if (!c.has_input(i)) continue;
    const bool repeated = i == mask_at && c.x(i)[place.axis] == 1;
    if (repeated ? c.split(i) : c.split(i) && c.place(i) != place) c.fail("its operands are not split alike");
    if (!repeated && !c.split(i)) c.need(i, place);
  }
  c.set_all(place);
}

double products(const Graph& graph, const Node& n, double count) {
  const Shape &q = graph[n.inputs[0]].type.shape, &k = graph[n.inputs[1]].type.shape, &v = graph[n.inputs[2]].type.shape;
  const double all =
      count * static_cast<double>(q.elements() / std::max<std::int64_t>(1, q[3])) * static_cast<double>(k[2] * (k[3] + v[3]));
  return n.attributes.integer("causal", 0) != 0 ? all / 2 : all;
}

}  // namespace

// s = scale · q·kᵀ; + mask where it is numbers, `fill` where it is false; key j is out of reach of query i where causal and j > i + offset.
// y = dropped(softmax(s)) · v, log_sum = log Σ eˢ. A row that reaches no key,
// which is NaN, gives zeros where guarded is 1; where it is 2, any row does whose probabilities are NaN.
// correction · e^(s − log_sum) are the probabilities: in a row that a number like −10⁹ hides whole, log_sum has rounded the
// count of its keys away. It multiplies dy, by which all gradients are linear.
Operator attention_training() {
  return {.name = "AttentionTraining",
          .domain = "tandem",
          .since = {1},
          .inputs = {3, 6},
          .outputs = {1, 3},
          .infer =
              [](InferContext& c) {
                check_attention(c, 3);
                const Shape& q = c.shape(0);
                c.set_output(0, c.input(0).dtype, Shape{q[0], q[1], q[2], c.shape(2)[3]});
                for (const int row : {1, 2}) c.set_output(row, statistics_of(c.input(0).dtype), Shape{q[0], q[1], q[2]});
              },
          .place = [](PlaceContext& c) { place_attention(c, 3); },
          .differentiate =
              [](GradientContext& g) {
                if (g.wants(3)) fail("AttentionTraining '", g.node().name, "': its mask has a gradient, which it does not give");
                ValueId dy = g.dy();
                if (g.node().outputs.size() > 2) {
                  const Shape rows = g.shape(g.y(2));
                  ValueId correction = g.reshape(g.y(2), {rows[0], rows[1], rows[2], 1});
                  const DType dtype = g.type(dy).dtype;
                  if (dtype != g.type(correction).dtype)
                    correction = g.emit("Cast", {correction}, {{"to", static_cast<std::int64_t>(dtype)}});
                  dy = g.mul(dy, correction);
                }
                std::vector<ValueId> inputs{g.x(0), g.x(1), g.x(2), g.y(0), g.y(1), dy};
                for (int i = 3; i < g.inputs(); ++i) inputs.push_back(g.x(i));
                const std::vector<ValueId> d = g.emit("AttentionBackward", std::move(inputs), g.attributes(), 3);
                for (int i = 0; i < 3; ++i) g.set_dx(i, d[at(i)]);
              },
          .flops = [](const Graph& graph, const Node& n) { return products(graph, n, 2); },
          .precision = PrecisionRole::narrow,
          .operands = {{"query"},
                       {"key"},
                       {"value"},
                       {"mask", OperandRole::addend, true},
                       {"random", OperandRole::index},
                       {"samples", OperandRole::index}}};
}

// With p = e^(s − log_sum), p' dropped: dv = p'ᵀ·dy, ds = p · (dropped(dy·vᵀ) − Σ dy·y) · scale, dq = ds·k, dk = dsᵀ·q
Operator attention_backward() {
  return {.name = "AttentionBackward",
          .domain = "tandem",
          .since = {1},
          .inputs = {6, 9},
          .outputs = {3, 3},
          .infer =
              [](InferContext& c) {
                check_attention(c, 6);
                const Shape& q = c.shape(0);
                const Shape y{q[0], q[1], q[2], c.shape(2)[3]};
                for (const int i : {3, 5}) {
                  expect_shape(c, i, y);
                  expect_dtype(c, i, c.input(0).dtype);
                }
                expect_shape(c, 4, Shape{q[0], q[1], q[2]});
                expect_dtype(c, 4, statistics_of(c.input(0).dtype));
                for (int i = 0; i < 3; ++i) c.set_output(i, c.input(i));
              },
          .place = [](PlaceContext& c) { place_attention(c, 6); },
          .flops = [](const Graph& graph, const Node& n) { return products(graph, n, 5); },
          .operands = {{"query"},
                       {"key"},
                       {"value"},
                       {"y"},
                       {"log_sum"},
                       {"dy"},
                       {"mask", OperandRole::addend, true},
                       {"random", OperandRole::index},
                       {"samples", OperandRole::index}}};
}

}  // namespace tandem::operator_rows
