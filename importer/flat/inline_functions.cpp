// Walks the model once: resolves names to symbols, calls to the functions' bodies, attribute references to values.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "importer/flat/call_parameters.h"
#include "importer/flat/constant_nodes.h"
#include "importer/flat/inline_functions.h"
#include "importer/flat/inline_scope.h"
#include "importer/message/attribute_values.h"
#include "importer/message/check_declarations.h"
#include "importer/message/limits.h"
#include "importer/message/node_order.h"
#include "importer/message/tensor_data.h"

namespace tandem {
namespace {

constexpr const char* training_domain = "ai.onnx.preview.training";

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

class Inliner {
 public:
  Inliner(const onnx::ModelProto& model, std::int64_t bytes, ExternalData& external)
      : proto_(model), external_(external), attributes_(external), attribute_limit_(limits::attribute_bytes + 4 * bytes) {
    std::int64_t nodes = model.graph().node_size();
    for (const auto& function : model.functions()) nodes += function.node_size();
    if (model.functions_size() > 0)
      node_limit_ = static_cast<int>(std::min<std::int64_t>(limits::nodes, limits::inlined_nodes + limits::inlined_factor * nodes));
    flat_.bytes = bytes;
    for (const auto& function : model.functions()) {
      const auto key = std::tuple(domain_of(function.domain()), function.name(), function.overload());
      if (!functions_.emplace(key, &function).second) problem("function '", function.name(), "' is defined twice");
    }
  }

  FlatModel run() {
    for (const std::string& twice : twice_declared(proto_)) problem(twice);
    const Frame frame("", proto_.opset_import());
    Scope scope;
    flat_.name_of_graph = proto_.graph().name();
    flat_.main = graph(proto_.graph(), scope, frame, true);
    flat_.stated.resize(flat_.symbols.size());
    flat_.signature = Signature(proto_.graph());
    for (const auto& tensor : proto_.graph().initializer()) note_stated(tensor, scope);
    for (const auto& value : proto_.graph().value_info()) note_stated(value, scope);
    for (const auto& input : proto_.graph().input()) note_stated(input, scope);
    for (const auto& info : proto_.training_info())
      for (const auto& binding : info.update_binding())
        if (const Symbol* symbol = scope.find(binding.key()))
          if (Stated& stated = flat_.stated[static_cast<std::size_t>(symbol->index)]; stated == Stated::nothing) stated = Stated::updated;
    flat_.bytes += external_.bytes_read();
    return std::move(flat_);
  }

 private:
  // PyTorch writes into a value's metadata what its module calls it: "InputKind.PARAMETER" or "PARAMETER".
  template <class Proto>
  void note_stated(const Proto& proto, const Scope& scope) {
    const Symbol* symbol = scope.find(proto.name());
    if (!symbol) return;
    for (const auto& entry : proto.metadata_props()) {
      if (entry.key() != "pkg.torch.export.graph_signature.InputSpec.kind") continue;
      const std::string& kind = entry.value();
      Stated& stated = flat_.stated[static_cast<std::size_t>(symbol->index)];
      if (kind.ends_with("PARAMETER")) stated = Stated::parameter;
      if (kind.ends_with("BUFFER")) stated = Stated::buffer;
      if (kind.ends_with("CONSTANT_TENSOR")) stated = Stated::constant;
    }
  }

  template <class... Parts>
  void problem(const Parts&... parts) {
    flat_.problems.push_back({.reason = concat(parts...)});
  }
  void node_problem(const FlatNode& node, std::string reason) {
    flat_.problems.push_back({node.name, qualified_op(node), node.opset, std::move(reason)});
  }

  // Names of nested calls are joined; long ones would grow with each call.
  std::string joined(const Frame& frame, const std::string& name) {
    if (frame.prefix.empty()) return name;
    return frame.prefix + (name.size() <= limits::name ? name : concat(name.substr(0, limits::name), '~', flat_.symbols.size()));
  }
  std::string prefix_of(const FlatNode& node) {
    return node.name.size() <= 4 * limits::name ? node.name + "/" : concat("call", flat_.symbols.size(), '_', seen_, '/');
  }

  // Worked out once for each function, however often it is called.
  const std::vector<int>& order_of(const Nodes& nodes) {
    const auto known = orders_.find(&nodes);
    return known != orders_.end() ? known->second : orders_.emplace(&nodes, computing_order(nodes)).first->second;
  }

