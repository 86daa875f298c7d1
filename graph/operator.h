// An operator is one row of operators/rows.inc, which a function in its family's file there returns. All that importer, planner and
// trainer ask of an operator is in it: shape rule, gradient, expansion, folding, cost, what its operands are, how it runs in 16 bits.
#pragma once
#include <functional>
#include <span>

#include "graph/graph.h"

namespace tandem {

class FollowContext;  // graph/follow.h
class PlaceContext;   // graph/place.h
class PartsContext;   // graph/place.h

// Where an operator's shape rule reads its node and writes its outputs' types.
class InferContext {
 public:
  InferContext(Graph& graph, Node& node) : graph_(graph), node_(node) {}
  Node& node() { return node_; }
  const Attributes& attributes() const { return node_.attributes; }
  int inputs() const { return static_cast<int>(node_.inputs.size()); }
  int outputs() const { return static_cast<int>(node_.outputs.size()); }
  bool has_input(int i) const { return i < inputs() && node_.inputs[static_cast<std::size_t>(i)].present(); }
  bool has_output(int i) const { return i < outputs() && node_.outputs[static_cast<std::size_t>(i)].present(); }
  const TensorType& input(int i) const;  // fails where it is absent
  const Shape& shape(int i) const { return input(i).shape; }
  const Tensor* constant(int i) const;   // the input's value where it is known now, else null
  void set_output(int i, TensorType type);
  void set_output(int i, DType dtype, Shape shape) { set_output(i, TensorType{dtype, std::move(shape)}); }
  void set_opaque_output(int i);         // uint8[0]: the kernel decides
  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    tandem::fail(where(), parts...);
  }

 private:
  std::string where() const;  // "Conv 'conv1': "
  Graph& graph_;
  Node& node_;
};

// Appends nodes to a graph; every helper returns the new value. Binary helpers broadcast as ONNX does.
class GraphBuilder {
 public:
  GraphBuilder(Graph& graph, std::string prefix, std::vector<std::string> origin)
      : graph_(graph), prefix_(std::move(prefix)), origin_(std::move(origin)) {}
  Graph& graph() { return graph_; }
  TensorType type(ValueId v) const { return graph_[v].type; }   // copies: emitting moves the graph's own
  Shape shape(ValueId v) const { return graph_[v].type.shape; }

  ValueId emit(std::string_view op, std::vector<ValueId> inputs, Attributes attributes = {});
  std::vector<ValueId> emit(std::string_view op, std::vector<ValueId> inputs, Attributes attributes, int outputs);

  ValueId scalar(double value, DType dtype);  // a rank-0 constant
  ValueId add(ValueId a, ValueId b) { return emit("Add", {a, b}); }
  ValueId sub(ValueId a, ValueId b) { return emit("Sub", {a, b}); }
  ValueId mul(ValueId a, ValueId b) { return emit("Mul", {a, b}); }
  ValueId div(ValueId a, ValueId b) { return emit("Div", {a, b}); }
  ValueId neg(ValueId a) { return emit("Neg", {a}); }
  ValueId mul(ValueId a, double b) { return mul(a, scalar(b, type(a).dtype)); }
  ValueId add(ValueId a, double b) { return add(a, scalar(b, type(a).dtype)); }
  ValueId reshape(ValueId a, Shape shape);    // returns `a` where nothing changes
  ValueId transpose(ValueId a, Ints perm);
  ValueId reduce_sum(ValueId a, Ints axes, bool keepdims);
  ValueId sum_to(ValueId a, Shape shape);  // undoes a broadcast: sums the axes along which `shape` was repeated
  ValueId broadcast_to(ValueId a, Shape shape);  // Expand, or `a` where nothing changes
  // The graph input of that role, added where it is not there yet. `name`: for people, where it is free.
  ValueId input(std::string_view name, TensorType type, ValueRole role, std::string_view of = {});

 private:
  Graph& graph_;
  std::string prefix_;
  std::vector<std::string> origin_;
};

