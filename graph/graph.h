// What every stage speaks: a static dataflow graph. Nodes stand in topological order.
#pragma once
#include <compare>
#include <optional>
#include <string>
#include <vector>

#include "graph/attributes.h"
#include "graph/batch.h"
#include "graph/layout.h"
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

struct Value {
  std::string name;
  TensorType type;
  ValueKind kind = ValueKind::activation;
  NodeId producer;                // of an activation
  std::optional<Tensor> data;     // of a constant; of a parameter where the template gives its values
  bool trainable = false;         // of a parameter: the optimizer updates it
  bool optimizer_state = false;   // of a parameter: it belongs to the optimizer, not to the template
  std::string copy_of;            // of a parameter: the one whose values it holds in 16 bits, kept equal by updates
  bool opaque = false;            // dtype, shape and layout are the chosen kernel's affair (masks, indices, workspaces)
  bool depends_on_batch = false;  // computed from an input that holds samples; as read from a file: it holds them itself
  BatchPlace batch;               // as read from a file: where it holds them
  // A parameter may be held in another shape than the template's (a Gemm's weight as a 4-D filter): `data` and the
  // exporter speak the template's name, shape and row-major order; physically that is `type.shape` in `source`.
  Layout source;                  // any: row-major
  Shape template_shape;           // of a parameter
};

struct Node {
  const Operator* op = nullptr;
  std::string name;
  Attributes attributes;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::vector<std::string> origin;  // names of the ONNX nodes it came from
};

// running = momentum * running + (1 - momentum) * value, after every training step.
struct StateUpdate {
  ValueId parameter;
  ValueId value;
  float momentum;
};

class Graph {
 public:
  std::string name;
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::vector<StateUpdate> state_updates;  // filled by expansions for training
  std::vector<std::string> warnings;       // what a user should know of how the model was read

  Value& operator[](ValueId id) { return values[static_cast<std::size_t>(id.index)]; }
  const Value& operator[](ValueId id) const { return values[static_cast<std::size_t>(id.index)]; }
  Node& operator[](NodeId id) { return nodes[static_cast<std::size_t>(id.index)]; }
  const Node& operator[](NodeId id) const { return nodes[static_cast<std::size_t>(id.index)]; }

  ValueId add_value(Value value);
  ValueId add_input(std::string name, TensorType type);
  ValueId add_parameter(std::string name, TensorType type, std::optional<Tensor> data, bool trainable);
  ValueId add_constant(std::string name, Tensor data);
  // Appends a node with `outputs` new activations and runs the operator's shape rule.
  NodeId add_node(const Operator& op, std::string name, Attributes attributes, std::vector<ValueId> inputs, int outputs,
                  std::vector<std::string> origin = {});
  std::optional<ValueId> find(std::string_view value_name) const;
  std::vector<std::vector<NodeId>> consumers() const;  // by value
};

// Fails at the first breach: operands in range, producers before consumers, one producer a value, types known.
void verify(const Graph& graph);
std::string print(const Graph& graph);  // one line a node, for dumps and tests

}  // namespace tandem
