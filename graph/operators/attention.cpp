// ONNX's Attention is composed: of what exporters of older opsets wrote out, so that match_attention (planner/fuse) finds it as it
// finds theirs, and backends without a kernel for it have one for each part.
#include <cmath>
#include <limits>

#include "graph/operators/rules.h"

namespace tandem::operator_rows {
namespace {

constexpr int query = 0, key = 1, value = 2, mask = 3, past_key = 4, past_value = 5, valid_keys = 6;
constexpr double nothing = -std::numeric_limits<double>::infinity();

// Heads apart: 4-D operands have them on axis 1, of 3-D ones `heads` share the last axis.
Shape with_heads(const InferContext& c, int input, const char* attribute) {
  const Shape& x = c.shape(input);
  if (x.rank() == 4) return x;
  if (x.rank() != 3) c.fail("input ", input, " is ", x, ", expected 3 or 4 axes");
  const std::int64_t heads = c.attributes().integer(attribute, 0);
  if (heads < 1 || x[2] % heads != 0) c.fail(attribute, " is ", heads, ", which does not divide the last axis of input ", input, ' ', x);
  return {x[0], heads, x[1], x[2] / heads};
}

void check_mask(const InferContext& c, const Shape& scores) {
  const Shape& m = c.shape(mask);
  if (m.rank() > 4) c.fail("attn_mask is ", m, ", expected at most 4 axes");
  for (int i = 0; i < m.rank(); ++i) {
    const std::int64_t full = scores[4 - m.rank() + i];
    if (i + 1 == m.rank() ? m[i] > full : m[i] != full && m[i] != 1) c.fail("attn_mask is ", m, ", which does not broadcast to ", scores);
  }
}

void infer_attention(InferContext& c) {
  Shape q = with_heads(c, query, "q_num_heads"), k = with_heads(c, key, "kv_num_heads"), v = with_heads(c, value, "kv_num_heads");
  if (c.shape(query).rank() != c.shape(key).rank() || c.shape(key).rank() != c.shape(value).rank())
    c.fail("operands are ", c.shape(query), ", ", c.shape(key), " and ", c.shape(value), ", expected as many axes in all");
  for (const int i : {key, value}) expect_dtype(c, i, c.input(query).dtype);
  if (k[0] != q[0] || k[3] != q[3] || k[1] < 1 || q[1] % k[1] != 0)
    c.fail("Q is ", q, ", K is ", k, " [samples, heads, tokens, width]: widths must agree and K's heads divide Q's");
  if (v[0] != k[0] || v[1] != k[1] || v[2] != k[2])
    c.fail("K is ", k, ", V is ", v, " [samples, heads, tokens, width]: they may differ in the width alone");
  if (q[3] < 1) c.fail("Q is ", q, ", which has no numbers");
  if (c.has_input(past_key) != c.has_input(past_value)) c.fail("past_key and past_value are given together or not at all");
  if (c.has_input(past_key)) {
    const Shape &pk = c.shape(past_key), &pv = c.shape(past_value);
    for (const int i : {past_key, past_value}) expect_rank(c, i, 4), expect_dtype(c, i, c.input(query).dtype);
    if (pk != with_dim(k, 2, pk[2]) || pv != with_dim(v, 2, pk[2]))
      c.fail("past_key is ", pk, ", past_value is ", pv, ", which do not continue ", k, " and ", v);
    if (c.has_input(valid_keys)) c.fail("nonpad_kv_seqlen is given beside past_key");
    k[2] += pk[2];
    v[2] = k[2];
  }
  if (c.has_input(valid_keys)) expect_shape(c, valid_keys, Shape{q[0]});
  const Shape scores{q[0], q[1], q[2], k[2]};
  if (c.has_input(mask)) check_mask(c, scores);
  Attributes& a = c.node().attributes;
  const auto settle = [&](const char* name, std::int64_t absent, std::int64_t least, std::int64_t most) {
    const std::int64_t n = a.integer(name, absent);
    if (n < least || n > most) c.fail(name, " is ", n, ", expected ", least, " to ", most);
    a.set(name, n);
  };
  settle("is_causal", 0, 0, 1);
  settle("qk_matmul_output_mode", 0, 0, 3);
  for (const char* name : {"left_window_size", "right_window_size"}) settle(name, -1, -1, std::numeric_limits<std::int32_t>::max());
  const float scale = a.real("scale", 1 / std::sqrt(static_cast<float>(q[3])));
  if (!(scale >= 0)) c.fail("scale is ", scale, ", expected 0 or more");
  a.set("scale", scale);
  if (!(a.real("softcap", 0) >= 0)) c.fail("softcap is ", a.real("softcap", 0), ", expected 0 or more");
  if (a.has("softmax_precision") && !is_float(static_cast<DType>(a.integer("softmax_precision"))))
    c.fail("softmax_precision is ", a.integer("softmax_precision"), ", which names no floats");
  const DType dtype = c.input(query).dtype;
  c.set_output(0, dtype, c.shape(query).rank() == 4 ? with_dim(q, 3, v[3]) : Shape{q[0], q[2], q[1] * v[3]});
  c.set_output(1, dtype, k);
  c.set_output(2, dtype, v);
  c.set_output(3, dtype, scores);
}

// Samples lie on axis 0 of all that has them.
void follow_attention(FollowContext& c) {
  BatchPlace place;
  for (const int i : {query, key, value, past_key, past_value, valid_keys})
    if (c.place(i).present() && !place.present()) place = c.place(i);
  if (!place.present()) place = {.axis = c.place(mask).axis, .outer = c.place(mask).outer};
  if (place.axis != 0 || (c.place(mask).present() && c.x(mask).rank() != 4)) c.fail("the samples do not lie along axis 0 of its operands");
  for (int i = 0; i < c.inputs(); ++i) {
    if (!c.has_input(i)) continue;
    const bool shared = i == mask && (c.x(mask).rank() != 4 || c.x(mask)[0] == 1);
    if (c.place(i).present() ? shared || c.place(i) != place : false)
      c.fail("its operands hold the samples at different places: samples would meet");
    if (!c.place(i).present() && !shared) c.repeat(i, 0, place.outer);
  }
  c.set_all(place);
}

// What the expansion works on.
struct Parts {
  ExpandContext& e;
  DType dtype;
  Shape scores;               // [B,H,S,T]
  std::int64_t past = 0;

