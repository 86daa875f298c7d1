// ai.onnx.ml's decision trees: what gradient boosting and forests become. All trees go down a level at once: a sample's place in each is a
// number of a node, and the nodes' features, thresholds and children are tables of it; a leaf is its own child. Nothing flows back:
// where a sample goes is constant almost everywhere.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "graph/operators/forest.h"
#include "graph/operators/rules.h"

namespace tandem::operator_rows {
namespace {

constexpr std::string_view ml = "ai.onnx.ml";

// Whatever is wrong in the attributes, under the node's name.
template <class C>
Forest parsed(C& c, const Shape& x) {
  try {
    return forest_of(c.node().attributes, c.node().op->name, x);
  } catch (const Error& e) {
    fail(ExitCode::model, c.node().op->name, " '", c.node().name, "': ", e.what());
  }
}

constexpr const char* output_dtype = "output_dtype";
DType float_of(const Attributes& a, DType x) {
  return a.has(output_dtype) ? static_cast<DType>(a.integer(output_dtype)) : is_float(x) ? x : DType::float32;
}

// The forest's lists as constants that samples look up by node.
struct Tables {
  ExpandContext& e;
  const Forest& f;
  DType wide;

  std::int64_t nodes() const { return std::ssize(f.mode); }
  ValueId known(const char* name, Tensor t) const { return e.graph().add_constant(concat(e.node().name, '/', name), std::move(t)); }
  ValueId indices(const char* name, const Ints& list) const {
    return known(name, Tensor::of<std::int64_t>(Shape{std::ssize(list)}, list));
  }
  ValueId reals(const char* name, Shape shape, const std::vector<double>& list) const {
    return known(name, Tensor::of<double>(std::move(shape), list).cast(wide));
  }
  // What each node's set holds, a row a node; rows are filled up by what equals nothing.
  ValueId members() const {
    std::size_t most = 1;
    for (const auto& list : f.members) most = std::max(most, list.size());
    std::vector<double> padded;
    for (const auto& list : f.members)
      for (std::size_t i = 0; i < most; ++i) padded.push_back(i < list.size() ? list[i] : std::numeric_limits<double>::quiet_NaN());
    return reals("members", {nodes(), static_cast<std::int64_t>(most)}, padded);
  }
};

// The leaf that each sample comes to in each tree, [N,trees]: all go down one level at a time.
ValueId leaves_of(const Tables& tables, ValueId x) {
  ExpandContext& e = tables.e;
  const Forest& f = tables.f;
  const ValueId features = tables.indices("features", f.feature), yes = tables.indices("yes", f.yes), no = tables.indices("no", f.no),
                thresholds = tables.reals("thresholds", {tables.nodes()}, f.threshold);
  const bool tracks = std::ranges::any_of(f.missing_is_yes, [](std::int64_t v) { return v != 0; });
  const ValueId missing =
      tracks ? tables.known("missing", Tensor::of<std::int64_t>(Shape{tables.nodes()}, f.missing_is_yes).cast(DType::boolean)) : ValueId{};
  std::set<std::int64_t> modes(f.mode.begin(), f.mode.end());
  modes.erase(leaf);
  const ValueId kinds = modes.size() > 1 ? tables.indices("modes", f.mode) : ValueId{};
  const ValueId members = modes.contains(member) ? tables.members() : ValueId{};
  const std::int64_t trees = std::ssize(f.roots);
  ValueId place = e.broadcast_to(tables.known("roots", Tensor::of<std::int64_t>(Shape{1, trees}, f.roots)), {e.shape(x)[0], trees});
  const auto pick = [&](ValueId from) { return e.emit("Gather", {from, place}, {{"axis", std::int64_t{0}}}); };
  for (std::int64_t level = 0; level < f.levels; ++level) {
    const ValueId v = e.emit("GatherElements", {x, pick(features)}, {{"axis", std::int64_t{1}}}), threshold = pick(thresholds);
    ValueId taken;
    for (const std::int64_t mode : modes) {
      constexpr const char* compare[] = {"LessOrEqual", "Less", "GreaterOrEqual", "Greater", "Equal", "Equal"};
      ValueId holds;
      if (mode == member) {
        Shape apart = e.shape(v);
        apart.dims.push_back(1);
        const ValueId same = cast(e, e.emit("Equal", {e.reshape(v, apart), pick(members)}), DType::float32);
        holds = cast(e, e.emit("ReduceMax", {same}, {{"axes", Ints{2}}, {"keepdims", std::int64_t{0}}}), DType::boolean);
      } else {
        holds = e.emit(compare[mode], {v, threshold});
        if (mode == neq) holds = e.emit("Not", {holds});
      }
      taken = taken.present() ? e.emit("Where", {e.emit("Equal", {pick(kinds), tables.known("mode", Tensor::scalar(mode))}), holds, taken})
                              : holds;
    }
    if (tracks) taken = e.emit("Or", {taken, e.emit("And", {e.emit("IsNaN", {v}), pick(missing)})});
    place = e.emit("Where", {taken, pick(yes), pick(no)});
  }
  return place;
}

ValueId score(ExpandContext& e, const Forest& f, DType to) {
  const DType wide = e.type(e.x()).dtype == DType::float64 || to == DType::float64 ? DType::float64 : DType::float32;
  const Shape given = e.shape(e.x());
  const ValueId x = cast(e, e.reshape(e.x(), given.rank() == 1 ? Shape{1, given[0]} : given), wide);
  const Tables tables{e, f, wide};
  const ValueId place = leaves_of(tables, x);

  // What leaves count for other targets than theirs must not be the least or the greatest.
  const bool ends = f.aggregate == "MIN" || f.aggregate == "MAX";
  const double nothing = !ends                  ? 0
                         : f.aggregate == "MIN" ? std::numeric_limits<double>::infinity()
                                                : -std::numeric_limits<double>::infinity();
  std::vector<double> leaves(static_cast<std::size_t>(tables.nodes() * f.targets), nothing);
  for (const auto& [node, target, number] : f.weights) {
    double& at = leaves[static_cast<std::size_t>(node * f.targets + target)];
    at = ends ? number : at + number;
  }
  const ValueId all = e.emit("Gather", {tables.reals("leaves", {tables.nodes(), f.targets}, leaves), place}, {{"axis", std::int64_t{0}}});
  ValueId y = e.emit(f.aggregate == "MIN"   ? "ReduceMin"
                     : f.aggregate == "MAX" ? "ReduceMax"
                                            : "ReduceSum",
                     {all}, {{"axes", Ints{1}}, {"keepdims", std::int64_t{0}}});
  if (ends) y = e.emit("Where", {e.emit("Equal", {y, e.scalar(nothing, wide)}), e.scalar(0, wide), y});
  if (f.aggregate == "AVERAGE") y = e.mul(y, 1 / static_cast<double>(f.roots.size()));
  if (!f.base.empty()) y = e.add(y, tables.reals("base_values", {f.targets}, f.base));
  return y;
}

ValueId transformed(ExpandContext& e, ValueId y, std::string_view transform) {
  if (transform == "LOGISTIC") return e.emit("Sigmoid", {y});
  return transform == "SOFTMAX" ? e.emit("Softmax", {y}, {{"axis", std::int64_t{1}}}) : y;
}

std::vector<ValueId> expand_regressor(ExpandContext& e) {
  const DType to = float_of(e.attributes(), e.node().op->name == "TreeEnsemble" ? e.type(e.x()).dtype : DType::float32);
  const Forest f = parsed(e, e.shape(e.x()));
  return {cast(e, transformed(e, score(e, f, to), f.transform), to)};
}

// The labels, then the scores, as ONNX Runtime gives them. Where leaves count for one of two classes alone, the label is the second where
// their sum s is above 0.5, or above 0 where some count against it. Where they name the first, the scores are [1 − s, s] or, in the latter
// case, [−s, s].
std::vector<ValueId> expand_classifier(ExpandContext& e) {
  const Attributes& a = e.attributes();
  const DType to = float_of(a, DType::float32);
  const Forest f = parsed(e, e.shape(e.x()));
  ValueId y = score(e, f, to), best;
  const DType wide = e.type(y).dtype;
  const std::int64_t rows = e.shape(y)[0];
  if (f.one_of_two) {
    const bool for_it = std::ranges::none_of(f.weights, [](const auto& w) { return std::get<double>(w) < 0; });
    const ValueId sum = slice_axis(e, y, 1, f.targets - 1, f.targets);
    best = e.reshape(cast(e, e.emit("Greater", {sum, e.scalar(for_it ? 0.5 : 0.0, wide)}), DType::int64), {rows});
    if (f.targets == 1)
      y = e.emit("Concat", {for_it && f.transform == "NONE" ? e.sub(e.scalar(1, wide), y) : e.neg(y), y}, {{"axis", std::int64_t{1}}});
  } else {
    best = e.emit("ArgMax", {y}, {{"axis", std::int64_t{1}}, {"keepdims", std::int64_t{0}}});
  }
  y = transformed(e, y, f.transform);
  if (a.has("classlabels_int64s")) {
    const Ints& labels = a.ints("classlabels_int64s");
    best = e.emit(
        "Gather",
        {e.graph().add_constant(concat(e.node().name, "/labels"), Tensor::of<std::int64_t>(Shape{std::ssize(labels)}, labels)), best},
        {{"axis", std::int64_t{0}}});
  }
  return {best, cast(e, y, to)};
}

Shape rows_of(const InferContext& c) {
  const Shape& x = c.shape(0);
  if (x.rank() < 1 || x.rank() > 2) c.fail("input 0 is ", x, ", expected rows of features");
  return x.rank() == 1 ? Shape{1} : Shape{x[0]};
}
void infer_regressor(InferContext& c) {
  const Shape rows = rows_of(c);
  const DType x = c.node().op->name == "TreeEnsemble" ? c.input(0).dtype : DType::float32;
  c.set_output(0, float_of(c.attributes(), x), {rows[0], parsed(c, c.shape(0)).targets});
}
void infer_classifier(InferContext& c) {
  const Shape rows = rows_of(c);
  parsed(c, c.shape(0));
  c.set_output(0, DType::int64, rows);
  c.set_output(1, float_of(c.attributes(), DType::float32), {rows[0], labels_of(c.attributes())});
}
void follow_table(FollowContext& c) {
  if (c.x().rank() < 2 || c.place().axis != 0) c.fail("the samples lie along axis ", c.place().axis, " of ", c.x(), ", expected its rows");
  for (int i = 0; i < c.outputs(); ++i) c.set(i, c.place());
}

constexpr TypeSet table_types{DType::float32, DType::float64, DType::int64, DType::int32};

}  // namespace

// The sum, mean, least or greatest of what the trees' leaves have for each target
Operator tree_ensemble() {
  return {.name = "TreeEnsemble",
          .domain = ml,
          .since = {5},
          .types = {{"T", types::floats}},
          .infer = infer_regressor,
          .follow = follow_table,
          .differentiate = zero_gradient,
          .expand = expand_regressor,
          .type_attribute = output_dtype,
          .precision = PrecisionRole::parts,
          .operands = {{"X"}}};
}
Operator tree_ensemble_classifier() {
  return {.name = "TreeEnsembleClassifier",
          .domain = ml,
          .since = {1, 3, 5},
          .outputs = {2, 2},
          .types = {{"T1", table_types}},
          .infer = infer_classifier,
          .follow = follow_table,
          .differentiate = zero_gradient,
          .expand = expand_classifier,
          .type_attribute = output_dtype,
          .precision = PrecisionRole::parts,
          .operands = {{"X"}}};
}
Operator tree_ensemble_regressor() {
  return {.name = "TreeEnsembleRegressor",
          .domain = ml,
          .since = {1, 3, 5},
          .types = {{"T", table_types}},
          .infer = infer_regressor,
          .follow = follow_table,
          .differentiate = zero_gradient,
          .expand = expand_regressor,
          .type_attribute = output_dtype,
          .precision = PrecisionRole::parts,
          .operands = {{"X"}}};
}

}  // namespace tandem::operator_rows