// What a gradient rule sees. x(i), y(i): the node's inputs and outputs; dy(i): the gradient of the loss with respect
// to output i (absent where nothing flows back through it). Rules set_dx for the inputs that are wanted.
class GradientContext : public GraphBuilder {
 public:
  GradientContext(Graph& graph, NodeId node, std::vector<ValueId> dy, std::vector<bool> wanted);
  const Node& node() const { return node_; }
  const Attributes& attributes() const { return node_.attributes; }
  int inputs() const { return static_cast<int>(node_.inputs.size()); }
  bool has_x(int i) const { return i < inputs() && node_.inputs[static_cast<std::size_t>(i)].present(); }
  ValueId x(int i = 0) const { return node_.inputs[static_cast<std::size_t>(i)]; }
  ValueId y(int i = 0) const { return node_.outputs[static_cast<std::size_t>(i)]; }
  ValueId dy(int i = 0) const { return dy_[static_cast<std::size_t>(i)]; }
  bool has_dy(int i) const { return dy_[static_cast<std::size_t>(i)].present(); }
  bool wants(int i) const { return i < inputs() && wanted_[static_cast<std::size_t>(i)]; }
  void set_dx(ValueId dx) { set_dx(0, dx); }
  void set_dx(int i, ValueId dx);  // fails where the shape is not x(i)'s
  const std::vector<ValueId>& dx() const { return dx_; }

 private:
  Node node_;  // a copy: emitting nodes moves the graph's own
  std::vector<ValueId> dy_;
  std::vector<bool> wanted_;
  std::vector<ValueId> dx_;
};

// What an expansion sees: it emits nodes that compute the node's outputs and returns them.
class ExpandContext : public GraphBuilder {
 public:
  ExpandContext(Graph& graph, const Node& node) : GraphBuilder(graph, node.name, node.origin), node_(node) {}
  const Node& node() const { return node_; }
  const Attributes& attributes() const { return node_.attributes; }
  bool has_x(int i) const { return i < static_cast<int>(node_.inputs.size()) && x(i).present(); }
  ValueId x(int i = 0) const { return node_.inputs[static_cast<std::size_t>(i)]; }
  bool training = false;  // the plan trains: Dropout and BatchNormalization take their training form

 private:
  Node node_;
};

// What constant folding sees: all inputs known (absent optional ones undefined). Returns the outputs, or nothing
// where this case is not folded.
struct FoldContext {
  const Node& node;
  std::vector<Tensor> inputs;
  std::vector<TensorType> outputs;
  std::vector<TensorType> input_types;  // needed where `folds_types`
};

// An operand whose value must be known when the plan is made. The importer moves it into the attribute, so that
// shape rules, gradients and kernels see one form for all opsets.
struct StaticOperand {
  int input;
  std::string_view attribute;
  bool or_computed = false;  // stays an operand where its value is computed
};

// An elementwise operator's numeric attribute, in the order in which its kernel takes them.
struct ElementwiseParameter {
  std::string_view attribute;
  float absent;  // ONNX's default
};

// What an operand is to its operator: whether a tensor that the template holds there is a weight, with what values it
// starts, and whether the loss's gradient flows back through it.
enum class OperandRole {
  data,               // numbers like any other: a weight may reach the loss through them
  unchanged,          // the output is the operand, its elements in their order: what that is used for, the operand is
  view,               // so it is, but some of the elements, or in another order, repeated, or beside others
  mean, variance,     // running statistics, kept by a rule of their own
  filter,             // [M, C/group, ...]
  transposed_filter,  // [C, M/group, ...]
  matrix,             // the left factor of a product [..., out, in], or the right one [..., in, out]; transA, transB turn them
  embedding,          // rows to pick from
  scale, bias,        // of channels or features
  slope,              // below zero
  radicand,           // data under a root: a variance where a normalization is written out
  addend, factor,     // data to add, to multiply or divide by
  exponent,           // data
  class_weights,      // a constant of the task
  constant,           // of the formula: no gradient
  bound,              // data that is a constant of the formula, unless the file or the user says that it is trained
  positions,          // along axis `axis` of operand 0, negative ones from its end: no gradient
  classes,            // positions along axis 1 of operand 0, but for `ignore_index`: no gradient
  index,              // other indices, shapes and conditions: no gradient
};
constexpr bool is_view(OperandRole role) { return role == OperandRole::unchanged || role == OperandRole::view; }