  ValueId number(double x) const { return e.scalar(x, dtype); }
  ValueId known(const char* name, Tensor t) const { return e.graph().add_constant(concat(e.node().name, '/', name), std::move(t)); }
  // Numbers to add to the scores: 0 where true, else −∞.
  ValueId bias_of(ValueId visible) const { return e.emit("Where", {visible, number(0), number(nothing)}); }
};

ValueId heads_apart(ExpandContext& e, int input, const char* attribute) {
  const Shape x = e.shape(e.x(input));
  if (x.rank() == 4) return e.x(input);
  const std::int64_t heads = e.attributes().integer(attribute);
  return e.transpose(e.reshape(e.x(input), {x[0], x[1], heads, x[2] / heads}), {0, 2, 1, 3});
}

// Each head of [B,H',T,D] for all queries that share it.
ValueId repeat_heads(ExpandContext& e, ValueId x, std::int64_t heads) {
  const Shape s = e.shape(x);
  if (s[1] == heads) return x;
  const ValueId apart = e.reshape(x, {s[0], s[1], 1, s[2], s[3]});
  return e.reshape(e.broadcast_to(apart, {s[0], s[1], heads / s[1], s[2], s[3]}), {s[0], heads, s[2], s[3]});
}

// The mask as numbers to add, as long as there are keys: those behind its end are out of reach.
ValueId given_bias(const Parts& p) {
  ExpandContext& e = p.e;
  const Shape m = e.shape(e.x(mask));
  const bool truth = e.type(e.x(mask)).dtype == DType::boolean;
  ValueId bias = truth ? p.bias_of(e.x(mask)) : cast(e, e.x(mask), p.dtype);
  const int last = m.rank() - 1;
  if (last < 0 || m[last] == p.scores[3]) return bias;
  const ValueId beyond = e.broadcast_to(p.number(nothing), with_dim(m, last, p.scores[3] - m[last]));
  return e.emit("Concat", {bias, beyond}, {{"axis", std::int64_t{last}}});
}

// Bounds of j − i, the key's place less the query's: at least `least` (-1: none), at most `most` places from it on. With
// nonpad_kv_seqlen the last query stands on a sample's last valid key.
void add_reach(const Parts& p, std::vector<ValueId>& biases) {
  ExpandContext& e = p.e;
  const Attributes& a = e.attributes();
  const bool causal = a.integer("is_causal") != 0;
  const std::int64_t left = a.integer("left_window_size"), right = causal ? 0 : a.integer("right_window_size");
  if (left < 0 && right < 0) return;
  const std::int64_t queries = p.scores[2], keys = p.scores[3];
  if (!e.has_x(valid_keys)) {
    const auto reached = [&](std::int64_t distance) {
      distance -= p.past;
      return (right < 0 || distance <= right) && (left < 0 || distance >= -left);
    };
    Tensor t = bounded_tensor({DType::float32, Shape{queries, keys}});
    const auto values = t.write<float>();
    for (std::int64_t i = 0; i < queries; ++i)
      for (std::int64_t j = 0; j < keys; ++j)
        values[static_cast<std::size_t>(i * keys + j)] = reached(j - i) ? 0.0F : static_cast<float>(nothing);
    biases.push_back(p.known("reach", t.cast(p.dtype)));
    return;
  }
  Tensor distances = bounded_tensor({DType::int64, Shape{queries, keys}});
  const auto d = distances.write<std::int64_t>();
  for (std::int64_t i = 0; i < queries; ++i)
    for (std::int64_t j = 0; j < keys; ++j) d[static_cast<std::size_t>(i * keys + j)] = j - i;
  const ValueId offset = e.sub(e.reshape(e.x(valid_keys), {p.scores[0], 1, 1, 1}), e.scalar(static_cast<double>(queries), DType::int64));
  const ValueId relative = e.sub(p.known("distance", std::move(distances)), offset);
  if (right >= 0) biases.push_back(p.bias_of(e.emit("LessOrEqual", {relative, e.scalar(static_cast<double>(right), DType::int64)})));
  if (left >= 0) biases.push_back(p.bias_of(e.emit("GreaterOrEqual", {relative, e.scalar(static_cast<double>(-left), DType::int64)})));
}

// Keys of padding, of samples with fewer.
void add_valid_keys(const Parts& p, std::vector<ValueId>& biases) {
  ExpandContext& e = p.e;
  if (!e.has_x(valid_keys)) return;
  Tensor places = bounded_tensor({DType::int64, Shape{p.scores[3]}});
  std::int64_t n = 0;
  for (std::int64_t& place : places.write<std::int64_t>()) place = n++;
  biases.push_back(p.bias_of(e.emit("Less", {p.known("places", std::move(places)), e.reshape(e.x(valid_keys), {p.scores[0], 1, 1, 1})})));
}

std::vector<ValueId> expand_attention(ExpandContext& e) {
  const Attributes& a = e.attributes();
  const bool flat = e.shape(e.x(query)).rank() == 3;
  const ValueId q = heads_apart(e, query, "q_num_heads");
  ValueId k = heads_apart(e, key, "kv_num_heads"), v = heads_apart(e, value, "kv_num_heads");
  if (e.has_x(past_key)) {
    k = e.emit("Concat", {e.x(past_key), k}, {{"axis", std::int64_t{2}}});
    v = e.emit("Concat", {e.x(past_value), v}, {{"axis", std::int64_t{2}}});
  }
  const Shape from = e.shape(q), to = e.shape(k);
  Parts p{e, e.type(q).dtype, {from[0], from[1], from[2], to[2]}, e.has_x(past_key) ? e.shape(e.x(past_key))[2] : 0};
  std::vector<ValueId> results{{}, k, v, {}};
  const double root = std::sqrt(static_cast<double>(a.real("scale")));
  const ValueId keys = e.mul(e.transpose(repeat_heads(e, k, from[1]), {0, 1, 3, 2}), root);
  ValueId scores = e.emit("MatMul", {e.mul(q, root), keys});
  ValueId stages[4];
  stages[0] = scores;
  if (const double cap = static_cast<double>(a.real("softcap", 0)); cap > 0) scores = e.mul(e.emit("Tanh", {e.mul(scores, 1 / cap)}), cap);
  stages[1] = scores;
  std::vector<ValueId> biases;
  if (e.has_x(mask)) biases.push_back(given_bias(p));
  add_valid_keys(p, biases);
  add_reach(p, biases);
  ValueId bias;
  for (const ValueId b : biases) bias = bias.present() ? e.add(bias, b) : b;
  if (bias.present()) scores = e.add(scores, bias);
  stages[2] = scores;
  const DType wide = a.has("softmax_precision") ? static_cast<DType>(a.integer("softmax_precision")) : p.dtype;
  ValueId shares = cast(e, e.emit("Softmax", {cast(e, scores, wide)}, {{"axis", std::int64_t{3}}}), p.dtype);
  if (e.has_x(mask) || e.has_x(valid_keys) || a.integer("left_window_size") >= 0) {  // a query that reaches no key has zeros
    const ValueId most = e.emit("ReduceMax", {bias}, {{"axes", Ints{e.shape(bias).rank() - 1}}, {"keepdims", std::int64_t{1}}});
    shares = e.emit("Where", {e.emit("Equal", {most, p.number(nothing)}), p.number(0), shares});
  }
  stages[3] = shares;
  const ValueId y = e.emit("MatMul", {shares, repeat_heads(e, v, from[1])});
  results[0] = flat ? e.reshape(e.transpose(y, {0, 2, 1, 3}), {from[0], from[2], from[1] * e.shape(y)[3]}) : y;
  results[3] = stages[a.integer("qk_matmul_output_mode")];
  results.resize(e.node().outputs.size());
  return results;
}

}  // namespace

// y = softmax(softcap(scale · Q·Kᵀ) + masks) · V by heads; keys and values of before stand in front, and are given on
Operator attention() {
  return {
      .name = "Attention",
      .since = {23, 24, 25},
      .inputs = {3, 7},
      .outputs = {1, 4},
      .types = {{"T1", types::floats},
                {"T1", types::floats},
                {"T2", types::floats},
                {"U", types::all},
                {"T1", types::floats},
                {"T2", types::floats},
                {"I", types::integers_64}},
      .infer = infer_attention,
      .follow = follow_attention,
      .expand = expand_attention,
      .precision = PrecisionRole::parts,
      .operands = {
          {"Q"}, {"K"}, {"V"}, {"attn_mask", OperandRole::addend}, {"past_key"}, {"past_value"}, {"nonpad_kv_seqlen", OperandRole::index}}};
}

}  // namespace tandem::operator_rows