  // False, with a problem, once inlining has grown beyond the limits.
  bool count(const onnx::NodeProto& proto) {
    operands_ += 1 + proto.input_size() + proto.output_size() + proto.attribute_size();
    for (const auto& a : proto.attribute())
      attribute_bytes_ += 8 * a.ints_size() + 4 * a.floats_size() + 32 * a.strings_size() + static_cast<std::int64_t>(a.s().size());
    if (++seen_ <= node_limit_ && operands_ <= limits::operands && attribute_bytes_ <= attribute_limit_) return true;
    if (!too_large_)
      problem("has more than ", node_limit_, " nodes, ", limits::operands, " operands or ", attribute_limit_,
              " bytes of attributes once its functions are inlined: no more are read of a file of ", flat_.bytes, " bytes");
    too_large_ = true;
    return false;
  }

  Symbol new_symbol(std::string name) {
    flat_.symbols.push_back(std::move(name));
    return {static_cast<int>(flat_.symbols.size()) - 1};
  }
  // A name given to a value here; one that is taken is a problem, and the later one wins.
  Symbol define(const std::string& name, Scope& scope, const Frame& frame, const char* what) {
    const Symbol symbol = new_symbol(joined(frame, name));
    if (!scope.names.insert_or_assign(name, symbol).second) problem(what, " '", frame.prefix, name, "' is defined twice");
    return symbol;
  }

  // A tensor that a subgraph or a function holds: of all calls of a function it is one.
  void hold(FlatInitializer held, const std::string& name, Scope& scope, const Frame& frame, FlatBody& body) {
    if (!held.symbol.present()) {
      held.symbol = new_symbol(name_of_held(joined(frame, name)));
      held.in_function = !frame.calls.empty();
      held_.emplace(held.home, held);
    }
    if (!scope.names.emplace(name, held.symbol).second) problem("value '", frame.prefix, name, "' is defined twice");
    body.initializers.push_back(std::move(held));
  }

  // A weight's name is unique, those of nodes need not be.
  std::string name_of_held(std::string name) {
    if (held_names_.empty()) {
      const onnx::GraphProto& own = proto_.graph();
      for (const auto& t : own.initializer()) held_names_.insert(t.name());
      for (const auto& i : own.input()) held_names_.insert(i.name());
      for (const auto& n : own.node()) held_names_.insert(n.output().begin(), n.output().end());
    }
    while (!held_names_.insert(name).second) name += '_';
    return name;
  }

  // Whether the node is a Constant of floats of a subgraph or a function, with a value of its own; then it is held.
  bool hold_constant(const FlatNode& node, Scope& scope, const Frame& frame, FlatBody& body) {
    if (node.top_level || node.op != "Constant" || !node.domain.empty() || !node.faults.empty()) return false;
    const auto& attributes = node.proto->attribute();
    if (node.proto->output_size() != 1 || node.proto->output(0).empty() ||
        std::any_of(attributes.begin(), attributes.end(), [](const auto& a) { return !a.ref_attr_name().empty(); }))
      return false;
    for (const char* form : {"value", "value_float", "value_floats"}) {
      const AttributeValue* value = node.attributes.find(form);
      if (!value || (form == std::string_view("value") && !std::holds_alternative<Tensor>(*value))) continue;
      const Tensor tensor = constant_value(node.attributes);
      if (!is_float(tensor.dtype())) return false;
      const auto known = held_.find(node.proto);
      hold(known != held_.end()
               ? known->second
               : FlatInitializer{.symbol = {}, .type = tensor.type(), .data = tensor, .home = node.proto, .constant_node = true},
           node.proto->output(0), scope, frame, body);
      return true;
    }
    return false;
  }

  FlatBody graph(const onnx::GraphProto& graph, Scope& scope, const Frame& frame, bool main) {
    FlatBody body;
    initializers(graph, scope, frame, body, main);
    for (const auto& input : graph.input()) {
      if (main && scope.names.contains(input.name())) continue;  // an initializer listed as an input
      body.inputs.push_back(define(input.name(), scope, frame, "input"));
      body.vectors.push_back(input.type().tensor_type().shape().dim_size() == 1);
      if (main) flat_.inputs.push_back(model_input(input));
    }
    nodes(graph.node(), scope, frame, body, main);
    for (const auto& output : graph.output()) {
      if (main) flat_.output_names.push_back(output.name());
      body.outputs.push_back(
          look_up(output.name(), scope, [&] { problem("output '", frame.prefix, output.name(), "' is not computed by any node"); }));
    }
    std::set<int> seen;  // calls of one function hold the same tensors
    std::erase_if(body.initializers, [&](const FlatInitializer& i) { return !seen.insert(i.symbol.index).second; });
    return body;
  }

