// Where a node holds sizes as numbers (Reshape, Squeeze, Expand, Tile, Slice, ...), these are made anew from the shape that its output has
// to have. Operands that are to be there once for each sample are repeated by an Expand.
#include "importer/batch/rebatch.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace tandem {
namespace {

Shape scaled(Shape shape, const BatchPlace& place, std::int64_t from, std::int64_t to) {
  if (place.present()) shape[place.axis] = shape[place.axis] / from * to;
  return shape;
}

// The shape as [what is outside of the samples, samples, what is inside].
Shape around_samples(const Shape& shape, const BatchPlace& place, std::int64_t samples) {
  std::int64_t outside = place.outer;
  for (int i = 0; i < place.axis; ++i) outside *= shape[i];
  return {outside, samples, outside * samples == 0 ? 0 : shape.elements() / (outside * samples)};
}

// What a node's sizes are made from.
struct Sizes {
  const Shape& x;    // its operand now
  const Shape& y;    // what it is to give
  const Shape& own;  // the operand in the followed graph,
  BatchPlace place;  // and where the samples lie in it,
  BatchPlace result;  // and in what it gives
  const Node& node;  // as it is there, settled
  std::int64_t from, to;
  std::int64_t now(std::int64_t place_along) const { return place_along / from * to; }  // between runs of samples
};

// A Squeeze, too: it may take out the axis of a single sample.
void size_reshape(const Sizes& s, Draft& draft) {
  draft.op = "Reshape";
  draft.attributes = {{"shape", s.y.dims}, {"allowzero", std::int64_t{1}}};
}

void size_expand(const Sizes& s, Draft& draft) {
  draft.attributes.set("shape", s.y.dims);
}

void size_tile(const Sizes& s, Draft& draft) {
  Ints repeats;
  for (int i = 0; i < s.y.rank(); ++i) repeats.push_back(s.x[i] == 0 ? 1 : s.y[i] / s.x[i]);
  draft.attributes.set("repeats", std::move(repeats));
}

// A slice that took the whole axis, or whole runs of samples, still does.
void size_slice(const Sizes& s, Draft& draft) {
  Ints starts = draft.attributes.ints("starts"), ends = draft.attributes.ints("ends");
  const Ints axes = draft.attributes.ints("axes", {});
  for (std::size_t i = 0; i < std::min(starts.size(), ends.size()); ++i) {
    const std::int64_t axis = axes.empty() ? static_cast<std::int64_t>(i) : i < axes.size() ? axes[i] : -1;
    if ((axis < 0 ? axis + s.own.rank() : axis) != s.place.axis) continue;
    const Ints& settled = s.node.attributes.ints("axes");
    const auto found = static_cast<std::size_t>(std::find(settled.begin(), settled.end(), s.place.axis) - settled.begin());
    const bool whole = s.node.attributes.ints("steps").at(found) != 1;  // of a single sample
    starts[i] = whole ? 0 : s.now(s.node.attributes.ints("starts").at(found));
    ends[i] = whole ? std::numeric_limits<std::int64_t>::max() : s.now(s.node.attributes.ints("ends").at(found));
    if (draft.attributes.has("steps")) {
      Ints steps = draft.attributes.ints("steps");
      steps.at(i) = 1;
      draft.attributes.set("steps", std::move(steps));
    }
  }
  draft.attributes.set("starts", std::move(starts));
  draft.attributes.set("ends", std::move(ends));
}

// Equal parts of whole runs are so for any number of samples.
void size_split(const Sizes& s, Draft& draft) {
  if (!draft.attributes.has("split") || s.node.attributes.integer("axis") != s.place.axis) return;
  Ints sizes;
  for (const std::int64_t size : s.node.attributes.ints("split")) sizes.push_back(s.now(size));
  draft.attributes.set("split", std::move(sizes));
}

void size_affine_grid(const Sizes& s, Draft& draft) {
  Ints size = draft.attributes.ints("size");
  if (!size.empty()) size[0] = s.y[0];
  draft.attributes.set("size", std::move(size));
}

void size_resize(const Sizes& s, Draft& draft) {
  Ints sizes = draft.attributes.ints("sizes", {});
  const Ints axes = draft.attributes.ints("axes", {});
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::int64_t axis = axes.empty() ? static_cast<std::int64_t>(i) : i < axes.size() ? axes[i] : -1;
    if ((axis < 0 ? axis + s.own.rank() : axis) == s.place.axis) sizes[i] = s.y[s.place.axis];
  }
  if (!sizes.empty()) draft.attributes.set("sizes", std::move(sizes));
}

// Samples as groups of channels.
void size_convolution(const Sizes& s, Draft& draft) {
  if (s.result.axis == 1) draft.attributes.set("group", s.now(s.node.attributes.integer("group")));
}

struct Row {
  std::string_view op;
  void (*apply)(const Sizes&, Draft&);
};
constexpr Row rows[] = {
    {"Reshape", size_reshape}, {"Squeeze", size_reshape}, {"Expand", size_expand}, {"Tile", size_tile}, {"Slice", size_slice}, {"Split", size_split}, {"Resize", size_resize}, {"AffineGrid", size_affine_grid}, {"Conv", size_convolution}, {"ConvTranspose", size_convolution}};

}  // namespace

