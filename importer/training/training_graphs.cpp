// The graphs of training_info beside the model's: the loss that is added to that one and taken out again, variables as they stand now, the
// initialization as a model of its own.
#include <algorithm>
#include <set>

#include "base/error.h"
#include "importer/message/node_order.h"
#include "importer/message/tensor_data.h"
#include "importer/training/training_info.h"

namespace tandem {

void set_variables(onnx::ModelProto& model, const TrainingStep& step, const std::map<std::string, Tensor>& states, std::int64_t steps) {
  std::map<std::string, const Tensor*> now;
  for (const auto& [state, variable] : step.variables)
    if (const auto it = states.find(state); it != states.end()) now[variable] = &it->second;
  for (auto& info : *model.mutable_training_info())
    for (auto& tensor : *info.mutable_algorithm()->mutable_initializer()) {
      if (const auto it = now.find(tensor.name()); it != now.end() && form_of(tensor) != DataForm::external)
        store(*it->second, DataForm::raw, tensor);
      if (std::ranges::find(step.counters, tensor.name()) == step.counters.end()) continue;
      ExternalData none;
      const std::optional<Tensor> before = tensor_of(tensor, none);
      if (!before || before->dtype() != DType::int64 || before->elements() != 1) continue;
      Tensor after(before->type());
      after.write<std::int64_t>()[0] = before->values<std::int64_t>()[0] + steps;
      store(after, DataForm::raw, tensor);
    }
}

AddedLoss add_loss(onnx::ModelProto& model, const TrainingStep& step) {
  AddedLoss added;
  onnx::GraphProto& graph = *model.mutable_graph();
  const onnx::GraphProto* algorithm = nullptr;
  for (const auto& info : model.training_info())
    if (info.update_binding_size() > 0) algorithm = &info.algorithm();
  if (!algorithm) return added;
  // Backwards from the loss.
  std::set<std::string> wanted{step.loss_on};
  std::vector<const onnx::NodeProto*> nodes;
  std::vector<int> order = computing_order(algorithm->node());
  for (auto i = order.rbegin(); i != order.rend(); ++i) {
    const onnx::NodeProto& node = algorithm->node(*i);
    if (std::ranges::none_of(node.output(), [&](const std::string& out) { return wanted.contains(out); })) continue;
    wanted.insert(node.input().begin(), node.input().end());
    nodes.push_back(&node);
  }
  added.nodes = static_cast<int>(nodes.size());
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) *graph.add_node() = **node;
  for (const auto& tensor : algorithm->initializer())
    if (wanted.contains(tensor.name())) *graph.add_initializer() = tensor, ++added.initializers;
  for (const auto& input : algorithm->input())
    if (wanted.contains(input.name())) *graph.add_input() = input, ++added.inputs;
  if (std::ranges::none_of(graph.output(), [&](const auto& out) { return out.name() == step.loss_on; }))
    graph.add_output()->set_name(step.loss_on), ++added.outputs;
  return added;
}

void remove_loss(onnx::ModelProto& model, const AddedLoss& added) {
  const auto drop = [](auto& list, int count) { list.DeleteSubrange(list.size() - count, count); };
  onnx::GraphProto& graph = *model.mutable_graph();
  drop(*graph.mutable_node(), added.nodes);
  drop(*graph.mutable_initializer(), added.initializers);
  drop(*graph.mutable_input(), added.inputs);
  drop(*graph.mutable_output(), added.outputs);
}

std::unique_ptr<onnx::ModelProto> initialization_of(const onnx::ModelProto& model) {
  auto made = std::make_unique<onnx::ModelProto>();
  made->set_ir_version(model.ir_version());
  *made->mutable_opset_import() = model.opset_import();
  *made->mutable_functions() = model.functions();
  onnx::GraphProto& graph = *made->mutable_graph();
  graph.set_name("initialization");
  int number = 0;
  for (const auto& info : model.training_info()) {
    // Values of one initialization are named as they like; those of several get a number.
    const std::string prefix = concat(number++, '/');
    std::map<std::string, std::string> outputs;
    const auto renamed = [&](const std::string& name) { return name.empty() ? name : prefix + name; };
    for (const auto& tensor : info.initialization().initializer()) {
      onnx::TensorProto& copy = *graph.add_initializer() = tensor;
      copy.set_name(renamed(tensor.name()));
    }
    for (const auto& node : info.initialization().node()) {
      onnx::NodeProto& copy = *graph.add_node() = node;
      for (auto& in : *copy.mutable_input()) in = renamed(in);
      for (auto& out : *copy.mutable_output()) out = renamed(out);
    }
    for (const auto& b : info.initialization_binding()) {
      onnx::NodeProto& node = *graph.add_node();
      node.set_op_type("Identity");
      node.set_name(concat("bind ", b.key()));
      node.add_input(renamed(b.value()));
      node.add_output(b.key());
      graph.add_output()->set_name(b.key());
    }
  }
  if (graph.output_size() == 0) return nullptr;
  return made;
}

}  // namespace tandem
