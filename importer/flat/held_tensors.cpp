#include "importer/flat/held_tensors.h"

#include <set>
#include <string_view>

#include "importer/flat/constant_nodes.h"
#include "importer/message/tensor_data.h"

namespace tandem {
namespace {

class Collector {
 public:
  explicit Collector(const FlatModel& model) : integers_(model.symbols.size()) {
    for (const FlatInitializer& i : model.main.initializers) {
      add(i);
      if (i.type.dtype == DType::int64 && i.data) integers_[static_cast<std::size_t>(i.symbol.index)] = &*i.data;
    }
    nodes(model.main.nodes);
  }

  std::vector<Held> held;

 private:
  void add(const FlatInitializer& i) {
    if (!is_float(i.type.dtype) || (i.home && !known_.insert(i.symbol.index).second)) return;
    held.push_back({i.symbol, i.constant_node ? Source::node : Source::initializer, i.type, i.data, i.in_function});
  }

  void nodes(const std::vector<FlatNode>& list) {
    for (const FlatNode& node : list) {
      for (const FlatBody& body : node.bodies) {
        for (const FlatInitializer& i : body.initializers) add(i);
        nodes(body.nodes);
      }
      if (!node.domain.empty() || node.outputs.size() != 1 || !node.outputs[0].present() || !node.faults.empty()) continue;
      const Source source = node.top_level ? Source::node : Source::inner;
      if (node.op == "Constant") constant(node, source);
      if (node.op == "ConstantOfShape" && node.inputs.size() == 1 && node.inputs[0].present()) fill(node, source);
    }
  }

  void constant(const FlatNode& node, Source source) {
    for (const char* form : {"value", "value_float", "value_floats"}) {
      const AttributeValue* value = node.attributes.find(form);
      if (!value || (form == std::string_view("value") && !std::holds_alternative<Tensor>(*value))) continue;
      if (Tensor tensor = constant_value(node.attributes); is_float(tensor.dtype()))
        held.push_back({node.outputs[0], source, tensor.type(), tensor});
      return;
    }
  }

  void fill(const FlatNode& node, Source source) {
    const Tensor* shape = integers_[static_cast<std::size_t>(node.inputs[0].index)];
    const AttributeValue* value = node.attributes.find("value");
    const Tensor* element = value ? std::get_if<Tensor>(value) : nullptr;
    if (!shape || shape->elements() == 0 || (value && !element) || (element && !is_float(element->dtype()))) return;
    TensorType type{element ? element->dtype() : DType::float32, Shape(shape->to_int64s())};
    std::int64_t elements = 1;
    for (const std::int64_t d : type.shape)
      if (d < 0 || __builtin_mul_overflow(elements, d, &elements)) return;
    held.push_back({node.outputs[0], source, std::move(type), {}, false, true});
  }

  std::vector<const Tensor*> integers_;  // int64 initializers, by symbol
  std::set<int> known_;                  // by symbol: of subgraphs and functions
};

}  // namespace

std::vector<Held> held_tensors(const FlatModel& model) {
  return Collector(model).held;
}

}  // namespace tandem
