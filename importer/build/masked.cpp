// What a mask picks is as long as the mask has ones, which a graph of known shapes cannot hold. Exporters write y[mask] = f(x[mask]) so:
// NonZero, GatherND by its places, what is done to each element, and a ScatterND by the same places. Here that is computed for all
// elements, and Where takes those of the mask. Where the mask does not pick, f is given ½: its gradient is multiplied by 0 there,
// which at a pole of f would be no number.
#include <algorithm>

#include "graph/follow.h"
#include "importer/build/builder.h"
#include "importer/build/check_operands.h"

namespace tandem {
namespace {

constexpr std::string_view ways_of_counting[] = {"Add", "Cast",    "Concat", "Gather",  "Identity", "Max",      "Min",
                                                 "Mul", "Reshape", "Slice",  "Squeeze", "Sub",      "Unsqueeze"};

// The mask, however often it was expanded to its own shape.
ValueId bare(const Graph& graph, ValueId mask) {
  while (graph[mask].producer.present()) {
    const Node& node = graph[graph[mask].producer];
    if ((node.op->name != "Expand" && node.op->name != "Identity") || graph[node.inputs[0]].type != graph[mask].type) break;
    mask = node.inputs[0];
  }
  return mask;
}

// Whether a mask of so many axes picks rows of x.
bool picks_rows(const Shape& mask, const Shape& x) {
  return mask.rank() > 0 && mask.rank() <= x.rank() && std::equal(mask.begin(), mask.end(), x.begin());
}

// Whether v broadcasts to each row alone: along the mask's axes it has one element.
bool is_of_rows(const Shape& v, int rows_rank) {
  for (int axis = 0; axis < v.rank() - rows_rank; ++axis)
    if (v[axis] != 1) return false;
  return true;
}

}  // namespace

const Builder::Masked* Builder::masked(const FlatNode& node, std::size_t input) const {
  const auto found = input < node.inputs.size() ? masked_.find(node.inputs[input].index) : masked_.end();
  return found == masked_.end() ? nullptr : &found->second;
}

// Once for each NonZero, as a problem of its own.
void Builder::refuse_masked(const Masked& m) {
  if (!refused_masks_.insert(m.node).second) return;
  FlatNode node;
  node.name = m.node;
  node.op = "NonZero";
  node.opset = m.opset;
  problem(node,
          "its operand must be known when the plan is made: how many elements are not zero is a shape. What y[mask] = f(x[mask]) is "
          "written as can be read; "
          "else multiply by the mask, or use Where, instead");
}

// The mask with an axis of one element for each of x behind it.
ValueId Builder::mask_for(const FlatNode& node, ValueId mask, const Shape& x) {
  Ints axes;
  for (int axis = graph()[mask].type.shape.rank(); axis < x.rank(); ++axis) axes.push_back(axis);
  return axes.empty() ? mask : GraphBuilder(graph(), node.name, {node.name}).emit("Unsqueeze", {mask}, {{"axes", axes}});
}

std::optional<Builder::Masked> Builder::picked(const FlatNode& node) {
  const Masked* const by = masked(node, 1);
  if (masked(node, 0) || !by || by->kind != Masked::tuples || node.attributes.integer("batch_dims", 0) != 0) return std::nullopt;
  const ValueId x = value(node.inputs[0]);
  const TensorType type = graph()[x].type;
  if (!picks_rows(graph()[by->mask].type.shape, type.shape)) return std::nullopt;
  Masked m = *by;
  m.kind = Masked::rows;
  m.full = x;
  if (!is_float(type.dtype)) return m;
  Draft where{.op = "Where",
              .domain = "",
              .opset = node.opset,
              .name = node.name,
              .attributes = {},
              .inputs = {mask_for(node, m.mask, type.shape), x}};
  where.inputs.push_back(GraphBuilder(graph(), node.name, {node.name}).scalar(0.5, type.dtype));
  m.full = add(node, where)[0];
  return m;
}

// What is done to each element alone.
std::optional<Builder::Masked> Builder::computed_of_rows(const FlatNode& node, const Operator& op) {
  Draft draft{.op = node.op, .domain = node.domain, .opset = node.opset, .name = node.name, .attributes = node.attributes, .inputs = {}};
  const Masked* first = nullptr;
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    if (const Masked* const m = masked(node, i)) {
      if (m->kind != Masked::rows || (first && bare(graph(), m->mask) != bare(graph(), first->mask))) return std::nullopt;
      first = m;
    }
  const int rows_rank = graph()[first->full].type.shape.rank() - graph()[first->mask].type.shape.rank();
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const Masked* const m = masked(node, i);
    if (!m && node.inputs[i].present() && !is_of_rows(graph()[value(node.inputs[i])].type.shape, rows_rank)) return std::nullopt;
    draft.inputs.push_back(m ? m->full : node.inputs[i].present() ? value(node.inputs[i]) : ValueId{});
  }
  Masked m = *first;
  check_types(op, graph(), draft.inputs);
  m.full = add(node, draft)[0];
  return m;
}

