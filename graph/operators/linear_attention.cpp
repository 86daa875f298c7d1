// Attention without a softmax, as a state that each token changes, and the short convolution that stands before it. The state is taken from
// chunk to chunk; within one, all tokens are computed at once: with decays e^G, G the sum of their logarithms from the chunk's beginning
// on,
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
  if (rule != "linear" && rule != "gated" && rule != "delta" && rule != "gated_delta")
    c.fail("update_rule is '", rule, "', expected linear, gated, delta or gated_delta");
  const std::int64_t heads = a.integer("q_num_heads"), groups = a.integer("kv_num_heads");
  if (groups < 1 || heads < 1 || heads % groups != 0)
    c.fail("q_num_heads is ", heads, ", kv_num_heads ", groups, ": expected a multiple of it");
  for (const int i : {query, key, value}) expect_rank(c, i, 3);
  if (c.shape(query)[2] % heads != 0 || c.shape(value)[2] % groups != 0)
    c.fail("heads do not divide ", c.shape(query), " and ", c.shape(value));
  const Sizes s = sizes_of(a, c.shape(query), c.shape(value));
  constexpr std::int64_t longest = 1 << 15;  // each chunk of tokens is nodes of its own
  if (s.tokens < 1 || s.tokens > longest || s.keys < 1)
    c.fail("query is ", c.shape(query), ": expected 1 to ", longest, " tokens with keys");
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
    if (c.shape(beta) != Shape{s.samples, s.tokens, s.groups} && c.shape(beta) != Shape{s.samples, s.tokens, 1})
      c.fail("beta is ", c.shape(beta), ", expected one number for each token, or each of its heads");
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

// Computes what all chunks need at once, then goes from chunk to chunk with the state.
class InChunks {
 public:
  explicit InChunks(ExpandContext& e)
      : e_(e),
        rule_(rule_of(e.attributes())),
        s_(sizes_of(e.attributes(), e.shape(e.x(query)), e.shape(e.x(value)))),
        narrow_(e.type(e.x(query)).dtype),
        wide_(narrow_ == DType::float64 ? narrow_ : DType::float32),
        by_keys_(is_gated(rule_) && e.shape(e.x(decay))[2] == s_.groups * s_.keys && s_.keys > 1) {
    // Inverting a triangle multiplies what rounds, so that its chunks are short; a decay for each key is a number for each pair of tokens.
    const std::int64_t longest = is_delta(rule_) ? 8 : by_keys_ ? 16 : 64;
    chunk_ = std::min(longest, std::max<std::int64_t>(1, s_.tokens));
    chunks_ = (s_.tokens + chunk_ - 1) / chunk_;
  }

  std::vector<ValueId> run() {
    prepare();
    const Shape of_state{s_.samples, s_.groups, s_.keys, s_.values};
    ValueId state = e_.has_x(past) ? cast(e_, e_.x(past), wide_) : e_.broadcast_to(e_.scalar(0, wide_), of_state);
    std::vector<ValueId> outputs;
    for (std::int64_t n = 0; n < chunks_; ++n) outputs.push_back(output_of(n, state));
    ValueId y = outputs.size() == 1 ? outputs[0] : e_.emit("Concat", outputs, {{"axis", std::int64_t{2}}});
    const double given = static_cast<double>(e_.attributes().real("scale", 0));
    y = e_.mul(slice_axis(e_, y, 2, 0, s_.tokens), given != 0 ? given : 1 / std::sqrt(static_cast<double>(s_.keys)));
    y = e_.reshape(e_.transpose(y, {0, 2, 1, 3}), {s_.samples, s_.tokens, s_.heads * s_.values});
    std::vector<ValueId> results{cast(e_, y, narrow_), cast(e_, state, e_.has_x(past) ? e_.type(e_.x(past)).dtype : narrow_)};
    results.resize(e_.node().outputs.size());
    return results;
  }

 private:
  ValueId product(ValueId x, ValueId y, bool tx = false, bool ty = false) {
    return e_.emit("MatMul", {x, y}, {{"transA", std::int64_t{tx}}, {"transB", std::int64_t{ty}}});
  }

