// Where an operator's rule for placement (Operator::place) reads how its operands are split along one axis of a mesh, and
// says how its results are. The rule holds part by part: a device computes its part of each result from its parts of the
// operands that are split, and from whole ones, exactly as the operator computes the whole; what it sums over the split axis
// is an addend. A rule may take for granted that some operand is split and none partial, and sees the whole values' shapes.
#pragma once
#include "graph/follow.h"
#include "graph/operator.h"

namespace tandem {

class PlaceContext : public FollowContext {
 public:
  // `batch` is then the parts together (MeshAxis::total)
  PlaceContext(const Graph& graph, const Node& node, std::span<const Part> operands, std::int64_t batch);
  bool split(int input) const { return place(input).present(); }
  bool split(int input, int axis) const { return place(input).axis == axis; }
  void sum(int output) { sums_.push_back(output); }  // each device's is an addend
  void own(int output) { owns_.push_back(output); }  // each device's is its own
  void need(int input, BatchPlace place) { repeat(input, place.axis, place.outer); }  // this operand must be split so, too
  void once(int input) { onces_.push_back(input); }  // this whole operand is one device's addend
  // Which runs an operand that is split lies in, along its axis: their lengths, all parts together. A rule that does not ask works on
  // parts as they come: where its results have as many units outside, they lie in such runs, too.
  std::vector<std::int64_t> runs(int input) const;
  void set_runs(int output, int axis, std::vector<std::int64_t> lengths) {
    runs_.emplace_back(output, Part::runs(axis, std::move(lengths)));
  }
  const std::vector<std::pair<int, Part>>& in_runs() const { return runs_; }
  const std::vector<int>& sums() const { return sums_; }
  const std::vector<int>& owns() const { return owns_; }
  const std::vector<int>& onces() const { return onces_; }

 private:
  std::span<const Part> parts_;
  std::vector<std::pair<int, Part>> runs_;  // by output
  std::vector<int> sums_, owns_, onces_;
};

// How values lie along one axis of a mesh, and what brings them together. What is put in is placed as it is said; it lies along other
// axes as the value `like`.
class DeviceParts {
 public:
  virtual ~DeviceParts() = default;
  virtual Part part(ValueId v) const = 0;
  virtual ValueId put(ValueId v, Part part, ValueId like) = 0;  // returns v
  // Names are copies: that of a value of the graph is lost when the graph grows.
  virtual ValueId sum(ValueId addends, std::string of) = 0;      // the whole on every device; `of`: for people
  virtual ValueId largest(ValueId each, std::string of) = 0;  // of what devices have, by element, on every device
  virtual ValueId transfer(ValueId v, Part to, const MeshAxis& mesh) = 0;  // the value placed so; put in once
  // Of a whole value the parts along that axis, where something that it is made of is made in such parts already; else absent.
  virtual ValueId made_in_parts(ValueId v, int axis, const MeshAxis& mesh) = 0;
  // What each device has, as an addend of the mean over all samples: times the device's share of them. Where one has all samples, that
  // one's is the mean. `count`: of values that the whole's variance would be of, where each device's is made unbiased; else 1.
  virtual ValueId by_share(ValueId each, std::string name, std::int64_t count = 1) = 0;
  virtual ValueId& known(const std::string& key) = 0;  // what a rule has put in for several nodes, by a key of its own
};

// Where an operator's rule (Operator::by_parts) writes a node anew, or changes its operands and attributes, by how its operands lie.
class PartsContext : public GraphBuilder {
 public:
  PartsContext(Graph& graph, const Node& n, const MeshAxis& axis, DeviceParts& d)
      : GraphBuilder(graph, n.name, n.origin), node(n), mesh(axis), devices(d) {}
  Node node;               // a copy: emitting nodes moves the graph's own. The rule may change it
  const MeshAxis& mesh;
  DeviceParts& devices;
  std::vector<ValueId> results;  // what stands for the node's outputs; none: the node stays
  Part part(int input) const { return devices.part(node.inputs[static_cast<std::size_t>(input)]); }
  // A node whose result lies as `part` says, and along other axes of the mesh as the value `like`.
  ValueId emit_as(Part part, ValueId like, std::string_view op, std::vector<ValueId> in, Attributes a = {}) {
    return devices.put(emit(op, std::move(in), std::move(a)), std::move(part), like);
  }
};

// What a node makes of the parts of its operands along a mesh axis.
struct NodePlacement {
  std::vector<Part> inputs;   // as it needs them: where an operand is placed otherwise, a transfer has to stand before it
  std::vector<Part> outputs;
  std::string reason;         // why an operand that is split has to be whole; empty: none has
};
NodePlacement place_node(const Graph& graph, const Node& node, std::span<const Part> operands, const MeshAxis& mesh);

// Of a node that gives addends of a sum where its operands lie in parts: that sum on every device, of its first operands and without its
// activation. Absent where it gives none.
ValueId sum_of_addends(PartsContext& c, std::size_t operands);
// The node's activation of the sum; or, with the value that it was of, the gradient through it.
ValueId activated(PartsContext& c, ValueId sum, ValueId of = {});

// Of a value whose parts lie along an axis: the value as it is computed with (float32 for 16 bits), and its largest element along that
// axis, which then has one index, on every device. Put in once.
struct LargestAlong {
  ValueId x, largest;
};
LargestAlong largest_along(PartsContext& c, ValueId x, int axis);

// Of some nodes any part of the result can be computed of whole operands, and costs no more than its share: whether this is one, and that
// part (the gradient of a table by its rows).
bool gives_any_part(const Node& node, Part wanted);
ValueId part_of_result(PartsContext& c, Part wanted);

// The attributes of a node as they are for a part of its results: what they say of whole shapes is said of the part's.
Attributes local_attributes(const Node& node, const Shape& whole, const Shape& local);

// Rules that operators share; they fail where parts would meet.
void place_rows(PlaceContext& c);     // operand 0 by rows, others that are split as well; every result by rows
void place_as_first(PlaceContext& c);  // every result as operand 0, of the same shape
void place_uncut(PlaceContext& c);     // result 0 as operand 0, along an axis that is as long in both
void place_summed_rows(PlaceContext& c);  // operands 0 and 1 by rows, over which every result is a sum
void place_update(PlaceContext& c);    // each tensor with its gradient, states and copy

}  // namespace tandem
