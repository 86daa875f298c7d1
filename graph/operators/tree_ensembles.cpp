// ai.onnx.ml's decision trees: what gradient boosting and forests become. All trees go down a level at once: a sample's place in each is a
// number of a node, and the nodes' features, thresholds and children are tables of it; a leaf is its own child. Nothing flows back:
// where a sample goes is constant almost everywhere.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "graph/operators/rules.h"

namespace tandem::operator_rows {
namespace {

constexpr std::string_view ml = "ai.onnx.ml";
constexpr std::int64_t largest_table = std::int64_t{1} << 26;  // leaves' numbers: nodes · targets

enum Mode : std::int64_t { leq, lt, gte, gt, eq, neq, member, leaf };  // as TreeEnsemble numbers them
constexpr std::string_view mode_names[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",    "BRANCH_GT",
                                           "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF"};
constexpr std::string_view aggregates[] = {"AVERAGE", "SUM", "MIN", "MAX"};
constexpr std::string_view transforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};

struct Forest {
  Ints roots, mode, feature, yes, no, missing_is_yes;  // of nodes; leaves are nodes of mode leaf
  std::vector<double> threshold;
  std::vector<std::vector<double>> members;           // of nodes of mode member
  std::vector<std::tuple<std::int64_t, std::int64_t, double>> weights;  // node, target, number
  std::int64_t targets = 1, levels = 0;
  std::vector<double> base;
  std::string_view aggregate = "SUM", transform = "NONE";
  bool one_of_two = false;  // of a classifier's two classes one alone is counted for; where it is the first, there is one target
};

template <std::size_t n>
std::string_view one_of(const std::string_view (&names)[n], std::string_view given, std::string_view what) {
  const auto* at = std::ranges::find(names, given);
  if (at == std::end(names)) fail(what, " is '", given, "', which is none that there is");
  return *at;
}
std::string_view one_of(std::span<const std::string_view> names, std::int64_t given, std::string_view what) {
  if (given < 0 || given >= std::ssize(names)) fail(what, " is ", given, ", expected 0 to ", names.size() - 1);
  return names[static_cast<std::size_t>(given)];
}

// A list of numbers under its name, or as a tensor under the name with _as_tensor behind.
std::vector<double> numbers(const Attributes& a, const std::string& name) {
  if (a.has(name + "_as_tensor")) return a.tensor(name + "_as_tensor").to_doubles();
  if (!a.has(name)) return {};
  const AttributeValue& value = *a.find(name);
  if (const Tensor* t = std::get_if<Tensor>(&value)) return t->to_doubles();
  const Floats& list = a.floats(name);
  return {list.begin(), list.end()};
}
const Strings& strings(const Attributes& a, std::string_view name) {
  const AttributeValue* value = a.find(name);
  const auto* list = value ? std::get_if<Strings>(value) : nullptr;
  if (!list) fail(name, " is missing");
  return *list;
}
void expect_size(std::string_view name, std::size_t size, std::size_t wanted) {
  if (size != wanted) fail(name, " has ", size, " entries, expected ", wanted);
}

// How many levels there are below the roots. Fails where branches meet again, and for a node that lies below no root.
void count_levels(Forest& f) {
  std::vector<bool> met(f.mode.size());
  Ints now = f.roots;
  for (; !now.empty(); ++f.levels) {
    Ints next;
    for (const std::int64_t node : now) {
      const auto n = static_cast<std::size_t>(node);
      if (met[n] && f.mode[n] != leaf) fail("its branches meet again at node ", node);
      met[n] = true;
      if (f.mode[n] == leaf) continue;
      next.insert(next.end(), {f.yes[n], f.no[n]});
    }
    now = std::move(next);
    if (now.empty()) break;
  }
  if (const auto lost = std::ranges::find(met, false); lost != met.end()) fail("node ", lost - met.begin(), " lies below no root");
}

void check(const Forest& f, const Shape& x) {
  const std::int64_t features = x[x.rank() - 1], nodes = std::ssize(f.mode);
  if (f.roots.empty()) fail("it has no tree");
  if (f.targets < 1 || f.targets > largest_table / std::max<std::int64_t>(1, nodes))
    fail("it gives ", f.targets, " numbers at ", nodes, " nodes, expected at most ", largest_table, " in all");
  for (std::size_t n = 0; n < f.mode.size(); ++n)
    if (f.mode[n] != leaf && (f.feature[n] < 0 || f.feature[n] >= features))
      fail("node ", n, " asks for feature ", f.feature[n], ", x has ", features);
  for (const auto& [node, target, number] : f.weights)
    if (target < 0 || target >= f.targets) fail("a leaf counts for target ", target, ", expected 0 to ", f.targets - 1);
  if (!f.base.empty() && std::ssize(f.base) != f.targets) fail("base_values has ", f.base.size(), " entries, expected ", f.targets);
}

// TreeEnsembleClassifier's and TreeEnsembleRegressor's: leaves are nodes, and all are named by tree and number.
Forest parse_named(const Attributes& a, const std::string& of_targets) {
  Forest f;
  const Ints trees = a.ints("nodes_treeids"), names = a.ints("nodes_nodeids"), yes = a.ints("nodes_truenodeids"),
             no = a.ints("nodes_falsenodeids");
  const std::size_t count = trees.size();
  f.feature = a.ints("nodes_featureids");
  f.missing_is_yes = a.ints("nodes_missing_value_tracks_true", Ints(count, 0));
  f.threshold = numbers(a, "nodes_values");
  expect_size("nodes_nodeids", names.size(), count);
  expect_size("nodes_truenodeids", yes.size(), count);
  expect_size("nodes_falsenodeids", no.size(), count);
  expect_size("nodes_featureids", f.feature.size(), count);
  expect_size("nodes_missing_value_tracks_true", f.missing_is_yes.size(), count);
  expect_size("nodes_values", f.threshold.size(), count);
  expect_size("nodes_modes", strings(a, "nodes_modes").size(), count);
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> place;
  for (std::size_t i = 0; i < count; ++i)
    if (!place.emplace(std::pair(trees[i], names[i]), static_cast<std::int64_t>(i)).second)
      fail("tree ", trees[i], " has node ", names[i], " twice");
  const auto find = [&](std::int64_t tree, std::int64_t name) {
    const auto at = place.find({tree, name});
    if (at == place.end()) fail("tree ", tree, " has no node ", name);
    return at->second;
  };
  std::set<std::int64_t> children;
  for (std::size_t i = 0; i < count; ++i) {
    f.mode.push_back(std::ranges::find(mode_names, one_of(mode_names, strings(a, "nodes_modes")[i], "nodes_modes")) - mode_names);
    if (f.mode.back() == member) fail("nodes_modes is 'BRANCH_MEMBER', which TreeEnsemble alone has");
    const auto self = static_cast<std::int64_t>(i);
    f.yes.push_back(f.mode.back() == leaf ? self : find(trees[i], yes[i]));
    f.no.push_back(f.mode.back() == leaf ? self : find(trees[i], no[i]));
    if (f.mode.back() != leaf) children.insert({f.yes.back(), f.no.back()});
  }
  for (std::size_t i = 0; i < count; ++i)
    if (!children.contains(static_cast<std::int64_t>(i))) f.roots.push_back(static_cast<std::int64_t>(i));
  if (f.roots.size() != std::set(trees.begin(), trees.end()).size()) fail("it has ", f.roots.size(), " roots, expected one for each tree");
  const Ints ids = a.ints(of_targets + "_ids"), of_tree = a.ints(of_targets + "_treeids"), of_node = a.ints(of_targets + "_nodeids");
  const std::vector<double> weights = numbers(a, of_targets + "_weights");
  for (const std::size_t size : {of_tree.size(), of_node.size(), weights.size()}) expect_size(of_targets + "_ids", ids.size(), size);
  for (std::size_t i = 0; i < ids.size(); ++i) f.weights.emplace_back(find(of_tree[i], of_node[i]), ids[i], weights[i]);
  f.base = numbers(a, "base_values");
  f.transform = one_of(transforms, a.text("post_transform", "NONE"), "post_transform");
  return f;
}

// TreeEnsemble's: leaves stand behind the nodes that branch.
Forest parse_leaves_apart(const Attributes& a) {
  Forest f;
  f.feature = a.ints("nodes_featureids");
  f.threshold = numbers(a, "nodes_splits");
  const std::size_t count = f.feature.size();
  const Ints modes = a.tensor("nodes_modes").to_int64s(), targets = a.ints("leaf_targetids");
  const std::vector<double> weights = numbers(a, "leaf_weights"), members = numbers(a, "membership_values");
  f.missing_is_yes = a.ints("nodes_missing_value_tracks_true", Ints(count, 0));
  expect_size("nodes_splits", f.threshold.size(), count);
  expect_size("nodes_modes", modes.size(), count);
  expect_size("nodes_missing_value_tracks_true", f.missing_is_yes.size(), count);
  expect_size("leaf_weights", weights.size(), targets.size());
  const auto children = [&](const std::string& side) {
    const Ints ids = a.ints("nodes_" + side + "nodeids"), leaves = a.ints("nodes_" + side + "leafs");
    expect_size("nodes_" + side + "nodeids", ids.size(), count);
    expect_size("nodes_" + side + "leafs", leaves.size(), count);
    Ints all;
    for (std::size_t i = 0; i < count; ++i) {
      if (ids[i] < 0 || ids[i] >= std::ssize(leaves[i] ? targets : ids))
        fail("nodes_", side, "nodeids is ", ids[i], ", which is no ", leaves[i] ? "leaf" : "node");
      all.push_back(ids[i] + (leaves[i] ? static_cast<std::int64_t>(count) : 0));
    }
    return all;
  };
  f.yes = children("true");
  f.no = children("false");
  f.members.resize(count + targets.size());
  auto next = members.begin();
  for (std::size_t i = 0; i < count; ++i) {
    one_of(std::span(mode_names).first(leaf), modes[i], "nodes_modes");
    f.mode.push_back(modes[i]);
    if (modes[i] != member) continue;
    for (; next != members.end() && !std::isnan(*next); ++next) f.members[i].push_back(*next);
    if (next != members.end()) ++next;
  }
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const auto self = static_cast<std::int64_t>(count + i);
    f.weights.emplace_back(self, targets[i], weights[i]);
    f.mode.push_back(leaf);
    f.feature.push_back(0);
    f.threshold.push_back(0);
    f.missing_is_yes.push_back(0);
    f.yes.push_back(self);
    f.no.push_back(self);
  }
  f.roots = a.ints("tree_roots");
  for (const std::int64_t root : f.roots)
    if (root < 0 || root >= static_cast<std::int64_t>(count)) fail("tree_roots is ", root, ", which is no node");
  f.targets = a.integer("n_targets", 1);
  f.aggregate = one_of(aggregates, a.integer("aggregate_function", 1), "aggregate_function");
  f.transform = one_of(transforms, a.integer("post_transform", 0), "post_transform");
  return f;
}