  // [samples, groups, chunks, chunk, width], tokens of zeros behind: they change nothing.
  ValueId apart(int input, std::int64_t heads) {
    const std::int64_t padded = chunk_ * chunks_;
    ValueId x = cast(e_, e_.x(input), wide_);
    const Shape from = e_.shape(x);
    if (padded > s_.tokens) {
      const ValueId zeros = e_.broadcast_to(e_.scalar(0, wide_), with_dim(from, 1, padded - s_.tokens));
      x = e_.emit("Concat", {x, zeros}, {{"axis", std::int64_t{1}}});
    }
    x = e_.transpose(e_.reshape(x, {s_.samples, padded, heads, from[2] / heads}), {0, 2, 1, 3});
    return e_.reshape(x, {s_.samples, heads, chunks_, chunk_, from[2] / heads});
  }

  // What a group has, for each of the heads that share it.
  ValueId for_heads(ValueId x) {
    const std::int64_t shared = s_.heads / s_.groups;
    if (!x.present() || shared == 1) return x;
    Shape from = e_.shape(x);
    const std::int64_t rest = tandem::product(from, 2, from.rank());
    const ValueId lone = e_.reshape(x, {from[0], from[1], 1, rest});
    from[1] = s_.heads;
    return e_.reshape(e_.broadcast_to(lone, {from[0], s_.groups, shared, rest}), from);
  }

  ValueId of_chunk(std::int64_t n, ValueId x) {
    const Shape from = e_.shape(x);
    return e_.reshape(slice_axis(e_, x, 2, n, n + 1), {from[0], from[1], from[3], from[4]});
  }

  // What rows and columns of a square of tokens are beside each other: [.., chunk, 1, width], [.., 1, chunk, width].
  std::pair<ValueId, ValueId> beside(ValueId rows, ValueId columns) {
    Shape of_rows = e_.shape(rows), of_columns = e_.shape(columns);
    of_rows.dims.insert(of_rows.dims.begin() + 4, 1);
    of_columns.dims.insert(of_columns.dims.begin() + 3, 1);
    const ValueId first = e_.reshape(rows, of_rows);
    return {first, e_.reshape(columns, of_columns)};
  }

  // Σ x_i y_j by keys, with the decay between them.
  ValueId scores(ValueId x, ValueId y, ValueId decays) {
    if (by_keys_) {
      const auto [rows, columns] = beside(x, y);
      return e_.reduce_sum(e_.mul(e_.mul(rows, columns), decays), {5}, false);
    }
    const ValueId all = product(x, y, false, true);
    if (!decays.present()) return all;
    const Shape d = e_.shape(decays);
    return e_.mul(all, e_.reshape(decays, {d[0], d[1], d[2], d[3], d[4]}));
  }

  // (I + A)⁻¹ as Σ (−A)ⁿ, n up to 1, 3, 7.
  ValueId inverse_of(ValueId lowered) {
    Tensor unit = bounded_tensor({DType::float32, Shape{chunk_, chunk_}});
    for (std::int64_t i = 0; i < chunk_; ++i) unit.write<float>()[static_cast<std::size_t>(i * chunk_ + i)] = 1;
    const ValueId one = e_.graph().add_constant(e_.node().name + "/one", unit.cast(wide_));
    ValueId inverse = e_.add(lowered, one), power = lowered;
    for (std::int64_t n = 2; n < chunk_; n *= 2) {
      power = product(power, power);
      inverse = product(inverse, e_.add(power, one));
    }
    return inverse;
  }

