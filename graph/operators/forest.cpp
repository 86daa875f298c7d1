#include "graph/operators/forest.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "graph/operators/rules.h"

namespace tandem::operator_rows {
namespace {

constexpr std::int64_t largest_table = std::int64_t{1} << 26;  // leaves' numbers: nodes · targets

constexpr std::string_view mode_names[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",    "BRANCH_GT",
                                           "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF"};
constexpr std::string_view aggregates[] = {"AVERAGE", "SUM", "MIN", "MAX"};
constexpr std::string_view transforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};

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

}  // namespace

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

}  // namespace tandem::operator_rows