std::int64_t labels_of(const Attributes& a) {
  return a.has("classlabels_int64s") ? std::ssize(a.ints("classlabels_int64s")) : std::ssize(strings(a, "classlabels_strings"));
}

Forest forest_of(const Attributes& a, std::string_view op, const Shape& x) {
  Forest f;
  if (op == "TreeEnsemble") {
    f = parse_leaves_apart(a);
  } else if (op == "TreeEnsembleRegressor") {
    f = parse_named(a, "target");
    f.targets = a.integer("n_targets", 1);
    f.aggregate = one_of(aggregates, a.text("aggregate_function", "SUM"), "aggregate_function");
  } else {
    f = parse_named(a, "class");
    f.targets = labels_of(a);
    std::set<std::int64_t> classes;
    for (const auto& [node, target, number] : f.weights) classes.insert(target);
    f.one_of_two = f.targets == 2 && classes.size() == 1;
    if (f.one_of_two && classes.contains(0)) {
      if (f.transform != "NONE" && f.transform != "LOGISTIC")
        fail("post_transform is '", f.transform, "' where the first of two classes alone is counted for, expected NONE or LOGISTIC");
      f.targets = 1;
    }
  }
  if (f.transform == "PROBIT" || f.transform == "SOFTMAX_ZERO") fail("post_transform '", f.transform, "' is not supported");
  check(f, x);
  count_levels(f);
  return f;
}

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