  void prepare() {
    const ValueId q = apart(query, s_.heads), k = apart(key, s_.groups);
    v_ = apart(value, s_.groups);
    const ValueId until = lower(e_, chunk_, false, wide_), before = lower(e_, chunk_, true, wide_);
    ValueId sums, pairs;  // G; e^(G_i − G_j) [.., chunk, chunk, 1 or keys]
    if (is_gated(rule_)) {
      sums = product(until, apart(decay, s_.groups));
      const auto [rows, columns] = beside(sums, sums);
      // What lies behind grows: it is left out before the exponential.
      pairs = e_.emit("Exp", {e_.mul(e_.sub(rows, columns), e_.reshape(until, {chunk_, chunk_, 1}))});
    }
    const ValueId growth = sums.present() ? e_.emit("Exp", {sums}) : ValueId{};
    const auto grown = [&](ValueId x, ValueId by) { return by.present() ? e_.mul(x, by) : x; };
    own_ = e_.mul(scores(q, for_heads(k), for_heads(pairs)), until);
    asked_ = grown(q, for_heads(growth));
    kept_ = grown(k, growth);
    fading_ = k;
    if (sums.present()) {
      const ValueId end = slice_axis(e_, sums, 3, chunk_ - 1, chunk_);
      last_ = e_.emit("Exp", {end});
      fading_ = e_.mul(k, e_.emit("Exp", {e_.sub(end, sums)}));
    }
    if (is_delta(rule_)) {
      rates_ = apart(beta, e_.shape(e_.x(beta))[2] == 1 ? 1 : s_.groups);
      inverse_ = inverse_of(e_.neg(e_.mul(e_.mul(scores(k, k, pairs), before), rates_)));
    }
  }

  // Of chunk n, and moves the state.
  ValueId output_of(std::int64_t n, ValueId& state) {
    ValueId u = of_chunk(n, v_);
    if (inverse_.present()) u = product(of_chunk(n, inverse_), e_.mul(e_.sub(u, product(of_chunk(n, kept_), state)), of_chunk(n, rates_)));
    const ValueId y = e_.add(product(of_chunk(n, own_), for_heads(u)), product(of_chunk(n, asked_), for_heads(state)));
    if (last_.present()) state = e_.mul(state, e_.transpose(of_chunk(n, last_), {0, 1, 3, 2}));
    state = e_.add(state, product(of_chunk(n, fading_), u, true));
    return y;
  }

  ExpandContext& e_;
  const std::string rule_;
  const Sizes s_;
  const DType narrow_, wide_;
  const bool by_keys_;                 // there is a decay for each key
  std::int64_t chunk_ = 1, chunks_ = 1;  // tokens of a chunk
  ValueId v_;
  ValueId own_, asked_;                // scores of q and k within a chunk; q e^G
  ValueId kept_, fading_, last_;       // k e^G, k e^(G at the end − G), e^(G at the end)
  ValueId inverse_, rates_;            // of the delta rule
};

std::vector<ValueId> expand_linear_attention(ExpandContext& e) { return InChunks(e).run(); }

void infer_causal_conv(InferContext& c) {
  const Shape &x = c.shape(0), &w = c.shape(1);
  expect_rank(c, 0, 3);
  if (w.rank() != 3 || w[0] != x[1] || w[1] != 1 || w[2] < 1) c.fail("weight is ", w, ", expected [", x[1], ",1,k]");
  const std::string activation = c.attributes().text("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish")
    c.fail("activation is '", activation, "', expected none, silu or swish");
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
  if (e.node().outputs.size() > 1)
    results.push_back(before > 0 ? slice_axis(e, all, 2, length, length + before)
                                 : e.broadcast_to(e.scalar(0, x.dtype), with_dim(x.shape, 2, 0)));
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
          .since = {27},
          .inputs = {3, 6},
          .outputs = {1, 2},
          .types = {{"T", types::floats},
                    {"T", types::floats},
                    {"T", types::floats},
                    {"S", types::floats},
                    {"T", types::floats},
                    {"T", types::floats}},
          .infer = infer_linear_attention,
          .follow =
              [](FollowContext& c) {
                follow_batch_first(c, {query, key, value, past, decay, beta});
              },
          .expand = expand_linear_attention,
          .precision = PrecisionRole::parts,
          .operands = {{"query"}, {"key"}, {"value"}, {"past_state"}, {"decay"}, {"beta"}}};
}

}  // namespace tandem::operator_rows