  void initializers(const onnx::GraphProto& graph, Scope& scope, const Frame& frame, FlatBody& body, bool main) {
    for (const auto& tensor : graph.initializer()) {
      if (!main && is_float(static_cast<DType>(tensor.data_type()))) {
        try {
          const auto known = held_.find(&tensor);
          hold(known != held_.end()
                   ? known->second
                   : FlatInitializer{.symbol = {}, .type = type_of(tensor), .data = tensor_of(tensor, external_), .home = &tensor},
               tensor.name(), scope, frame, body);
        } catch (const Error& error) {
          problem("initializer '", frame.prefix, tensor.name(), "' ", error.what());
        }
        continue;
      }
      const Symbol symbol = define(tensor.name(), scope, frame, "initializer");
      if (tensor.data_type() == onnx::TensorProto::STRING) {  // labels, mostly: a problem only where they are needed
        body.initializers.push_back({symbol, {DType::string, {}}, {}});
        continue;
      }
      try {
        body.initializers.push_back({symbol, type_of(tensor), tensor_of(tensor, external_)});
      } catch (const Error& error) {
        problem("initializer '", tensor.name(), "' ", error.what());
      }
    }
    for (const auto& sparse : graph.sparse_initializer()) {
      define(sparse.values().name(), scope, frame, "initializer");
      problem("initializer '", sparse.values().name(), "' is sparse, which is not supported");
    }
  }

  static ModelInput model_input(const onnx::ValueInfoProto& value) {
    ModelInput input{.name = value.name(), .dims = {}, .shape_known = false};
    if (!value.type().has_tensor_type()) return input;
    const auto& type = value.type().tensor_type();
    input.dtype = static_cast<DType>(type.elem_type());
    input.shape_known = type.has_shape();
    for (const auto& dim : type.shape().dim())
      input.dims.push_back(dim.has_dim_value() && dim.dim_value() > 0 ? ModelDim{dim.dim_value(), ""} : ModelDim{-1, dim.dim_param()});
    return input;
  }

  template <class Missing>
  Symbol look_up(const std::string& name, const Scope& scope, Missing&& missing) {
    if (name.empty()) return {};
    if (const Symbol* symbol = scope.find(name)) return *symbol;
    missing();
    return new_symbol(name);
  }

  void nodes(const Nodes& nodes, Scope& scope, const Frame& frame, FlatBody& body, bool main) {
    for (const int i : order_of(nodes)) {
      const onnx::NodeProto& proto = nodes[i];
      if (too_large_ || !count(proto)) return;
      FlatNode node;
      node.name = joined(frame, proto.name().empty() ? concat(proto.op_type(), '#', i) : proto.name());
      node.op = proto.op_type();
      node.domain = domain_of(proto.domain());
      const auto opset = frame.opsets.find(node.domain);
      node.opset = opset == frame.opsets.end() ? 0 : opset->second;
      node.proto = &proto;
      node.top_level = main;
      for (const std::string& name : proto.input())
        node.inputs.push_back(
            look_up(name, scope, [&] { node_problem(node, concat("input '", name, "' is not computed before it is read")); }));
      const auto function = functions_.find(std::tuple(node.domain, proto.op_type(), proto.overload()));
      if (function != functions_.end() && !is_gradient(proto)) {
        call(*function->second, node, scope, frame, body);
      } else {
        leaf(std::move(node), scope, frame, body);
      }
    }
  }

  void leaf(FlatNode node, Scope& scope, const Frame& frame, FlatBody& body) {
    if (node.domain.empty() && node.opset == 0) node_problem(node, "the model imports no opset of ai.onnx");
    for (const auto& given : node.proto->attribute()) {
      const onnx::AttributeProto* attribute = frame.resolve(given);
      if (!attribute) {
        if (frame.calls.empty()) node.faults.push_back(concat("attribute '", given.name(), "' refers to a function's, but stands in none"));
        continue;  // the caller left it out
      }
      if (type_of(*attribute) == onnx::AttributeProto::GRAPH) {
        Scope inner{&scope, {}};
        Frame named = frame;
        named.prefix = prefix_of(node) + given.name() + "/";
        node.bodies.push_back(graph(attribute->g(), inner, named, false));
        node.bodies.back().attribute = given.name();
        continue;
      }
      try {
        node.attributes.set(given.name(), attributes_.read(*attribute));
      } catch (const Error& error) {
        node.faults.push_back(error.what());
      }
    }
    if (hold_constant(node, scope, frame, body)) return;
    if (is_gradient(*node.proto)) named_by_gradient(node, scope);
    for (const std::string& name : node.proto->output())
      node.outputs.push_back(name.empty() ? Symbol{} : define(name, scope, frame, "value"));
    node.id = flat_.node_ids++;
    body.nodes.push_back(std::move(node));
  }