std::optional<Builder::Masked> Builder::masked_result(const FlatNode& node, const Masked& any) {
  const Masked* const first = masked(node, 0);
  const bool standard = node.domain.empty();
  Masked m = any;
  if (standard && first && node.op == "Transpose" && first->kind == Masked::places && node.attributes.ints("perm", {1, 0}) == Ints{1, 0}) {
    m.kind = Masked::tuples;
    return m;
  }
  if (standard && (node.op == "Shape" || node.op == "Size")) {
    m.kind = Masked::count;
    return m;
  }
  if (standard && node.op == "GatherND") return picked(node);
  if (standard && node.op == "Expand" && first && first->kind == Masked::rows) return *first;
  if (standard && node.op == "Expand" && !first && any.kind == Masked::count && graph()[value(node.inputs[0])].type.shape.elements() == 1) {
    m.kind = Masked::rows;
    m.full = value(node.inputs[0]);
    if (graph()[m.full].type.shape.rank() > 0) m.full = GraphBuilder(graph(), node.name, {node.name}).reshape(m.full, Shape{});
    m.broadcasts = true;
    return m;
  }
  if (standard && node.op == "Reshape" && first && first->kind == Masked::rows) {
    const Tensor* const shape = known(node.inputs.at(1));
    const bool flat = graph()[first->full].type.shape.rank() <= graph()[first->mask].type.shape.rank();
    return flat && shape && shape->to_int64s() == Ints{-1} ? std::optional(*first) : std::nullopt;
  }
  if (standard && any.kind == Masked::count && std::ranges::find(ways_of_counting, node.op) != std::end(ways_of_counting)) return m;
  const Operator* const op = find_operator(node.op, node.domain);
  if (!op || node.outputs.size() != 1 || (!op->elementwise && op->follow != follow_broadcast) || any.broadcasts) return std::nullopt;
  return computed_of_rows(node, *op);
}

// ScatterND by the places of a mask.
bool Builder::write_masked(const FlatNode& node) {
  const Masked *const by = masked(node, 1), *const updates = masked(node, 2);
  const std::string reduction = node.attributes.text("reduction", "none");
  if (masked(node, 0) || !by || by->kind != Masked::tuples || !updates || updates->kind != Masked::rows ||
      (reduction != "none" && reduction != "add"))
    return false;
  const ValueId data = value(node.inputs[0]);
  const TensorType type = graph()[data].type;
  if (!picks_rows(graph()[by->mask].type.shape, type.shape) || graph()[updates->full].type.dtype != type.dtype ||
      bare(graph(), by->mask) != bare(graph(), updates->mask))
    return false;
  if (broadcast(graph()[updates->full].type.shape, type.shape) != type.shape) return false;
  GraphBuilder b(graph(), node.name, {node.name});
  const ValueId now = reduction == "add" ? b.add(data, updates->full) : updates->full;
  Draft where{.op = "Where",
              .domain = "",
              .opset = node.opset,
              .name = node.name,
              .attributes = {},
              .inputs = {mask_for(node, by->mask, type.shape), now, data}};
  bind(node, add(node, where));
  return true;
}

bool Builder::run_masked(const FlatNode& node) {
  if (node.domain.empty() && node.op == "NonZero" && node.inputs.size() == 1 && node.outputs.size() == 1 && node.inputs[0].present() &&
      value(node.inputs[0]).present()) {
    const Value& mask = graph()[value(node.inputs[0])];
    if (mask.kind == ValueKind::constant || mask.type.dtype != DType::boolean) return false;
    masked_[node.outputs[0].index] = {
        .kind = Masked::places, .mask = value(node.inputs[0]), .full = {}, .broadcasts = false, .node = node.name, .opset = node.opset};
    return true;
  }
  const Masked* any = nullptr;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (const Masked* const m = masked(node, i))
      any = any && any->kind == Masked::rows ? any : m;
    else if (node.inputs[i].present() && !value(node.inputs[i]).present())
      return false;
  }
  if (!any) return false;
  if (node.domain.empty() && node.op == "ScatterND" && write_masked(node)) return true;
  const Masked kept = *any;
  if (const std::optional<Masked> result = masked_result(node, kept))
    masked_[node.outputs.at(0).index] = *result;
  else
    refuse_masked(kept);
  return true;
}

}  // namespace tandem
