// What asks for training is found in the flat model, where attributes of functions are resolved, and changed in the copy of the file's
// own message at the same place.
#include "importer/flat/inference_mode.h"

#include <set>

#include "importer/flat/own_statistics.h"
#include "tandem_onnx.pb.h"

namespace tandem {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

bool asks_for_training(const FlatNode& node) {
  if (!node.domain.empty()) return false;
  if (node.op == "BatchNormalization" && node.outputs.size() == 1 && !has_own_statistics(node)) {
    const AttributeValue* mode = node.attributes.find("training_mode");
    const auto* value = mode ? std::get_if<std::int64_t>(mode) : nullptr;
    return (value && *value != 0) || node.proto->output_size() > 1;
  }
  return node.op == "Dropout" && node.opset >= 12 && node.inputs.size() > 2 && node.inputs[2].present();
}

void collect(const FlatBody& body, std::set<const onnx::NodeProto*>& found) {
  for (const FlatNode& node : body.nodes) {
    if (asks_for_training(node)) found.insert(node.proto);
    for (const FlatBody& inner : node.bodies) collect(inner, found);
  }
}

void switch_to_inference(onnx::NodeProto& node) {
  if (node.op_type() == "Dropout") {
    node.mutable_input()->DeleteSubrange(2, node.input_size() - 2);
    if (node.input(1).empty()) node.mutable_input()->RemoveLast();
    return;
  }
  for (auto& attribute : *node.mutable_attribute()) {
    if (attribute.name() != "training_mode") continue;
    attribute.clear_ref_attr_name();
    attribute.set_type(onnx::AttributeProto::INT);
    attribute.set_i(0);
  }
  node.mutable_output()->DeleteSubrange(1, node.output_size() - 1);
}

void walk(const Nodes& original, Nodes& copy, const std::set<const onnx::NodeProto*>& found) {
  for (int i = 0; i < original.size(); ++i) {
    if (found.contains(&original[i])) switch_to_inference(copy[i]);
    for (int a = 0; a < original[i].attribute_size(); ++a)
      if (original[i].attribute(a).has_g())
        walk(original[i].attribute(a).g().node(), *copy[i].mutable_attribute(a)->mutable_g()->mutable_node(), found);
  }
}

}  // namespace

void set_inference_mode(const FlatModel& flat, const onnx::ModelProto& original, onnx::ModelProto& copy) {
  std::set<const onnx::NodeProto*> found;
  collect(flat.main, found);
  if (found.empty()) return;
  walk(original.graph().node(), *copy.mutable_graph()->mutable_node(), found);
  for (int i = 0; i < original.functions_size(); ++i) walk(original.functions(i).node(), *copy.mutable_functions(i)->mutable_node(), found);
}

}  // namespace tandem
