// FlexAttention of ai.onnx.preview: attention whose scores and whose probabilities pass through graphs that the node holds. It becomes
// its products, its Softmax and these two graphs.
#include <algorithm>
#include <cmath>

#include "importer/build/builder.h"

namespace tandem {
namespace {

void check_operands(const TensorType& q, const TensorType& k, const TensorType& v) {
  for (const TensorType& t : {q, k, v})
    if (t.shape.rank() != 4 || !is_float(t.dtype) || t.dtype != q.dtype)
      fail("it takes ", q, ", ", k, " and ", v, ", expected floats in 4 axes");
  const std::int64_t heads = q.shape[1], groups = k.shape[1];
  if (groups < 1 || heads % groups != 0 || v.shape[1] != groups)
    fail("Q has ", heads, " heads, K ", groups, " and V ", v.shape[1], ": expected a multiple of what both others have");
  if (q.shape[3] != k.shape[3] || k.shape[2] != v.shape[2] || q.shape[0] != k.shape[0] || q.shape[0] != v.shape[0])
    fail("Q, K and V are ", q.shape, ", ", k.shape, " and ", v.shape, ", which do not fit");
}

}  // namespace

// Y = prob_mod(Softmax(score_mod(Q · Kᵀ · scale))) · V; of fewer heads in K and V each serves as many of Q's, one after the other
void Builder::flex_attention(const FlatNode& node) {
  if (node.inputs.size() != 3 || node.outputs.size() != 1)
    fail("it has ", node.inputs.size(), " inputs and ", node.outputs.size(), " outputs, expected 3 and 1");
  for (const Symbol in : node.inputs) {
    if (in.present() && !built(in)) return;
    if (!in.present() || !value(in).present()) fail("one of its inputs is missing, or a list of tensors");
  }
  const auto type_of = [&](Symbol s) { return graph()[value(s)].type; };
  const TensorType q = type_of(node.inputs[0]), k = type_of(node.inputs[1]);
  check_operands(q, k, type_of(node.inputs[2]));
  const std::int64_t heads = q.shape[1], groups = k.shape[1];
  const DType given = static_cast<DType>(node.attributes.integer("softmax_precision", 0));
  const DType precision = given == DType::undefined ? wanted(q.dtype == DType::float64 ? DType::float64 : DType::float32) : wanted(given);
  if (!is_float(precision)) fail("softmax_precision is ", static_cast<int>(given), ", expected floats");

  const auto numbers = [&](const Ints& list, const char* suffix) {
    return constant(node, Tensor::of<std::int64_t>(Shape{std::ssize(list)}, list), suffix);
  };
  const auto cast = [&](Symbol s, DType to, const char* suffix) {
    return type_of(s).dtype == to ? s : emit(node, "Cast", {s}, {{"to", static_cast<std::int64_t>(to)}}, suffix);
  };
  const auto serving_all = [&](Symbol s, const std::string& suffix) {
    if (heads == groups) return s;
    const Shape shape = type_of(s).shape;
    const Symbol apart = emit(node, "Unsqueeze", {s, numbers({2}, "axis")}, {}, suffix + "/apart");
    const Symbol repeated = emit(node, "Expand", {apart, numbers({1, 1, heads / groups, 1, 1}, "repeats")}, {}, suffix + "/repeated");
    return emit(node, "Reshape", {repeated, numbers({0, heads, shape[2], shape[3]}, "heads")}, {}, suffix + "/heads");
  };
  // The graph that the node holds for this, or nothing of the kind.
  const auto modified = [&](Symbol s, std::string_view by) -> Symbol {
    const auto held = std::ranges::find(node.bodies, by, &FlatBody::attribute);
    if (held == node.bodies.end()) return s;
    if (held->inputs.size() != 1 || held->outputs.size() != 1)
      fail(by, " takes ", held->inputs.size(), " inputs and gives ", held->outputs.size(), " outputs, expected one of each");
    const std::size_t problems = built_.problems.size();
    hand(s, held->inputs[0]);
    run(*held);
    if (built_.problems.size() > problems) return {};
    const Symbol out = held->outputs[0];
    if (!out.present() || !value(out).present() || !(type_of(out) == type_of(s)))
      fail(by, " does not give the ", type_of(s), " that it takes");
    return out;
  };

  const double scale = node.attributes.has("scale") ? node.attributes.real("scale", 1) : 1 / std::sqrt(static_cast<double>(q.shape[3]));
  const Symbol keys = emit(node, "Transpose", {serving_all(node.inputs[1], "K")}, {{"perm", Ints{0, 1, 3, 2}}}, "K/transposed");
  const Symbol factor = constant(node, Tensor::scalar(scale).cast(DType::float32).cast(q.dtype), "scale");
  const Symbol products = emit(node, "MatMul", {emit(node, "Mul", {node.inputs[0], factor}, {}, "Q/scaled"), keys}, {}, "scores");
  const Symbol scores = modified(cast(products, precision, "scores/cast"), "score_mod");
  if (!scores.present()) return;
  const Symbol shares = modified(emit(node, "Softmax", {scores}, {{"axis", std::int64_t{-1}}}, "shares"), "prob_mod");
  if (!shares.present()) return;
  const Symbol y = emit(node, "MatMul", {cast(shares, q.dtype, "shares/cast"), serving_all(node.inputs[2], "V")}, {}, "Y");
  hand(y, node.outputs[0]);
  if (value(y).present()) rename(value(y), node.outputs[0]);
}

}  // namespace tandem
