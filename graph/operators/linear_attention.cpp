// Attention without a softmax, as a state that each token changes, and the short convolution that stands before it. The state is taken from
// chunk to chunk; within one, all tokens are computed at once: with decays e^G, G the sum of their logarithms from the chunk's beginning on,
//   u = (I + A)⁻¹ β (v − (k e^G)ᵀ S), A = β · lower(k e^G (k e^−G)ᵀ), without its diagonal (linear and gated rules: u = v)
//   o = scale · (lower(q e^G (k e^−G)ᵀ) u + (q e^G)ᵀ S), S ← e^(G at its end) S + (k e^(G at its end − G))ᵀ u
// (Yang et al. 2024). Differences of G are taken before the exponential, which then is never above 1 where decays are.
#include <cmath>

#include "graph/operators/batch_first.h"
#include "graph/operators/rules.h"

namespace tandem::operator_rows {
namespace {

constexpr int query = 0, key = 1, value = 2, past = 3, decay = 4, beta = 5;

struct Sizes {
  std::int64_t samples, tokens, heads, groups, keys, values;  // heads of queries, of keys
};
Sizes sizes_of(const Attributes& a, const Shape& q, const Shape& v) {
  const std::int64_t heads = a.integer("q_num_heads"), groups = a.integer("kv_num_heads");
  return {q[0], q[1], heads, groups, q[2] / heads, v[2] / groups};
}
std::string rule_of(const Attributes& a) { return a.text("update_rule", "gated_delta"); }
bool is_gated(const std::string& rule) { return rule.starts_with("gated"); }
bool is_delta(const std::string& rule) { return rule.ends_with("delta"); }

void infer_linear_attention(InferContext& c) {
  const Attributes& a = c.attributes();
  const std::string rule = rule_of(a);
  if (rule != "linear" && rule != "gated" && rule != "delta" && rule != "gated_delta") c.fail("update_rule is '", rule, "', expected linear, gated, delta or gated_delta");
  const std::int64_t heads = a.integer("q_num_heads"), groups = a.integer("kv_num_heads");
  if (groups < 1 || heads < 1 || heads % groups != 0) c.fail("q_num_heads is ", heads, ", kv_num_heads ", groups, ": expected a multiple of it");
  for (const int i : {query, key, value}) expect_rank(c, i, 3);
  if (c.shape(query)[2] % heads != 0 || c.shape(value)[2] % groups != 0) c.fail("heads do not divide ", c.shape(query), " and ", c.shape(value));
  const Sizes s = sizes_of(a, c.shape(query), c.shape(value));
  constexpr std::int64_t longest = 1 << 15;  // each chunk of tokens is nodes of its own
  if (s.tokens < 1 || s.tokens > longest || s.keys < 1) c.fail("query is ", c.shape(query), ": expected 1 to ", longest, " tokens with keys");
  expect_shape(c, key, {s.samples, s.tokens, s.groups * s.keys});
  expect_shape(c, value, {s.samples, s.tokens, s.groups * s.values});
  const Shape state{s.samples, s.groups, s.keys, s.values};
  if (c.has_input(past)) expect_shape(c, past, state);
  if (is_gated(rule)) {
    if (!c.has_input(decay)) c.fail("update_rule ", rule, " wants a decay");
    if (c.shape(decay) != Shape{s.samples, s.tokens, s.groups * s.keys} && c.shape(decay) != Shape{s.samples, s.tokens, s.groups})
      c.fail("decay is ", c.shape(decay), ", expected one number for each head or each of its keys");
  }
  if (is_delta(rule)) {
    if (!c.has_input(beta)) c.fail("update_rule ", rule, " wants a beta");
    if (c.shape(beta) != Shape{s.samples, s.tokens, s.groups} && c.shape(beta) != Shape{s.samples, s.tokens, 1}) c.fail("beta is ", c.shape(beta), ", expected one number for each token, or each of its heads");
  }
  c.set_output(0, c.input(query).dtype, {s.samples, s.tokens, s.heads * s.values});
  c.set_output(1, c.has_input(past) ? c.input(past).dtype : c.input(query).dtype, state);
}

// 1 where the column's token is not behind the row's, or (strict) before it.
ValueId lower(ExpandContext& e, std::int64_t n, bool strict, DType dtype) {
  Tensor t = bounded_tensor({DType::float32, Shape{n, n}});
  const auto y = t.write<float>();
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) y[static_cast<std::size_t>(i * n + j)] = j < i || (j == i && !strict) ? 1 : 0;
  return e.graph().add_constant(e.node().name + (strict ? "/before" : "/until"), t.cast(dtype));
}

std::vector<ValueId> expand_linear_attention(ExpandContext& e) {
  const Attributes& a = e.attributes();
  const std::string rule = rule_of(a);
  const Sizes s = sizes_of(a, e.shape(e.x(query)), e.shape(e.x(value)));
  const DType narrow = e.type(e.x(query)).dtype, wide = narrow == DType::float64 ? narrow : DType::float32;
  const bool by_keys = is_gated(rule) && e.shape(e.x(decay))[2] == s.groups * s.keys && s.keys > 1;
  // Inverting a triangle multiplies what rounds, so that its chunks are short; a decay for each key is a number for each pair of tokens.
  const std::int64_t longest = is_delta(rule) ? 8 : by_keys ? 16 : 64;
  const std::int64_t chunk = std::min(longest, std::max<std::int64_t>(1, s.tokens)), chunks = (s.tokens + chunk - 1) / chunk, padded = chunk * chunks;
  // [samples, groups, chunks, chunk, width], tokens of zeros behind: they change nothing.
  const auto apart = [&](int input, std::int64_t heads) {
    ValueId x = cast(e, e.x(input), wide);
    const Shape from = e.shape(x);
    if (padded > s.tokens) x = e.emit("Concat", {x, e.broadcast_to(e.scalar(0, wide), with_dim(from, 1, padded - s.tokens))}, {{"axis", std::int64_t{1}}});
    x = e.transpose(e.reshape(x, {s.samples, padded, heads, from[2] / heads}), {0, 2, 1, 3});
    return e.reshape(x, {s.samples, heads, chunks, chunk, from[2] / heads});
  };
  // Each group's keys for all the heads that share them.
  const std::int64_t shared = s.heads / s.groups;
  const auto repeated = [&](ValueId x) {
    if (shared == 1) return x;
    const Shape from = e.shape(x);
    const Shape lone{from[0], from[1], 1, from[2], from[3], from[4]};
    return e.reshape(e.broadcast_to(e.reshape(x, lone), with_dim(lone, 2, shared)), with_dim(from, 1, s.heads));
  };
  const auto product = [&](ValueId x, ValueId y, bool tx, bool ty) { return e.emit("MatMul", {x, y}, {{"transA", std::int64_t{tx}}, {"transB", std::int64_t{ty}}}); };
  const ValueId q = apart(query, s.heads), k = apart(key, s.groups), v = apart(value, s.groups);
  const ValueId until = lower(e, chunk, false, wide), before = lower(e, chunk, true, wide);
  ValueId g, pairs;  // sums of decays; e^(G_i − G_j) [.., chunk, chunk] or [.., chunk, chunk, keys]
  if (is_gated(rule)) {
    g = product(until, apart(decay, s.groups), false, false);
    Shape rows = e.shape(g), columns = rows;
    rows.dims.insert(rows.dims.begin() + 4, 1);
    columns.dims.insert(columns.dims.begin() + 3, 1);
    ValueId difference = e.sub(e.reshape(g, rows), e.reshape(g, columns));
    const ValueId mask = e.reshape(until, {chunk, chunk, 1});
    difference = e.mul(difference, mask);  // what lies behind grows: it is left out before the exponential
    pairs = e.emit("Exp", {difference});
  }
  // Σ x_i y_j by keys, with the decay between them.
  const auto scores = [&](ValueId x, ValueId y, ValueId decays) {
    if (!by_keys) {
      const ValueId all = product(x, y, false, true);
      if (!decays.present()) return all;
      const Shape d = e.shape(decays);
      return e.mul(all, e.reshape(decays, {d[0], d[1], d[2], d[3], d[4]}));
    }
    Shape rows = e.shape(x), columns = e.shape(y);
    rows.dims.insert(rows.dims.begin() + 4, 1);
    columns.dims.insert(columns.dims.begin() + 3, 1);
    return e.reduce_sum(e.mul(e.mul(e.reshape(x, rows), e.reshape(y, columns)), decays), {5}, false);
  };
  const auto of_heads = [&](ValueId x) {  // the same, of what has one axis more
    if (!x.present() || shared == 1) return x;
    Shape from = e.shape(x);
    const std::int64_t rest = tandem::product(from, 2, from.rank());
    const ValueId lone = e.reshape(x, {from[0], from[1], 1, rest});
    from[1] = s.heads;
    return e.reshape(e.broadcast_to(lone, {from[0], s.groups, shared, rest}), from);
  };
  const ValueId growth = g.present() ? e.emit("Exp", {g}) : ValueId{};
  const auto grown = [&](ValueId x, ValueId by) { return by.present() ? e.mul(x, by) : x; };
  const ValueId own = e.mul(scores(q, repeated(k), of_heads(pairs)), until);  // of queries
  const ValueId asked = grown(q, growth.present() ? repeated(growth) : growth), kept = grown(k, growth);
  ValueId last, fading = k;  // e^(G at the end), and k e^(G at the end − G)
  if (g.present()) {
    const ValueId end = slice_axis(e, g, 3, chunk - 1, chunk);
    last = e.emit("Exp", {end});
    fading = e.mul(k, e.emit("Exp", {e.sub(end, g)}));
  }
  ValueId inverse, rates;
  if (is_delta(rule)) {
    rates = apart(beta, e.shape(e.x(beta))[2] == 1 ? 1 : s.groups);
    const ValueId lowered = e.neg(e.mul(e.mul(scores(k, k, pairs), before), rates));
    Tensor unit = bounded_tensor({DType::float32, Shape{chunk, chunk}});
    for (std::int64_t i = 0; i < chunk; ++i) unit.write<float>()[static_cast<std::size_t>(i * chunk + i)] = 1;
    const ValueId one = e.graph().add_constant(e.node().name + "/one", unit.cast(wide));
    inverse = e.add(lowered, one);  // Σ (−A)ⁿ, n up to 1, 3, 7
    ValueId power = lowered;
    for (std::int64_t n = 2; n < chunk; n *= 2) {
      power = product(power, power, false, false);
      inverse = product(inverse, e.add(power, one), false, false);
    }
  }
  const Shape state_shape{s.samples, s.groups, s.keys, s.values};
  ValueId state = e.has_x(past) ? cast(e, e.x(past), wide) : e.broadcast_to(e.scalar(0, wide), state_shape);
  std::vector<ValueId> outputs;
  for (std::int64_t n = 0; n < chunks; ++n) {
    const auto at_chunk = [&](ValueId x) {
      const Shape from = e.shape(x);
      return e.reshape(slice_axis(e, x, 2, n, n + 1), {from[0], from[1], from[3], from[4]});
    };
    const auto heads_of = [&](ValueId x) {
      if (shared == 1) return x;
      const Shape from = e.shape(x);
      return e.reshape(e.broadcast_to(e.reshape(x, {from[0], from[1], 1, from[2], from[3]}), {from[0], from[1], shared, from[2], from[3]}), with_dim(from, 1, s.heads));
    };
    ValueId u = at_chunk(v);
    if (inverse.present()) u = product(at_chunk(inverse), e.mul(e.sub(u, product(at_chunk(kept), state, false, false)), at_chunk(rates)), false, false);
    outputs.push_back(e.add(product(at_chunk(own), heads_of(u), false, false), product(at_chunk(asked), heads_of(state), false, false)));
    ValueId faded = state;
    if (last.present()) faded = e.mul(state, e.transpose(at_chunk(last), {0, 1, 3, 2}));
    state = e.add(faded, product(at_chunk(fading), u, true, false));
  }
  ValueId y = outputs.size() == 1 ? outputs[0] : e.emit("Concat", outputs, {{"axis", std::int64_t{2}}});
  const double given = static_cast<double>(a.real("scale", 0));
  y = e.mul(slice_axis(e, y, 2, 0, s.tokens), given != 0 ? given : 1 / std::sqrt(static_cast<double>(s.keys)));
  y = e.reshape(e.transpose(y, {0, 2, 1, 3}), {s.samples, s.tokens, s.heads * s.values});
  std::vector<ValueId> results{cast(e, y, narrow), cast(e, state, e.has_x(past) ? e.type(e.x(past)).dtype : narrow)};
  results.resize(e.node().outputs.size());
  return results;
}

void infer_causal_conv(InferContext& c) {
  const Shape &x = c.shape(0), &w = c.shape(1);
  expect_rank(c, 0, 3);
  if (w.rank() != 3 || w[0] != x[1] || w[1] != 1 || w[2] < 1) c.fail("weight is ", w, ", expected [", x[1], ",1,k]");
  const std::string activation = c.attributes().text("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish") c.fail("activation is '", activation, "', expected none, silu or swish");
  if (c.has_input(2)) expect_shape(c, 2, Shape{x[1]});
  const Shape state = with_dim(x, 2, w[2] - 1);
  if (c.has_input(3)) expect_shape(c, 3, state);
  infer_same(c);
  c.set_output(1, c.input(0).dtype, state);
}

std::vector<ValueId> expand_causal_conv(ExpandContext& e) {
  const TensorType x = e.type(e.x());
  const std::int64_t before = e.shape(e.x(1))[2] - 1, length = x.shape[2];
  ValueId all = e.x();
  if (before > 0) {
    const ValueId first = e.has_x(3) ? e.x(3) : e.broadcast_to(e.scalar(0, x.dtype), with_dim(x.shape, 2, before));
    all = e.emit("Concat", {first, e.x()}, {{"axis", std::int64_t{2}}});
  }
  std::vector<ValueId> operands{all, e.x(1)};
  if (e.has_x(2)) operands.push_back(e.x(2));
  ValueId y = e.emit("Conv", std::move(operands), {{"group", x.shape[1]}});
  if (e.attributes().text("activation", "none") != "none") y = e.emit("Swish", {y});
  std::vector<ValueId> results{y};
  if (e.node().outputs.size() > 1) results.push_back(before > 0 ? slice_axis(e, all, 2, length, length + before) : e.broadcast_to(e.scalar(0, x.dtype), with_dim(x.shape, 2, 0)));
  return results;
}

}  // namespace

