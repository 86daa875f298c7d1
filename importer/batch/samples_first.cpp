#include "importer/batch/samples_first.h"

namespace tandem {
namespace {

constexpr const char* as_in_file = "/as_in_file";

// The axes of a value of that rank with axis `from` moved to place `to`.
Ints moved(int rank, int from, int to) {
  Ints perm;
  for (int i = 0; i < rank; ++i)
    if (i != from) perm.push_back(i);
  perm.insert(perm.begin() + to, from);
  return perm;
}

void mark_first(Value& v) {
  v.depends_on_batch = true;
  v.batch = {.axis = 0};
}

class Turn {
 public:
  Turn(Graph& graph, int axis, const std::string& name) : graph_(graph), axis_(axis), b_(graph, name, {}) {}

  ValueId operator()(ValueId v) {
    const NodeId maker = graph_[v].producer;
    const int rank = b_.shape(v).rank();
    if (!stays_last(maker)) return mark(axis_ == new_axis ? b_.reshape(v, with_one(b_.shape(v))) : b_.transpose(v, moved(rank, axis_, 0)));
    const Node node = graph_[maker];
    Attributes attributes = node.attributes;
    if (attributes.has("axis"))
      attributes.set("axis", std::int64_t{place_of(normalize_axis(attributes.integer("axis"), rank, node.op->name))});
    return mark(b_.emit(node.op->name, {(*this)(node.inputs[0])}, attributes));
  }

 private:
  bool stays_last(NodeId maker) const {
    if (!maker.present() || graph_[maker].outputs.size() != 1) return false;
    return graph_[maker].op->gives != OutputKind::plain || graph_[maker].op->name == "Identity";
  }
  static Shape with_one(Shape s) {
    s.dims.insert(s.dims.begin(), 1);
    return s;
  }
  int place_of(int axis) const { return axis_ == new_axis ? axis + 1 : axis == axis_ ? 0 : axis < axis_ ? axis + 1 : axis; }
  ValueId mark(ValueId v) {
    mark_first(graph_[v]);
    return v;
  }

  Graph& graph_;
  int axis_;
  GraphBuilder b_;
};

}  // namespace

ValueId add_input(Graph& graph, const std::string& name, const TensorType& type, int axis, bool one_sample) {
  Shape given = type.shape;
  if (one_sample) given.dims.insert(given.dims.begin(), 1);
  if (axis > 0) {
    given.dims.erase(given.dims.begin() + axis);
    given.dims.insert(given.dims.begin(), type.shape[axis]);
  }
  const ValueId in = graph.add_input(name, {type.dtype, given});
  graph[in].depends_on_batch = axis >= 0 || one_sample;
  if (axis <= 0 && !one_sample) return in;
  GraphBuilder b(graph, name, {});
  const ValueId own = one_sample ? b.reshape(in, type.shape) : b.transpose(in, moved(type.shape.rank(), 0, axis));
  graph[own].name = concat(name, as_in_file);
  return own;
}

ValueId samples_first(Graph& graph, ValueId value, int axis) {
  if (axis == 0) return value;
  const std::string name = graph[value].name;
  const ValueId turned = Turn(graph, axis, name)(value);
  if (graph[value].kind == ValueKind::activation) graph[value].name = concat(name, as_in_file);
  graph[turned].name = name;
  for (GraphOutput& out : graph.outputs)
    if (out.value == value) out.value = turned;
  return turned;
}

ValueId samples_first(Graph& graph, ValueId value) {
  const BatchPlace& place = graph[value].batch;
  return place.axis > 0 && place.outer == 1 ? samples_first(graph, value, place.axis) : value;
}

}  // namespace tandem
