// Attention as ONNX Runtime's optimizer and Olive write it, as ONNX's own Attention with what stands before and behind: products by the
// packed weights, biases, masks as numbers to add, turned positions. Caches of a decoder's earlier steps stand in front.
#include <cmath>

#include "graph/operators/batch_first.h"
#include "graph/operators/heads.h"
#include "graph/operators/rules.h"

namespace tandem::operator_rows {
namespace {

using namespace heads;
constexpr std::string_view microsoft = "com.microsoft";

// Part i of [samples, tokens, heads, parts, width], heads apart.
ValueId part_of_packed(GraphBuilder& b, ValueId x, std::int64_t i) {
  const Shape s = b.shape(x);
  return b.transpose(b.reshape(slice_axis(b, x, 3, i, i + 1), {s[0], s[1], s[2], s[4]}), {0, 2, 1, 3});
}

// Which mask it is follows from its shape; [samples, 1, ...] as numbers to add, `hidden` where nothing is to be seen.
bool is_mask_shape(const Shape& m, std::int64_t samples, std::int64_t queries, std::int64_t keys, bool starts) {
  const bool lists = m == Shape{samples} || (starts && m == Shape{2 * samples});
  const bool square = m.rank() == 4 && m[0] == samples && m[1] == 1 && m[2] == m[3] && m[3] >= keys;
  return lists || m == Shape{samples, keys} || m == Shape{samples, queries, keys} || square;
}
ValueId mask_bias(ExpandContext& e, ValueId mask, const Shape& scores, double hidden, DType dtype) {
  const Shape m = e.shape(mask);
  const std::int64_t samples = scores[0], queries = scores[2], keys = scores[3];
  const ValueId zero = e.scalar(0, DType::int32);
  ValueId seen;
  if (m.rank() == 1) {
    const ValueId places = counted(e, keys, {1, 1, 1, keys});
    const auto bounds = [&](std::int64_t from) { return e.reshape(slice_axis(e, mask, 0, from, from + samples), {samples, 1, 1, 1}); };
    seen = e.emit("Less", {places, bounds(0)});
    if (m[0] == 2 * samples) seen = e.emit("And", {seen, e.emit("GreaterOrEqual", {places, bounds(samples)})});
  } else if (m.rank() == 4) {
    const ValueId rows = slice_axis(e, mask, 2, keys - queries, keys);
    seen = e.emit("Greater", {slice_axis(e, rows, 3, 0, keys), zero});
  } else {
    seen = e.emit("Greater", {e.reshape(mask, m.rank() == 2 ? Shape{samples, 1, 1, keys} : Shape{samples, 1, queries, keys}), zero});
  }
  return e.emit("Where", {seen, e.scalar(0, dtype), e.scalar(hidden, dtype)});
}

// com.microsoft's Attention: input, weights, bias, mask_index, past, attention_bias, past_sequence_length.

Ints hidden_sizes(const Attributes& a, std::int64_t all) { return a.ints("qkv_hidden_sizes", {all / 3, all / 3, all / 3}); }

void infer_packed(InferContext& c) {
  const Attributes& a = c.attributes();
  const std::int64_t heads = heads_of(c);
  expect_rank(c, 0, 3);
  expect_rank(c, 1, 2);
  const Shape &x = c.shape(0), &w = c.shape(1);
  if (w[0] != x[2]) c.fail("weights are ", w, ", expected ", x[2], " rows");
  const Ints sizes = hidden_sizes(a, w[1]);
  if (sizes.size() != 3 || sizes[0] + sizes[1] + sizes[2] != w[1] || sizes[0] != sizes[1])
    c.fail("qkv_hidden_sizes is ", to_string(AttributeValue(sizes)), ", expected three that make ", w[1], ", the first two alike");
  for (const std::int64_t size : sizes) expect_divided(c, size, heads);
  if (c.has_input(2)) expect_shape(c, 2, Shape{w[1]});
  if (a.integer("do_rotary", 0) != 0) c.fail("do_rotary is not supported");
  if (a.integer("past_present_share_buffer", 0) != 0)
    c.fail("past_present_share_buffer, a cache that is written in place, is not supported");
  Shape cache{2, x[0], heads, 0, sizes[0] / heads};
  if (c.has_input(4)) {
    if (c.shape(4).rank() != 5 || with_dim(c.shape(4), 3, 0) != cache || sizes[2] != sizes[0])
      c.fail("past is ", c.shape(4), ", expected ", cache, " with as many tokens as there were");
    cache[3] = c.shape(4)[3];
  }
  cache[3] += x[1];
  const Shape scores{x[0], heads, x[1], cache[3]};
  if (c.has_input(3) && !is_mask_shape(c.shape(3), x[0], x[1], cache[3], true))
    c.fail("mask_index is ", c.shape(3), ", a form that is not supported for ", x[0], " samples of ", x[1], " tokens");
  expect_bias_of_scores(c, 5, scores);
  c.set_output(0, c.input(0).dtype, {x[0], x[1], sizes[2]});
  if (c.has_output(1) && sizes[2] != sizes[0]) c.fail("present holds keys and values, which differ in size");
  c.set_output(1, c.input(0).dtype, cache);
}

std::vector<ValueId> expand_packed(ExpandContext& e) {
  const Attributes& a = e.attributes();
  const std::int64_t heads = a.integer("num_heads");
  ValueId all = e.emit("MatMul", {e.x(0), e.x(1)});
  if (e.has_x(2)) all = e.add(all, e.x(2));
  const Ints sizes = hidden_sizes(a, e.shape(e.x(1))[1]);
  const auto part = [&](std::int64_t from, std::int64_t size) { return heads_apart(e, slice_axis(e, all, 2, from, from + size), heads); };
  const ValueId q = part(0, sizes[0]), k = part(sizes[0], sizes[1]), v = part(sizes[0] + sizes[1], sizes[2]);
  const Shape s = e.shape(q);
  std::int64_t keys = s[2];
  ValueId past[2];
  if (e.has_x(4)) {
    Shape one = e.shape(e.x(4));
    one.dims.erase(one.dims.begin());
    keys += one[2];
    for (const std::int64_t i : {0, 1}) past[i] = e.reshape(slice_axis(e, e.x(4), 0, i, i + 1), one);
  }
  ValueId bias =
      e.has_x(3) ? mask_bias(e, e.x(3), {s[0], s[1], s[2], keys}, a.real("mask_filter_value", -10000), e.type(q).dtype) : ValueId{};
  if (e.has_x(5)) bias = either(e, bias, e.x(5));
  const Result r = attend(e, q, k, v, bias, past[0], past[1], a.integer("unidirectional", 0) != 0);
  std::vector<ValueId> results{heads_together(e, r.y)};
  if (e.node().outputs.size() > 1) {
    const auto lone = [&](ValueId x) {
      Shape shape = e.shape(x);
      shape.dims.insert(shape.dims.begin(), 1);
      return e.reshape(x, shape);
    };
    results.push_back(e.emit("Concat", {lone(r.key), lone(r.value)}, {{"axis", std::int64_t{0}}}));
  }
  return results;
}

void follow_packed(FollowContext& c) {
  if (c.has_input(4)) c.fail("past holds the samples along axis 1");
  if (c.has_input(3) && c.x(3).rank() == 1 && c.x(3)[0] != c.x(0)[0])
    c.fail("mask_index holds two numbers for each sample, one behind those of all others");
  const bool shared = c.has_input(5) && c.x(5)[0] == 1;
  if (shared && c.place(5).present()) c.fail("attention_bias holds the samples, and is shared by them");
  shared ? follow_batch_first(c, {0, 3}) : follow_batch_first(c, {0, 3, 5});
  c.set(1, {.axis = 1, .outer = c.place(0).outer});
}

// MultiHeadAttention: query, key, value, bias, key_padding_mask, attention_bias, past_key, past_value, past_sequence_length,
// cache_indirection.

void infer_multi_head(InferContext& c) {
  const std::int64_t heads = heads_of(c);
  refuse(c, 8, "past_sequence_length, a cache that is written in place,");
  refuse(c, 9, "cache_indirection");
  const Shape q = c.shape(0);
  Shape k, v;  // [samples, heads, tokens, width]
  std::int64_t width = 0;
  const auto from_flat = [&](int input) {
    const Shape& s = c.shape(input);
    if (s.rank() == 4) return s;
    expect_rank(c, input, 3);
    expect_divided(c, s[2], heads);
    return Shape{s[0], heads, s[1], s[2] / heads};
  };
  if (q.rank() == 5) {
    if (c.has_input(1) || c.has_input(2)) c.fail("key and value are given beside a packed query ", q);
    if (q[2] != heads || q[3] != 3) c.fail("query is ", q, ", expected [samples, tokens, ", heads, ", 3, width]");
    k = v = {q[0], heads, q[1], q[4]};
    width = q[4];
  } else {
    expect_rank(c, 0, 3);
    expect_divided(c, q[2], heads);
    width = q[2] / heads;
    const Shape& key = c.shape(1);
    if (key.rank() == 5) {
      if (c.has_input(2)) c.fail("value is given beside a packed key ", key);
      if (key[2] != heads || key[3] != 2) c.fail("key is ", key, ", expected [samples, tokens, ", heads, ", 2, width]");
      k = v = {key[0], heads, key[1], key[4]};
    } else {
      k = from_flat(1);
      v = from_flat(2);
    }
  }
  if (k != Shape{q[0], heads, k[2], width} || v != with_dim(k, 3, v[3]))
    c.fail("query is ", q, ", keys are ", k, " and values ", v, " [samples, heads, tokens, width]: they do not fit");
  if (c.has_input(3)) expect_shape(c, 3, Shape{2 * heads * width + heads * v[3]});
  if (c.has_input(6) != c.has_input(7)) c.fail("past_key and past_value are given together or not at all");
  if (c.has_input(6)) {
    for (const int i : {6, 7}) expect_rank(c, i, 4);
    if (c.shape(6) != with_dim(k, 2, c.shape(6)[2]) || c.shape(7) != with_dim(v, 2, c.shape(6)[2]))
      c.fail("past_key is ", c.shape(6), ", past_value is ", c.shape(7), ", which do not continue ", k, " and ", v);
    v[2] = k[2] += c.shape(6)[2];
  }
  const Shape scores{q[0], heads, q[1], k[2]};
  if (c.has_input(4) && !is_mask_shape(c.shape(4), q[0], q[1], k[2], false))
    c.fail("key_padding_mask is ", c.shape(4), ", a form that is not supported for scores ", scores);
  expect_bias_of_scores(c, 5, scores);
  const DType dtype = c.input(0).dtype;
  c.set_output(0, dtype, {q[0], q[1], heads * v[3]});
  c.set_output(1, dtype, k);
  c.set_output(2, dtype, v);
  c.set_output(3, dtype, scores);
}

std::vector<ValueId> expand_multi_head(ExpandContext& e) {
  const Attributes& a = e.attributes();
  const std::int64_t heads = a.integer("num_heads");
  ValueId parts[3];
  const Shape first = e.shape(e.x(0));
  for (std::int64_t i = 0; i < 3; ++i) {
    if (first.rank() == 5) parts[i] = part_of_packed(e, e.x(0), i);
    else if (i > 0 && e.shape(e.x(1)).rank() == 5) parts[i] = part_of_packed(e, e.x(1), i - 1);
    else parts[i] = heads_apart(e, e.x(static_cast<int>(i)), heads);
  }
  if (e.has_x(3)) {
    std::int64_t from = 0;
    for (ValueId& part : parts) {
      const std::int64_t width = e.shape(part)[3];
      part = e.add(part, e.reshape(slice_axis(e, e.x(3), 0, from, from + heads * width), {1, heads, 1, width}));
      from += heads * width;
    }
  }
  const Shape q = e.shape(parts[0]);
  const std::int64_t keys = e.shape(parts[1])[2] + (e.has_x(6) ? e.shape(e.x(6))[2] : 0);
  ValueId bias =
      e.has_x(4) ? mask_bias(e, e.x(4), {q[0], q[1], q[2], keys}, a.real("mask_filter_value", -10000), e.type(parts[0]).dtype) : ValueId{};
  if (e.has_x(5)) bias = either(e, bias, e.x(5));
  const ValueId past_key = e.has_x(6) ? e.x(6) : ValueId{}, past_value = e.has_x(7) ? e.x(7) : ValueId{};
  const Result r = attend(e, parts[0], parts[1], parts[2], bias, past_key, past_value, a.integer("unidirectional", 0) != 0,
                          {{"qk_matmul_output_mode", std::int64_t{3}}});
  std::vector<ValueId> results{heads_together(e, r.y), r.key, r.value, r.shares};
  results.resize(e.node().outputs.size());
  return results;
}

void follow_multi_head(FollowContext& c) {
  const bool shared = c.has_input(5) && c.x(5)[0] == 1;
  if (shared && c.place(5).present()) c.fail("attention_bias holds the samples, and is shared by them");
  shared ? follow_batch_first(c, {0, 1, 2, 4, 6, 7}) : follow_batch_first(c, {0, 1, 2, 4, 5, 6, 7});
}

constexpr TypeSet counts{DType::int32};

}  // namespace

Operator microsoft_attention() {
  return {.name = "Attention",
          .domain = microsoft,
          .since = {1},
          .inputs = {2, 7},
          .outputs = {1, 2},
          .types = {{"T", types::floats},
                    {"T", types::floats},
                    {"T", types::floats},
                    {"M", counts},
                    {"T", types::floats},
                    {"T", types::floats},
                    {"M", counts}},
          .infer = infer_packed,
          .follow = follow_packed,
          .expand = expand_packed,
          .precision = PrecisionRole::parts,
          .operands = {{"input"},
                       {"weights", OperandRole::matrix},
                       {"bias", OperandRole::bias},
                       {"mask_index", OperandRole::index},
                       {"past"},
                       {"attention_bias", OperandRole::addend},
                       {"past_sequence_length", OperandRole::index}}};
}

Operator microsoft_multi_head_attention() {
  return {.name = "MultiHeadAttention",
          .domain = microsoft,
          .since = {1},
          .inputs = {1, 10},
          .outputs = {1, 4},
          .types = {{"T", types::floats},
                    {"T", types::floats},
                    {"T", types::floats},
                    {"T", types::floats},
                    {"M", counts},
                    {"T", types::floats},
                    {"T", types::floats},
                    {"T", types::floats},
                    {"M", counts}},
          .infer = infer_multi_head,
          .follow = follow_multi_head,
          .expand = expand_multi_head,
          .precision = PrecisionRole::parts,
          .operands = {{"query"},
                       {"key"},
                       {"value"},
                       {"bias", OperandRole::bias},
                       {"key_padding_mask", OperandRole::index},
                       {"attention_bias", OperandRole::addend},
                       {"past_key"},
                       {"past_value"},
                       {"past_sequence_length", OperandRole::index},
                       {"cache_indirection", OperandRole::index}}};
}

}  // namespace tandem::operator_rows
