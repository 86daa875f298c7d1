#include "planner/loss/losses.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "planner/loss/ctc.h"
#include "planner/loss/external_loss.h"

namespace tandem {
namespace {

using B = GraphBuilder;
using P = LossValues;
constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr double tiny = std::numeric_limits<float>::min();

ValueId sum(B& b, ValueId x) { return b.reduce_sum(x, {1}, false); }
ValueId largest(B& b, ValueId x) { return b.emit("ReduceMax", {x}, {{"axes", Ints{1}}, {"keepdims", std::int64_t{0}}}); }
ValueId column(B& b, ValueId x) { return b.reshape(x, Shape{b.shape(x)[0], 1}); }
ValueId number(B& b, double v, ValueId like) { return b.scalar(v, b.type(like).dtype); }
ValueId minimum(B& b, ValueId x, double v) { return b.emit("Min", {x, number(b, v, x)}); }
ValueId maximum(B& b, ValueId x, double v) { return b.emit("Max", {x, number(b, v, x)}); }
ValueId relu(B& b, ValueId x) { return b.emit("Relu", {x}); }
ValueId softplus(B& b, ValueId x) { return b.emit("Softplus", {x}); }
ValueId power(B& b, ValueId x, double exponent) { return exponent == 1 ? x : b.emit("Pow", {x, number(b, exponent, x)}); }
ValueId log_softmax(B& b, ValueId x) { return b.emit("LogSoftmax", {x}, {{"axis", std::int64_t{-1}}}); }
ValueId absolute(B& b, ValueId x) { return b.emit("Abs", {x}); }
ValueId logarithm(B& b, ValueId x) { return b.emit("Log", {x}); }
// 1 where t is positive, else -1
ValueId sign(B& b, ValueId t) {
  const ValueId positive = b.emit("Cast", {b.emit("Greater", {t, number(b, 0, t)})}, {{"to", static_cast<std::int64_t>(b.type(t).dtype)}});
  return b.add(b.mul(positive, 2.0), -1.0);
}

// -sum t log softmax(x)
ValueId cross_entropy(B& b, ValueId x, ValueId t) { return b.neg(sum(b, b.mul(log_softmax(b, x), t))); }

// m (a - m/2), a = |d|, m = min(a, delta)
ValueId huber(B& b, ValueId x, ValueId t, double delta) {
  const ValueId a = absolute(b, b.sub(x, t)), m = minimum(b, a, delta);
  return b.mul(m, b.sub(a, b.mul(m, 0.5)));
}

// softplus(x) - x t; with a weight w of what is yes: (1-t) x + (1 + (w-1) t) softplus(-x)
ValueId binary(B& b, ValueId x, ValueId t, double w) {
  if (w == 1) return b.sub(softplus(b, x), b.mul(x, t));
  return b.add(b.mul(b.add(b.neg(t), 1.0), x), b.mul(b.add(b.mul(t, w - 1), 1.0), softplus(b, b.neg(x))));
}

ValueId margin_of(B& b, ValueId x, ValueId t) { return relu(b, b.add(b.neg(b.mul(x, sign(b, t))), 1.0)); }

// |a - p + 1e-6|, |a - n + 1e-6| of [M,3,D]
constexpr double least_distance = 1e-6;
ValueId distance(B& b, ValueId x, std::vector<float> signs) {
  Tensor c(TensorType{DType::float32, Shape{1, 3, 1}});
  std::copy(signs.begin(), signs.end(), c.write<float>().begin());
  const ValueId d = b.add(
      b.reduce_sum(b.mul(x, b.graph().add_constant(concat("loss/signs", b.graph().values.size()), c.cast(b.type(x).dtype))), {1}, false),
      least_distance);
  return b.emit("Sqrt", {sum(b, b.mul(d, d))});
}

Ctc ctc_of(const P& p) {
  return {.blank = static_cast<std::int64_t>(p["blank"]),
          .padding = static_cast<std::int64_t>(p["padding"]),
          .zero_infinity = p["zero-infinity"] != 0,
          .per_label = p["per-label"] != 0};
}

// A row a loss.
const std::vector<LossRow>& table() {
  // clang-format off
  static const std::vector<LossRow> rows = {
    {"softmax-cross-entropy", "crossentropy ce crossentropyloss categoricalcrossentropy sparsecategoricalcrossentropy nll nllloss logloss",
     "-log softmax(x) at the class", LabelKind::classes, LossOver::classes, OutputKind::softmax, 0, infinite, {},
     [](B& b, ValueId x, ValueId t, const P&) { return cross_entropy(b, x, t); }},
    {"binary-cross-entropy", "bce bceloss bcewithlogits bcewithlogitsloss binarycrossentropy sigmoidcrossentropy multilabelsoftmargin multilabelsoftmarginloss",
     "-t log p - (1-t) log(1-p), p = sigmoid(x); :pos-weight=W counts t W times", LabelKind::binary, LossOver::elements, OutputKind::sigmoid, 0, 1, {{"pos-weight", 1}},
     [](B& b, ValueId x, ValueId t, const P& p) { return binary(b, x, t, p["pos-weight"]); }},
    {"mse", "mseloss meansquarederror l2 l2loss", "(x-t)^2", LabelKind::numbers, LossOver::elements, OutputKind::plain, -infinite, infinite, {},
     [](B& b, ValueId x, ValueId t, const P&) { const ValueId d = b.sub(x, t); return b.mul(d, d); }, "huber"},
    {"l1", "l1loss mae meanabsoluteerror", "|x-t|", LabelKind::numbers, LossOver::elements, OutputKind::plain, -infinite, infinite, {},
     [](B& b, ValueId x, ValueId t, const P&) { return absolute(b, b.sub(x, t)); }},
    {"smooth-l1", "smoothl1loss", "d^2/(2 beta) below beta, else |d| - beta/2", LabelKind::numbers, LossOver::elements, OutputKind::plain, -infinite, infinite, {{"beta", 1}},
     [](B& b, ValueId x, ValueId t, const P& p) { return b.mul(huber(b, x, t, p["beta"]), 1 / p["beta"]); }},
    {"huber", "huberloss", "d^2/2 below delta, else delta (|d| - delta/2)", LabelKind::numbers, LossOver::elements, OutputKind::plain, -infinite, infinite, {{"delta", 1}},
     [](B& b, ValueId x, ValueId t, const P& p) { return huber(b, x, t, p["delta"]); }},
    {"log-cosh", "logcosh", "log cosh(x-t)", LabelKind::numbers, LossOver::elements, OutputKind::plain, -infinite, infinite, {},
     [](B& b, ValueId x, ValueId t, const P&) { const ValueId d = b.sub(x, t); return b.add(b.add(d, softplus(b, b.mul(d, -2.0))), -std::log(2.0)); }},
    {"poisson", "poissonnll poissonnllloss", "exp(x) - t x; :log=0 where the output is the rate itself, as Keras's: x - t log(x + 1e-8)", LabelKind::numbers, LossOver::elements, OutputKind::plain, 0, infinite, {{"log", 1}},
     [](B& b, ValueId x, ValueId t, const P& p) { return p["log"] != 0 ? b.sub(b.emit("Exp", {x}), b.mul(t, x)) : b.sub(x, b.mul(t, logarithm(b, b.add(x, 1e-8)))); }},
    {"focal", "focalloss categoricalfocalcrossentropy", "-alpha (1-p)^gamma log p at the class, p = softmax(x)", LabelKind::classes, LossOver::classes, OutputKind::softmax, 0, infinite, {{"gamma", 2}, {"alpha", 1}},
     [](B& b, ValueId x, ValueId t, const P& p) {
       const ValueId ce = cross_entropy(b, x, t), rest = b.add(b.neg(b.emit("Exp", {b.neg(ce)})), 1.0);
       return b.mul(b.mul(power(b, rest, p["gamma"]), ce), p["alpha"]);
     }},
    {"binary-focal", "sigmoidfocal sigmoidfocalloss binaryfocalcrossentropy", "binary-cross-entropy times (1-p)^gamma, alpha where t is 1, 1-alpha where 0 (alpha=-1: neither)", LabelKind::binary, LossOver::elements, OutputKind::sigmoid, 0, 1, {{"gamma", 2}, {"alpha", 0.25}},
     [](B& b, ValueId x, ValueId t, const P& p) {
       const ValueId s = b.emit("Sigmoid", {x}), wrong = b.sub(b.add(s, t), b.mul(b.mul(s, t), 2.0));
       const ValueId loss = b.mul(binary(b, x, t, 1), power(b, wrong, p["gamma"]));
       const double a = p["alpha"];
       return a < 0 ? loss : b.mul(loss, b.add(b.mul(t, 2 * a - 1), 1 - a));
     }},
    {"kl-divergence", "kldivloss kldiv kldivergence kl", "sum t (log t - log softmax(x)), as KLDivLoss's batchmean of log_softmax", LabelKind::shares, LossOver::classes, OutputKind::softmax, 0, infinite, {},
     [](B& b, ValueId x, ValueId t, const P&) { return sum(b, b.mul(t, b.sub(logarithm(b, maximum(b, t, tiny)), log_softmax(b, x)))); }},
    {"hinge", "hingeloss", "max(0, 1 - s x), s = 1 where t > 0, else -1", LabelKind::binary, LossOver::elements, OutputKind::plain, -1, 1, {},
     [](B& b, ValueId x, ValueId t, const P&) { return margin_of(b, x, t); }},
    {"squared-hinge", "squaredhingeloss", "hinge squared", LabelKind::binary, LossOver::elements, OutputKind::plain, -1, 1, {},
     [](B& b, ValueId x, ValueId t, const P&) { const ValueId m = margin_of(b, x, t); return b.mul(m, m); }},
    {"soft-margin", "softmarginloss", "log(1 + exp(-s x)), s = 1 where t > 0, else -1", LabelKind::binary, LossOver::elements, OutputKind::plain, -1, 1, {},
     [](B& b, ValueId x, ValueId t, const P&) { return softplus(b, b.neg(b.mul(x, sign(b, t)))); }},
    {"categorical-hinge", "", "max(0, 1 + largest (1-t) x - sum t x), Keras's", LabelKind::classes, LossOver::classes, OutputKind::plain, 0, 1, {},
     [](B& b, ValueId x, ValueId t, const P&) {
       return relu(b, b.add(b.sub(largest(b, b.mul(b.add(b.neg(t), 1.0), x)), sum(b, b.mul(t, x))), 1.0));
     }},
    {"multi-margin", "multimarginloss", "sum over other classes max(0, margin - x_y + x_c) / classes, PyTorch's", LabelKind::classes, LossOver::classes, OutputKind::plain, 0, 1, {{"margin", 1}},
     [](B& b, ValueId x, ValueId t, const P& p) {
       const ValueId over = relu(b, b.add(b.sub(x, column(b, sum(b, b.mul(t, x)))), p["margin"]));
       return b.mul(sum(b, b.mul(b.add(b.neg(t), 1.0), over)), 1.0 / static_cast<double>(b.shape(x)[1]));
     }},
    {"cosine", "cosinesimilarity cosineembedding cosineembeddingloss cosinedistance", "1 - x.t / (|x| |t|), over the last axis", LabelKind::numbers, LossOver::last, OutputKind::plain, -infinite, infinite, {},
     [](B& b, ValueId x, ValueId t, const P&) {
       constexpr double least = 1e-16;  // of squares
       const auto norm = [&](ValueId v) { return b.emit("Sqrt", {maximum(b, sum(b, b.mul(v, v)), least)}); };
       return b.add(b.neg(b.div(sum(b, b.mul(x, t)), b.mul(norm(x), norm(t)))), 1.0);
     }},
    {"triplet", "tripletloss tripletmargin tripletmarginloss", "max(0, |a-p| - |a-n| + margin) of a value [N,3,...] or of three, a+p+n=triplet", LabelKind::none, LossOver::sample, OutputKind::plain, 0, 0, {{"margin", 1}},
     [](B& b, ValueId x, ValueId, const P& p) {
       const Shape s = b.shape(x);
       const ValueId three = b.reshape(x, Shape{s[0], 3, s[1] / 3});
       return relu(b, b.add(b.sub(distance(b, three, {1, -1, 0}), distance(b, three, {1, 0, -1})), p["margin"]));
     }},
    {"ctc", "ctcloss", "-log of all alignments' probability, of scores [N,T,C] or [T,N,C] and padded rows of labels; :padding=-1:blank=0 (-1: the last class), :zero-infinity=1, :per-label=0 as Keras's", LabelKind::sequence, LossOver::sequence, OutputKind::softmax, -infinite, infinite,
     {{"blank", 0}, {"padding", -1}, {"zero-infinity", 0}, {"per-label", 1}},
     [](B& b, ValueId x, ValueId t, const P& p) { return ctc(b, x, t, ctc_of(p)); }},
    {file_loss, "", "that of an ONNX file: one number, or one for each sample", LabelKind::none, LossOver::batch, OutputKind::plain, -infinite, infinite, {},
     [](B&, ValueId x, ValueId, const P&) { return x; }},
    {external_loss, "", "computed by the caller, who gives the gradients of the model's outputs (a plan of two passes, without updates)", LabelKind::none, LossOver::batch, OutputKind::plain, 0, 0, {},
     [](B&, ValueId x, ValueId, const P&) { return x; }},
    {"output", "", "the value itself: the model computes its loss", LabelKind::none, LossOver::batch, OutputKind::plain, 0, 0, {},
     [](B&, ValueId x, ValueId, const P&) { return x; }},
  };
  // clang-format on
  return rows;
}

}  // namespace

double LossValues::operator[](std::string_view name) const {
  if (const auto it = given_.find(name); it != given_.end()) return it->second;
  return std::find_if(row_.parameters.begin(), row_.parameters.end(), [&](const LossParameter& p) { return p.name == name; })->value;
}

std::span<const LossRow> loss_rows() { return table(); }

const LossRow& loss_row(std::string_view name) {
  for (const LossRow& row : table())
    if (row.name == name) return row;
  fail("internal: no loss '", name, "'");
}

std::string loss_names() {
  std::string names;
  for (const LossRow& row : table()) names += concat(names.empty() ? "" : ", ", row.name);
  return names;
}

}  // namespace tandem
