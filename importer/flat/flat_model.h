// A model with its local functions inlined and its names resolved: what graphs for any batch size are built from.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "graph/attributes.h"
#include "graph/template_tensor.h"
#include "importer/message/external_data.h"
#include "importer/message/onnx_messages.h"
#include "importer/message/signature.h"
#include "importer/types.h"

namespace tandem {

// A value of the model, whatever names it goes by in functions and subgraphs.
struct Symbol {
  int index = -1;  // -1: an optional operand that is not given
  bool present() const { return index >= 0; }
  bool operator==(const Symbol&) const = default;
};

struct FlatNode;

// A tensor that the file holds: of a subgraph or a local function its Constant nodes of floats are, too.
struct FlatInitializer {
  Symbol symbol;
  TensorType type;
  std::optional<Tensor> data;    // absent: dims only
  // In the file, the TensorProto or Constant node of a subgraph or a function that holds it; null: the model's own graph does.
  const void* home = nullptr;
  bool in_function = false;      // all calls of it share the tensor
  bool constant_node = false;    // `home` is such a node
};

// A graph, or the body of an If, Loop or Scan.
struct FlatBody {
  std::string attribute;  // of the node it belongs to: "then_branch"
  std::vector<Symbol> inputs;
  std::vector<bool> vectors;  // by input: whether it is declared to have one dimension
  std::vector<FlatInitializer> initializers;
  std::vector<FlatNode> nodes;  // in topological order
  std::vector<Symbol> outputs;
};

struct FlatNode {
  int id = 0;
  std::string name;  // unique: those of a function's nodes begin with the caller's
  std::string op;
  std::string domain;
  std::int64_t opset = 0;
  Attributes attributes;
  std::vector<Symbol> inputs;
  std::vector<Symbol> outputs;
  std::vector<FlatBody> bodies;
  std::vector<std::string> faults;         // what of it could not be read
  const onnx::NodeProto* proto = nullptr;  // as it stands in the file
  bool detached = false;                   // an Identity through which no gradient flows (importer/weights/detached.h)
  bool top_level = false;                  // in the model's own graph: a Constant there may be a weight
  std::string iteration;                   // of a copy that unrolling made: which of those with this id it is
};
std::string qualified_op(const FlatNode& node);  // "ai.onnx::Conv"

// What the file says of a tensor: PyTorch's exporter (torch.export's graph signature), or `updated`, its training_info.
enum class Stated { nothing, parameter, buffer, constant, updated };

// B, of `shape`, holds offset + scale · A, perhaps transposed, or values of A, and follows it.
struct Tie {
  Symbol leader, follower;
  Shape shape;
  bool transposed = false;
  std::vector<std::int64_t> places = {};  // in A, of each value of B, both in row-major order; empty: all, as they stand
  float scale = 1, offset = 0;
  bool detached = false;  // no gradient flows from B to A
};

// A weight that the file holds as an attribute of a node; `mirrored`: there, its negative stands before it.
struct AttributeWeight {
  Symbol symbol;
  const onnx::NodeProto* node = nullptr;
  std::string attribute;
  bool mirrored = false;
};

// A tensor of `shape` of which the rows along `axis` are some few (importer/weights/looked_up.h): which stands at each place of the other
// axes, in row-major order.
struct LookedUp {
  Symbol symbol;
  Shape shape;
  int axis = 0;
  std::vector<std::int64_t> row_at;  // by place
  std::int64_t rows = 0;             // that differ

  Shape places() const;  // `shape` without `axis`
  Shape compact() const { return Shape{rows, shape[axis]}; }
};

struct FlatModel {
  std::string name_of_graph;
  std::vector<std::string> symbols;  // their names
  std::vector<Stated> stated;        // by symbol
  Signature signature;
  std::vector<int> held;             // by symbol: its place in `tensors`, -1: none
  std::vector<TemplateTensor> tensors;  // every float tensor of the file, in its order
  std::vector<Tie> ties;
  std::vector<LookedUp> looked_up;
  // weights that the exporter computed, by its notes or as they are none of the parameters (importer/weights/lost_parameters.h)
  std::vector<Symbol> computed;
  std::vector<Symbol> single_biases;  // of which the first half is trained (importer/flat/single_bias.h)
  std::vector<AttributeWeight> attribute_weights;
  std::vector<ModelInput> inputs;    // of main, in its order, without initializers
  std::vector<FlatInitializer> unread;  // initializers of main that no output needs, without their values
  FlatBody main;
  std::vector<std::string> output_names;  // of main: two may name one value
  std::vector<Problem> problems;          // of the file's structure, whatever the batch
  std::vector<std::string> warnings;      // what a training of it should know
  int node_ids = 0;
  std::int64_t bytes = 0;  // of the file and of its external data that was read

  const std::string& name(Symbol s) const { return symbols[static_cast<std::size_t>(s.index)]; }
  Holding holding(Symbol s) const {
    const int place = held[static_cast<std::size_t>(s.index)];
    return place < 0 ? Holding::constant : tensors[static_cast<std::size_t>(place)].holding;
  }
};

}  // namespace tandem
