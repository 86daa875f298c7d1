// GroupQueryAttention: query, key, value, past_key, past_value, seqlens_k, total_sequence_length, cos_cache, sin_cache, position_ids,
// attention_bias, head_sink, k_scale, v_scale, q_norm_weight, k_norm_weight. A training step sees whole sequences: without a past.
#include <cmath>

#include "base/option.h"
#include "graph/operators/batch_first.h"
#include "graph/operators/heads.h"
#include "graph/operators/rotary_embedding.h"

namespace tandem::operator_rows {
namespace {

using namespace heads;

struct Groups {
  std::int64_t heads, shared, tokens, width;
  bool packed;
};
Groups groups_of(const Attributes& a, const Shape& query, bool packed) {
  const std::int64_t heads = a.integer("num_heads"), shared = a.integer("kv_num_heads");
  return {heads, shared, query[1], query[2] / (packed ? heads + 2 * shared : heads), packed};
}

void infer_group_query(InferContext& c) {
  const Attributes& a = c.attributes();
  heads_of(c);
  heads_of(c, "kv_num_heads");
  expect_rank(c, 0, 3);
  const Shape& x = c.shape(0);
  const Groups g = groups_of(a, x, !c.has_input(1));
  expect_divided(c, x[2], g.packed ? g.heads + 2 * g.shared : g.heads);
  if (g.heads % g.shared != 0) c.fail("kv_num_heads ", g.shared, " does not divide num_heads ", g.heads);
  if (c.has_input(1) != c.has_input(2)) c.fail("key and value are given together or not at all");
  for (const int i : {1, 2})
    if (c.has_input(i) && c.shape(i) != Shape{x[0], g.tokens, g.shared * g.width})
      c.fail("input ", i, " is ", c.shape(i), ", expected ", Shape{x[0], g.tokens, g.shared * g.width});
  for (const int i : {3, 4})
    if (c.has_input(i) && c.shape(i).elements() != 0)
      c.fail("past_key and past_value are ", c.shape(i), ": a past is not supported here; give it no tokens (", option("dims"),
             " past_sequence_length=0)");
  refuse(c, 11, "head_sink");
  refuse(c, 12, "a quantized cache (k_scale)");
  refuse(c, 13, "a quantized cache (v_scale)");
  if (a.integer("smooth_softmax", 0) > 0) c.fail("smooth_softmax is not supported");
  if (c.has_input(14) != c.has_input(15)) c.fail("q_norm_weight and k_norm_weight are given together or not at all");
  for (const int i : {14, 15})
    if (c.has_input(i)) expect_shape(c, i, Shape{g.width});
  if (a.integer("do_rotary", 0) != 0) {
    for (const int i : {7, 8}) expect_rank(c, i, 2);
    expect_shape(c, 8, c.shape(7));
    if (c.shape(7)[1] * 2 > g.width || (!c.has_input(9) && c.shape(7)[0] < g.tokens))
      c.fail("cos_cache is ", c.shape(7), ", which is not for ", g.tokens, " tokens of ", g.width, " numbers");
  }
  if (c.has_input(9) && c.shape(9).elements() > 1 && c.shape(9) != Shape{x[0], g.tokens})
    c.fail("position_ids is ", c.shape(9), ", expected ", Shape{x[0], g.tokens});
  expect_bias_of_scores(c, 10, {x[0], g.heads, g.tokens, g.tokens});
  const DType dtype = c.input(0).dtype;
  c.set_output(0, dtype, {x[0], g.tokens, g.heads * g.width});
  for (const int i : {1, 2}) c.set_output(i, dtype, {x[0], g.shared, g.tokens, g.width});
  c.set_output(3, dtype, {x[0], g.heads, g.tokens, g.tokens});
}

std::vector<ValueId> expand_group_query(ExpandContext& e) {
  const Attributes& a = e.attributes();
  const Shape x = e.shape(e.x(0));
  const Groups g = groups_of(a, x, !e.has_x(1));
  const std::int64_t sizes[] = {g.heads * g.width, g.shared * g.width, g.shared * g.width}, heads[] = {g.heads, g.shared, g.shared};
  ValueId parts[3];
  std::int64_t from = 0;
  for (int i = 0; i < 3; ++i) {
    const ValueId flat = g.packed ? slice_axis(e, e.x(0), 2, from, from + sizes[i]) : e.x(i);
    parts[i] = heads_apart(e, flat, heads[i]);
    from += sizes[i];
  }
  for (int i = 0; i < 2; ++i) {
    if (e.has_x(14 + i))
      parts[i] =
          e.emit("RMSNormalization", {parts[i], e.x(14 + i)}, {{"axis", std::int64_t{-1}}, {"epsilon", a.real("qk_norm_epsilon", 1e-6F)}});
    if (a.integer("do_rotary", 0) == 0) continue;
    // one alone is for the first step, which stands at 0
    const ValueId positions = e.has_x(9) && e.shape(e.x(9)).elements() > 1 ? e.x(9) : ValueId{};
    const auto row = [&](int table) { return rows_at(e, e.x(table), positions, g.tokens); };
    parts[i] =
        rotate(e, parts[i], row(7), row(8), {.width = 2 * e.shape(e.x(7))[1], .interleaved = a.integer("rotary_interleaved", 0) != 0});
  }
  const bool causal = a.integer("causal", 1) != 0;
  ValueId bias = e.has_x(10) ? e.x(10) : ValueId{};
  if (!causal) {  // padding stands behind: a causal query never reaches it
    const ValueId last = e.reshape(e.x(5), {x[0], 1, 1, 1});
    const ValueId seen = e.emit("LessOrEqual", {counted(e, g.tokens, {1, 1, 1, g.tokens}), last});
    const DType dtype = e.type(parts[0]).dtype;
    bias = either(e, bias, e.emit("Where", {seen, e.scalar(0, dtype), e.scalar(-INFINITY, dtype)}));
  }
  Attributes more{{"qk_matmul_output_mode", std::int64_t{a.integer("qk_output", 0) == 2 ? 3 : 2}}};
  if (a.real("softcap", 0) != 0) more.set("softcap", a.real("softcap"));
  if (const std::int64_t window = a.integer("local_window_size", -1); window > 0) more.set("left_window_size", window - 1);
  const Result r = attend(e, parts[0], parts[1], parts[2], bias, {}, {}, causal, std::move(more));
  std::vector<ValueId> results{heads_together(e, r.y), r.key, r.value, r.shares};
  results.resize(e.node().outputs.size());
  return results;
}

void follow_group_query(FollowContext& c) {
  const bool shared = c.has_input(10) && c.x(10)[0] == 1;
  if (shared && c.place(10).present()) c.fail("attention_bias holds the samples, and is shared by them");
  shared ? follow_batch_first(c, {0, 1, 2, 3, 4, 5, 9}) : follow_batch_first(c, {0, 1, 2, 3, 4, 5, 9, 10});
}

constexpr TypeSet key_counts{DType::int32};

}  // namespace

Operator microsoft_group_query_attention() {
  return {.name = "GroupQueryAttention",
          .domain = "com.microsoft",
          .since = {1},
          .inputs = {1, 16},
          .outputs = {1, 4},
          .types = {{"T", types::floats},
                    {"T", types::floats},
                    {"T", types::floats},
                    {"C", types::all},
                    {"C", types::all},
                    {"M", key_counts},
                    {"M", key_counts},
                    {"T", types::floats},
                    {"T", types::floats},
                    {"P", types::integers_64},
                    {"T", types::floats}},
          .infer = infer_group_query,
          .follow = follow_group_query,
          .expand = expand_group_query,
          .precision = PrecisionRole::parts,
          .operands = {{"query"},
                       {"key"},
                       {"value"},
                       {"past_key", OperandRole::constant},
                       {"past_value", OperandRole::constant},
                       {"seqlens_k", OperandRole::index},
                       {"total_sequence_length", OperandRole::index},
                       {"cos_cache", OperandRole::constant},
                       {"sin_cache", OperandRole::constant},
                       {"position_ids", OperandRole::index},
                       {"attention_bias", OperandRole::addend},
                       {"head_sink", OperandRole::addend},
                       {"k_scale", OperandRole::constant},
                       {"v_scale", OperandRole::constant},
                       {"q_norm_weight", OperandRole::scale},
                       {"k_norm_weight", OperandRole::scale}}};
}

}  // namespace tandem::operator_rows