// In which width an operator computes in a plan of mixed precision.
enum class PrecisionRole {
  unsaid,   // only internal operators may say nothing: those that are put in after this is chosen
  narrow,   // in 16 bits, whatever it is given
  follows,  // in 16 bits where all activations that it reads are; so does an elementwise operator that says nothing
  wide,     // in float32: its results leave the range of 16 bits or lose their precision
  parts,    // always expanded: as what it is expanded into
};

struct OperandRow {
  std::string_view name;  // ONNX's
  OperandRole role = OperandRole::data;
  bool wide = false;      // float32 also where the operator computes in 16 bits
};

// What an operator makes of scores, its operand 0. A loss on its output is computed from the scores, which is exact where
// log(softmax(x)) would round.
enum class OutputKind { plain, softmax, log_softmax, sigmoid };

// How many operands an operator takes or gives, over all opsets that are read. Those before `least` are never left out; of
// a list without end (`any`) none is.
struct Arity {
  static constexpr int any = 1 << 30;
  int least = 1, most = 1;
};

// A set of element types.
class TypeSet {
 public:
  constexpr TypeSet(std::initializer_list<DType> list) {
    for (const DType t : list) bits_ |= bit(t);
  }
  constexpr TypeSet(const TypeSet& set, std::initializer_list<DType> more) : TypeSet(more) { bits_ |= set.bits_; }
  constexpr TypeSet(const TypeSet& a, const TypeSet& b, const TypeSet& c, std::initializer_list<DType> more) : TypeSet(more) {
    bits_ |= a.bits_ | b.bits_ | c.bits_;
  }
  constexpr bool has(DType t) const { return (bits_ & bit(t)) != 0; }

 private:
  static constexpr std::uint64_t bit(DType t) { return std::uint64_t{1} << (static_cast<unsigned>(t) & 63U); }
  std::uint64_t bits_ = 0;
};
namespace types {
inline constexpr TypeSet booleans{DType::boolean}, integers_64{DType::int64}, indices{DType::int32, DType::int64};
inline constexpr TypeSet floats{DType::float32, DType::float64, DType::float16, DType::bfloat16};
inline constexpr TypeSet pixels(floats, {DType::int8, DType::uint8});
inline constexpr TypeSet signed_numbers(floats, {DType::int8, DType::int16, DType::int32, DType::int64});
inline constexpr TypeSet wide_numbers(floats, {DType::int32, DType::int64, DType::uint32, DType::uint64});
inline constexpr TypeSet numbers(wide_numbers, {DType::int8, DType::int16, DType::uint8, DType::uint16});
inline constexpr TypeSet all(numbers, {DType::boolean});
inline constexpr TypeSet small_integers{DType::uint4, DType::int4, DType::uint2, DType::int2};
inline constexpr TypeSet small_floats{DType::float8e4m3fn, DType::float8e4m3fnuz, DType::float8e5m2, DType::float8e5m2fnuz,
                                      DType::float4e2m1,   DType::float6e2m3,     DType::float6e3m2};
inline constexpr TypeSet stored(all, small_integers, small_floats, {DType::float8e8m0});  // what only moves takes them all
}  // namespace types

// What element types an operand may have, in the newest definition or one before. Operands of one name have one type.
struct OperandType {
  std::string_view name;  // ONNX's of the constraint: "T"; I, B: int64 and booleans, which need none
  TypeSet allowed;
};

// In which operands an operator is linear: of what is linear in a partial sum, the results are partial sums, too.
enum class Linear {
  no,
  sum,      // in all together: f(a + a', b + b') = f(a, b) + f(a', b')
  product,  // in each alone
  first,    // in the first
};