  // The values that a Gradient names become operands, behind those that say at which values it is taken (training_steps.cpp).
  void named_by_gradient(FlatNode& node, const Scope& scope) {
    node.domain = training_domain;
    node.opset = 1;
    Attributes counts;
    std::vector<std::string> names;
    for (const char* list : {"xs", "zs"}) {
      if (const AttributeValue* value = node.attributes.find(list))
        if (const auto* strings = std::get_if<Strings>(value)) names.insert(names.end(), strings->begin(), strings->end());
      counts.set(list[0] == 'x' ? "differentiated" : "operands", static_cast<std::int64_t>(names.size()));
    }
    if (node.inputs.size() != names.size())
      node.faults.push_back(concat("has ", node.inputs.size(), " inputs, xs and zs name ", names.size()));
    names.push_back(node.attributes.text("y", ""));
    for (const std::string& name : names)
      node.inputs.push_back(look_up(name, scope, [&] { node_problem(node, concat("'", name, "', which it names, is not there")); }));
    node.attributes = std::move(counts);
  }

  void call(const onnx::FunctionProto& function, const FlatNode& node, Scope& scope, const Frame& frame, FlatBody& body) {
    const std::size_t first_inner = flat_.symbols.size();
    operands_ += function.opset_import_size() + function.attribute_proto_size() + function.input_size();
    Frame inner(prefix_of(node), function.opset_import());
    inner.calls = frame.calls;
    const bool recursive = std::find(inner.calls.begin(), inner.calls.end(), &function) != inner.calls.end();
    inner.calls.push_back(&function);
    Scope names;
    if (recursive) {
      node_problem(node, "the function calls itself");
    } else if (inner.calls.size() > limits::function_depth) {
      node_problem(node, concat("functions call each other deeper than ", limits::function_depth));
    } else if (static_cast<int>(node.inputs.size()) > function.input_size()) {
      node_problem(node, concat("has ", node.inputs.size(), " inputs, the function takes ", function.input_size()));
    } else if (node.proto->output_size() > function.output_size()) {
      node_problem(node, concat("has ", node.proto->output_size(), " outputs, the function gives ", function.output_size()));
    } else {
      for (const auto& fallback : function.attribute_proto()) inner.attributes[fallback.name()] = &fallback;
      for (const auto& given : node.proto->attribute())
        if (const onnx::AttributeProto* value = frame.resolve(given)) inner.attributes[given.name()] = value;
      for (int i = 0; i < function.input_size(); ++i)
        names.names.insert_or_assign(function.input(i),
                                     i < static_cast<int>(node.inputs.size()) ? node.inputs[static_cast<std::size_t>(i)] : Symbol{});
      nodes(function.node(), names, inner, body, false);
    }
    bind_outputs(function, node, names, first_inner, scope, frame);
  }

  // The caller's names now mean the values the body gave; those made in it take the caller's name.
  void bind_outputs(const onnx::FunctionProto& function, const FlatNode& node, const Scope& inner, std::size_t first_inner, Scope& scope,
                    const Frame& frame) {
    for (int i = 0; i < node.proto->output_size(); ++i) {
      const std::string& name = node.proto->output(i);
      if (name.empty()) continue;
      const Symbol* result = i < function.output_size() ? inner.find(function.output(i)) : nullptr;
      const Symbol symbol = result && result->present() ? *result : new_symbol(joined(frame, name));
      if (static_cast<std::size_t>(symbol.index) >= first_inner)
        flat_.symbols[static_cast<std::size_t>(symbol.index)] = joined(frame, name);
      if (!result && flat_.problems.empty())
        node_problem(node, concat("the function computes no '", i < function.output_size() ? function.output(i) : name, '\''));
      if (!scope.names.emplace(name, symbol).second) problem("value '", frame.prefix, name, "' is defined twice");
    }
  }

  const onnx::ModelProto& proto_;
  ExternalData& external_;
  AttributeReader attributes_;
  std::map<std::tuple<std::string, std::string, std::string>, const onnx::FunctionProto*> functions_;
  std::map<const Nodes*, std::vector<int>> orders_;
  std::map<const void*, FlatInitializer> held_;  // by subgraphs and functions
  std::set<std::string> held_names_;
  FlatModel flat_;
  int node_limit_ = limits::nodes, seen_ = 0;
  std::int64_t operands_ = 0, attribute_bytes_ = 0, attribute_limit_;
  bool too_large_ = false;
};

}  // namespace

std::string qualified_op(const FlatNode& node) {
  return concat(node.domain.empty() ? "ai.onnx" : node.domain, "::", node.op);
}

FlatModel inline_functions(const onnx::ModelProto& model, std::int64_t bytes, ExternalData& external) {
  return Inliner(model, bytes, external).run();
}

}  // namespace tandem