// Conv of each channel by itself over what came before: past_state, or zeros
Operator causal_conv_with_state() {
  return {.name = "CausalConvWithState",
          .since = {27}, .inputs = {2, 4}, .outputs = {1, 2}, .types = {{"T", types::floats}},
          .infer = infer_causal_conv,
          .follow = [](FollowContext& c) { follow_batch_first(c, {0, 3}); },
          .expand = expand_causal_conv,
          .precision = PrecisionRole::parts,
          .operands = {{"input"}, {"weight", OperandRole::filter}, {"bias", OperandRole::bias}, {"past_state"}}};
}

Operator linear_attention() {
  return {.name = "LinearAttention",
          .since = {27}, .inputs = {3, 6}, .outputs = {1, 2},
          .types = {{"T", types::floats}, {"T", types::floats}, {"T", types::floats}, {"S", types::floats}, {"T", types::floats}, {"T", types::floats}},
          .infer = infer_linear_attention,
          .follow = [](FollowContext& c) { follow_batch_first(c, {query, key, value, past, decay, beta}); },
          .expand = expand_linear_attention,
          .precision = PrecisionRole::parts,
          .operands = {{"query"}, {"key"}, {"value"}, {"past_state"}, {"decay"}, {"beta"}}};
}

}  // namespace tandem::operator_rows