// What an operator does with a value that lies on several devices: it brings the value where it is needed, as it is.
enum class Moves {
  nothing,  // it computes
  // Several devices take part.
  sum,      // of the addends that devices have: each gets their sum, or the largest
  gather,   // of the parts that devices have: each gets the whole
  scatter,  // of the addends that devices have: each gets its part of their sum
  send,     // to the devices of another group
  receive,  // from those
  // A device does it alone.
  part,     // of a whole value: its part
  addend,   // of a whole value: an addend
};
struct Operator {
  std::string_view name;
  std::string_view domain;                   // "" = ai.onnx, "tandem" = internal
  std::vector<int> since;                    // opset versions in which its definition changed, all of them supported
  Arity inputs, outputs;                     // of an ONNX operator; checked before any of its functions runs,
  std::vector<OperandType> types;            // and so are its operands' element types: by place, the last for all that follow
  void (*infer)(InferContext&) = nullptr;
  // How a batch's samples pass through it; null: follow_broadcast where it is elementwise, else they cannot be followed.
  void (*follow)(FollowContext&) = nullptr;
  // Which parts of its results it can compute from which parts of its operands; null: as a batch's samples pass through it.
  void (*place)(PlaceContext&) = nullptr;
  // Writes a node anew, or changes it, by what devices have of its operands: a mean over parts as a sum and its factor.
  void (*by_parts)(PartsContext&) = nullptr;
  Linear linear = Linear::no;
  Moves moves = Moves::nothing;
  void (*differentiate)(GradientContext&) = nullptr;             // null: not differentiable (or only through `expand`)
  std::vector<ValueId> (*expand)(ExpandContext&) = nullptr;      // null: has kernels. Runs before differentiation
  std::optional<std::vector<Tensor>> (*fold)(const FoldContext&) = nullptr;
  double (*flops)(const Graph&, const Node&) = nullptr;          // null: one per output element
  std::vector<StaticOperand> static_operands;
  bool folds_types = false;  // `fold` reads the inputs' types only (Shape, Size): the inputs need not be known
  // Output i of an update overwrites input in_place[i], a parameter (SgdUpdate, RunningStatistics). An update of
  // several tensors repeats the pattern: output i of tensor t overwrites input in_place[i] + t * (inputs - 1) / tensors.
  std::vector<int> in_place;
  // Output 0 is what operand 0, an activation, becomes in its own memory: each micro-batch adds to it.
  bool accumulates = false;
  std::string_view runs_as;                                      // the operator whose kernels compute it; empty: its own
  // In place, but no optimizer's: operand 0 follows operand 1, which is a statistic of the batch.
  bool keeps_statistic = false;
  // Computes each output element from the input elements at the same (broadcast) place: the planner may fuse it into
  // an Elementwise program (docs/internal-operators.md).
  bool elementwise = false;
  std::vector<ElementwiseParameter> parameters;
  std::string_view type_attribute;                      // names the element type of the output
  PrecisionRole precision = PrecisionRole::unsaid;
  OutputKind gives = OutputKind::plain;
  bool rectifies = false;          // an activation that loses half of the variance, which he-normal makes up for
  bool undoes_activation = false;  // its gradient rule undoes a fused activation; for others that is done before it
  std::vector<OperandRow> operands;  // by place, the last for all that follow; an elementwise operator's may be left out: data
};

inline bool is_exchange(const Node& node) { return node.op->moves != Moves::nothing && node.op->moves < Moves::part; }

std::span<const Operator> operators();  // all rows, ONNX's first, sorted by name within a domain
const Operator* find_operator(std::string_view name, std::string_view domain = "");  // null: unknown
OperandRow operand_of(const Operator& op, int input);  // a static operand that is not listed is a constant
PrecisionRole precision_of(const Operator& op);
const Operator& internal_operator(std::string_view name);  // ONNX's or internal; fails: a programming error

// The node of this operator that makes the value, as its first output; null where another does.
const Node* made_by(const Graph& graph, ValueId v, std::string_view op);

// Which nodes are needed: those that write parameters, those that are kept, and those that an output or a needed node reads.
IdVector<NodeId, bool> needed_nodes(const Graph& graph, bool (*kept)(const Node&) = [](const Node&) { return false; });

// Floating-point operations of a node (a multiply-add counts two).
double flops_of(const Graph& graph, const Node& node);

// What the node writes in place, in the order of its outputs (Operator::in_place); nothing for most nodes.
std::vector<ValueId> updated_by(const Node& node);

}  // namespace tandem
