// What every stage speaks: a static dataflow graph. Nodes stand in topological order.
#pragma once
#include <compare>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/id_vector.h"
#include "graph/attributes.h"
#include "graph/batch.h"
#include "graph/layout.h"
#include "graph/phase.h"
#include "graph/placement.h"
#include "graph/shape.h"
#include "graph/tensor.h"

namespace tandem {

struct Operator;

struct ValueId {
  int index = -1;  // -1: absent (an optional operand that is not given)
  bool present() const { return index >= 0; }
  auto operator<=>(const ValueId&) const = default;
};
struct NodeId {
  int index = -1;
  bool present() const { return index >= 0; }
  auto operator<=>(const NodeId&) const = default;
};

enum class ValueKind {
  activation,  // a node's output
  input,       // given for every step; if it has a batch, it is axis 0
  parameter,   // kept from step to step, one replica a device: weights, running statistics, optimizer state
  constant,    // known now: `data` holds it
};

// What a value is for, where its kind does not say it. `of` is then what it belongs to.
enum class ValueRole {
  plain,            // data, activations, weights and statistics; of what a graph gives: the model's own output
  label,            // an input that the loss compares with; of several losses, `of` is the output
  step_state,       // an input that the runtime makes for each step; `of`: step_scalars, step_random or step_shares
  optimizer_state,  // a parameter that belongs to the optimizer, not to the template
  copy,             // a parameter that holds those of `of` in 16 bits, kept equal by updates
  loss,             // a scalar: the sum of the samples' losses over the global batch
  metric,           // what a step tells besides; `of` is its name
  gradient,         // of the loss with respect to the parameter `of`
  statistic,        // what the running statistic `of` moves towards
  share,            // a constant that is, on each device, the part of the samples that it has; 1 in the whole graph
  sample_weight,    // an input: how much each sample counts in the losses
  teacher,          // of the model that this one learns from: a parameter, or the scores
  file_loss,        // a value that the loss of another file gives; `of` is the value that it is computed on, if that has a name
  measure,          // what an evaluation tells of each sample; `of` is its name
};
inline constexpr ValueRole last_role = ValueRole::measure;
// What a step_state is: its rates and counts (StepScalars), or the place in its random stream.
inline constexpr std::string_view step_scalars = "scalars", step_random = "random", step_shares = "shares";

struct Value {
  std::string name;
  TensorType type;
  ValueKind kind = ValueKind::activation;
  ValueRole role = ValueRole::plain;
  std::string of;                 // a parameter's name, where the role is that of one; else as the role says
  NodeId producer;                // of an activation
  std::optional<Tensor> data;     // of a constant; of a parameter where the template gives its values
  bool trainable = false;         // of a parameter: the optimizer updates it
  bool opaque = false;            // dtype, shape and layout are the chosen kernel's affair (masks, indices, workspaces)
  bool depends_on_batch = false;  // computed from an input that holds samples; as read from a file: it holds them itself
  BatchPlace batch;               // as read from a file: where it holds them
  // A parameter may be held in another shape than the template's (a Gemm's weight as a 4-D filter): `data` and the
  // exporter speak the template's name, shape and row-major order; physically that is `type.shape` in `source`.
  Layout source;                  // any: row-major
  Shape template_shape;           // of a parameter
  Placement placement;            // where it lives, in a graph of several devices
};

struct Node {
  const Operator* op = nullptr;
  std::string name;
  Attributes attributes;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::vector<std::string> origin;  // names of the ONNX nodes it came from
  Phase phase = Phase::forward;     // of a plan with micro-batches
  int chunk = 0;                    // of the chunks of layers that one device has
};

// What a graph gives: a value, and what as. One value may be given as several things: as the gradient of two parameters.
struct GraphOutput {
  ValueId value;
  ValueRole role = ValueRole::plain;
  std::string of;
  GraphOutput(ValueId v, ValueRole r = ValueRole::plain, std::string name = {})
      : value(v), role(r), of(std::move(name)) {}  // NOLINT: a value is one
  operator ValueId() const { return value; }                                                                                 // NOLINT
  bool operator==(ValueId other) const { return value == other; }
};

// What a graph of one device holds of a parameter that is split.
struct PartOfParameter {
  std::pair<ValueRole, std::string> parameter;  // role and name
  Shape whole;                    // of the template's tensor
  std::vector<AxisRange> ranges;  // of it
};

class Graph {
 public:
  std::string name;
  IdVector<ValueId, Value> values;
  IdVector<NodeId, Node> nodes;
  std::vector<ValueId> inputs;
  std::vector<GraphOutput> outputs;
  std::vector<PartOfParameter> parts;
  std::vector<DeviceGroup> groups;    // on which its values are placed; none: it is one device's
  std::vector<std::string> warnings;  // what a user should know of how the model was read

  Value& operator[](ValueId id) { return values[id]; }
  const Value& operator[](ValueId id) const { return values[id]; }
  Node& operator[](NodeId id) { return nodes[id]; }
  const Node& operator[](NodeId id) const { return nodes[id]; }

  ValueId add_value(Value value);
  ValueId add_input(std::string name, TensorType type);
  ValueId add_parameter(std::string name, TensorType type, std::optional<Tensor> data, bool trainable);
  ValueId add_constant(std::string name, Tensor data);
  // Appends a node with `outputs` new activations and runs the operator's shape rule.
  NodeId add_node(const Operator& op, std::string name, Attributes attributes, std::vector<ValueId> inputs, int outputs,
                  std::vector<std::string> origin = {});
  // The model's value of that name: what was added to a model is found by its role.
  std::optional<ValueId> find(std::string_view value_name) const;
  std::optional<ValueId> find(ValueRole role, std::string_view of = {}) const;
  // That name where no value has it, else one behind "tandem/" that none has. It is for people: nothing is found by it.
  std::string free_name(std::string_view wanted) const;
  IdVector<ValueId, std::vector<NodeId>> consumers() const;
  IdVector<ValueId, int> uses() const;  // the places where a node reads a value, and the outputs that it is
};

// Fails at the first breach: operands in range, producers before consumers, one producer a value, types known.
void verify(const Graph& graph);
// A number that is known now, of one element.
std::optional<double> known_number(const Value& value);
// What an axis of a parameter, as it is held (`source`: Value::source), is in the template's tensor: an axis, or the outermost factor of
// one, as the channels that Flatten makes columns of; `each` of that one's places are one of the axis. Axis -1: none of it.
struct TemplateAxis {
  int axis = -1;
  std::int64_t each = 1;
};
TemplateAxis template_axis(const Shape& held, const Layout& source, const Shape& of_template, int axis);
int held_axis(const Shape& held, const Layout& source, const Shape& of_template, int axis);  // the other way; -1: none
std::string_view name_of(ValueRole role);
std::string print(const Graph& graph);  // a line for each input, parameter, node and output, for dumps and tests

}  // namespace tandem
