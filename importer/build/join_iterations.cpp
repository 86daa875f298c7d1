// Iterations that each compute the same of their own rows of one value, and whose results are put side by side, are one computation on rows
// of rows: exporters write a bag of embeddings as a Loop over the samples, each with its Slice of the indices. As many iterations as
// samples could not be followed through a batch; what stands here in their place can.
#include <algorithm>

#include "importer/build/builder.h"

namespace tandem {
namespace {

// What a part is computed by from the one before it.
struct Link {
  std::string op;
  Attributes attributes;
  Ints view;      // the part's shape, where the same elements take another
  ValueId table;  // a Gather's data: the part before it picks rows
  ValueId from;
  bool operator==(const Link& other) const {
    return op == other.op && view == other.view && table == other.table && to_string(attributes) == to_string(other.attributes);
  }
};

constexpr std::string_view views[] = {"Reshape", "Squeeze", "Unsqueeze", "Flatten"};
constexpr std::string_view reductions[] = {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"};

bool among(std::string_view op, std::span<const std::string_view> list) { return std::find(list.begin(), list.end(), op) != list.end(); }

const Node* maker(const Graph& graph, ValueId v) {
  if (!v.present() || !graph[v].producer.present()) return nullptr;
  const Node& node = graph[graph[v].producer];
  return node.op->domain.empty() && node.outputs.size() == 1 ? &node : nullptr;
}

std::optional<Link> link_of(const Graph& graph, ValueId v) {
  const Node* node = maker(graph, v);
  if (!node || node->inputs.empty()) return std::nullopt;
  const std::string op(node->op->name);
  if (op == "Slice") return Link{op, {}, {}, {}, node->inputs[0]};
  if (among(op, views)) return Link{"Reshape", {}, graph[v].type.shape.dims, {}, node->inputs[0]};
  if (among(op, reductions)) return Link{op, node->attributes, {}, {}, node->inputs[0]};
  if (op == "Gather" && node->attributes.integer("axis", 0) == 0) return Link{op, node->attributes, {}, node->inputs[0], node->inputs[1]};
  if (node->op->elementwise && node->inputs.size() == 1) return Link{op, node->attributes, {}, {}, node->inputs[0]};
  if (op != "Div" || graph[node->inputs[1]].kind != ValueKind::constant || graph[node->inputs[1]].type.shape.elements() != 1)
    return std::nullopt;
  const Node* sum = maker(graph, node->inputs[0]);  // a mean written out
  if (!sum || sum->op->name != "ReduceSum") return std::nullopt;
  const double count = static_cast<double>(graph[sum->inputs[0]].type.shape.elements()) /
                       static_cast<double>(std::max<std::int64_t>(1, graph[v].type.shape.elements()));
  if (graph[node->inputs[1]].data->to_doubles()[0] != count) return std::nullopt;
  return Link{"ReduceMean", sum->attributes, {}, {}, sum->inputs[0]};
}

// Whether the iterations' Slices are the rows of one value, all of them and in order, as many in each. Their number; 0: they are not.
std::int64_t rows_of_iterations(const Graph& graph, const std::vector<ValueId>& slices) {
  const ValueId source = maker(graph, slices[0])->inputs[0];
  const Shape& whole = graph[source].type.shape;
  if (whole.rank() == 0 || whole[0] % static_cast<std::int64_t>(slices.size()) != 0) return 0;
  const std::int64_t rows = whole[0] / static_cast<std::int64_t>(slices.size());
  for (std::size_t t = 0; t < slices.size(); ++t) {
    const Node& slice = *maker(graph, slices[t]);
    const Attributes& a = slice.attributes;
    if (slice.inputs[0] != source || a.ints("axes", {}) != Ints{0} || a.ints("steps", {1}) != Ints{1}) return 0;
    if (a.ints("starts") != Ints{static_cast<std::int64_t>(t) * rows} || graph[slices[t]].type.shape[0] != rows) return 0;
  }
  return rows;
}

// By which links the iterations' results follow from Slices, the last first; `parts` become these Slices. Nothing: not all by the same.
std::optional<std::vector<Link>> links_from_slices(const Graph& graph, std::vector<ValueId>& parts) {
  std::vector<Link> links;
  for (;;) {
    std::optional<Link> first;
    std::vector<ValueId> before;
    for (const ValueId v : parts) {
      std::optional<Link> link = link_of(graph, v);
      if (!link || (first && !(*link == *first))) return std::nullopt;
      before.push_back(link->from);
      if (!first) first = std::move(link);
    }
    if (first->op == "Slice") return links;
    links.push_back(*first);
    parts = std::move(before);
  }
}

}  // namespace

Symbol Builder::joined(const FlatNode& of, const List& iterations, bool new_axis, const std::string& suffix) {
  std::vector<ValueId> parts;
  for (const Symbol s : iterations) parts.push_back(s.present() ? value(s) : ValueId{});
  if (parts.empty() || !parts[0].present()) return {};
  // Where the followed graph has it so, this one has: its sizes are set after that one's, whatever iterations the file's numbers give here.
  const bool as_followed = own_ && own_->built.made.contains({-1, concat(of.id, of.iteration, '/', suffix, "/rows")});
  if (as_followed) parts.resize(1);
  Shape part = graph()[parts[0]].type.shape;
  if (!new_axis && part.rank() == 0) return {};
  std::optional<std::vector<Link>> links = links_from_slices(graph(), parts);
  if (!links) return {};
  const std::int64_t count = static_cast<std::int64_t>(parts.size());
  const std::int64_t rows = as_followed ? graph()[parts[0]].type.shape[0] : rows_of_iterations(graph(), parts);
  if (rows == 0) return {};
  const auto alias = [&](ValueId v, const std::string& what) {
    const Symbol s = new_symbol(graph()[v].name, {}, concat(of.id, of.iteration, '/', suffix, what));
    value(s) = v;
    return s;
  };
  const auto reshape = [&](Symbol s, Shape shape, const std::string& what) {
    const Symbol target = constant(of, Tensor::of<std::int64_t>(Shape{shape.rank()}, shape.dims), concat(suffix, what, "/shape"));
    return emit(of, "Reshape", {s, target}, {{"allowzero", std::int64_t{1}}}, concat(suffix, what));
  };
  const ValueId source = maker(graph(), parts[0])->inputs[0];
  Shape shape = graph()[source].type.shape;
  shape.dims[0] = rows;
  shape.dims.insert(shape.dims.begin(), count);
  Symbol whole = reshape(alias(source, "/source"), shape, "/rows");
  for (std::size_t i = links->size(); i-- > 0;) {
    Link& link = (*links)[i];
    const std::string what = concat("/step", i);
    if (!value(whole).present()) return whole;
    if (link.op == "Reshape") {
      Shape view(link.view);
      view.dims.insert(view.dims.begin(), count);
      whole = reshape(whole, view, what);
    } else if (link.table.present()) {
      whole = emit(of, link.op, {alias(link.table, what + "/table"), whole}, std::move(link.attributes), suffix + what);
    } else {
      if (link.attributes.has("axes")) {
        Ints axes = link.attributes.ints("axes");
        for (std::int64_t& a : axes) ++a;
        link.attributes.set("axes", std::move(axes));
      }
      whole = emit(of, link.op, {whole}, std::move(link.attributes), suffix + what);
    }
  }
  if (new_axis || !value(whole).present()) return whole;
  part.dims[0] *= count;
  return reshape(whole, part, "/joined");
}

}  // namespace tandem