Tensor repeat_samples(const Tensor& tensor, const BatchPlace& place, std::int64_t from, std::int64_t to) {
  const Shape parts = around_samples(tensor.shape(), place, from);
  Tensor out(TensorType{tensor.dtype(), scaled(tensor.shape(), place, from, to)});
  const std::size_t part = static_cast<std::size_t>(parts[2]) * size_of(tensor.dtype());
  std::byte* next = out.write().data();
  for (std::int64_t outside = 0; outside < parts[0] && part > 0; ++outside)
    for (std::int64_t s = 0; s < to; ++s, next += part)
      std::memcpy(next, tensor.bytes().data() + static_cast<std::size_t>(outside * from) * part, part);
  return out;
}

Shape Rebatch::shape(ValueId own) const {
  return scaled(own_[own].type.shape, followed_.places[at(own.index)], from_, to_);
}

void Rebatch::apply(Graph& graph, NodeId node, Draft& draft) const {
  const Node& own = own_[node];
  if (const auto found = followed_.repeats.find(node); found != followed_.repeats.end())
    for (const FollowedBatch::Repeat& r : found->second) {
      ValueId& in = draft.inputs.at(at(r.input));
      in = repeated(graph, draft.name, in, own.inputs[at(r.input)], r.place);
    }
  const BatchPlace& out = followed_.places[at(own.outputs[0].index)];
  if (out.present() && draft.op.starts_with("Random") && (own.inputs.empty() || !followed_.places[at(own.inputs[0].index)].present()))
    return draw(graph, own.outputs[0], draft);
  if (!out.present() || own.inputs.empty() || !own.inputs[0].present() || !draft.inputs.at(0).present()) return;
  for (const Row& row : rows)
    if (row.op == draft.op) {
      const Shape y = shape(own.outputs[0]), x = graph[draft.inputs[0]].type.shape;
      row.apply({x, y, own_[own.inputs[0]].type.shape, followed_.places[at(own.inputs[0].index)], out, own, from_, to_}, draft);
      return;
    }
}

// Numbers that every sample draws, where the node's own sizes, or its operand's, are those of the file.
void Rebatch::draw(Graph& graph, ValueId own, Draft& draft) const {
  if (from_ == 1)
    graph.warnings.push_back(concat(draft.op, " '", draft.name, "': its numbers ", own_[own].type.shape,
                                    " are taken for those of one sample and drawn for each anew; a file made for a batch of one does not tell"));
  if (!draft.inputs.empty()) draft.op.resize(draft.op.size() - std::strlen("Like"));
  draft.inputs.clear();
  draft.attributes.set("shape", shape(own).dims);
  draft.attributes.set("dtype", static_cast<std::int64_t>(own_[own].type.dtype));
}

ValueId Rebatch::repeated(Graph& graph, const std::string& name, ValueId value, ValueId own, const BatchPlace& place) const {
  const Shape& before = own_[own].type.shape;
  const Shape after = scaled(before, place, from_, to_);
  const TensorType type = graph[value].type;
  if (type.shape == after) return value;  // it follows the batch by itself
  if (type.shape != before) fail("'", graph[value].name, "' is ", type.shape, " for ", to_, " samples and ", before, " for ", from_);
  GraphBuilder b(graph, name, {name});
  if (before[place.axis] == 1) return b.broadcast_to(value, after);
  const Shape parts = around_samples(before, place, from_);
  ValueId part = b.reshape(value, parts);
  if (from_ > 1)
    part = b.emit("Slice", {part}, {{"starts", Ints{0}}, {"ends", Ints{1}}, {"axes", Ints{1}}, {"steps", Ints{1}}});
  return b.reshape(b.broadcast_to(part, Shape{parts[0], to_, parts[2]}), after);
}

ValueId Rebatch::once(Graph& graph, ValueId value, ValueId own, Budget& budget) const {
  const auto found = followed_.copies.find(own);
  Value& v = graph[value];
  if (found == followed_.copies.end() || v.type.shape != own_[own].type.shape) return value;
  const BatchPlace& place = found->second;
  if (v.kind == ValueKind::constant) {
    budget.make_constant(bytes_of({v.type.dtype, scaled(v.type.shape, place, from_, to_)}));
    v.data = repeat_samples(*v.data, place, from_, to_);
    v.type = v.data->type();
    return value;
  }
  if (v.kind != ValueKind::parameter) return value;
  const Shape held = scaled(v.type.shape, place, from_, 1);
  if (v.trainable)
    graph.warnings.push_back(concat("'", v.name, "' ", v.type.shape, " holds the same for each of the ", from_,
                                    " samples of the file's batch: it is trained as one, ", held));
  v.type.shape = v.template_shape = held;
  if (v.data) v.data = repeat_samples(*v.data, place, from_, 1);
  const std::string name = v.name;
  GraphBuilder b(graph, name, {});
  if (held[place.axis] == 1) return b.broadcast_to(value, shape(own));
  const Shape parts = around_samples(held, place, 1);
  return b.reshape(b.broadcast_to(b.reshape(value, parts), Shape{parts[0], to_, parts[2]}), shape(own));
}

}  // namespace tandem
