// The file's own message is changed before anything else reads it, so that all later stages, and the export, see the copies.
#include "importer/untie.h"

#include <algorithm>
#include <map>
#include <set>

#include "graph/option.h"
#include "graph/pattern.h"
#include "importer/message_values.h"
#include "importer/operand_uses.h"
#include "importer/tensor_data.h"
#include "importer/value_tests.h"

namespace tandem {
namespace {

using Readers = std::map<std::string, std::vector<std::string*>>;  // by name, the operands in order

template <class List>
void copy_entry(List& list, const std::string& from, const std::string& to) {
  for (int i = 0; i < list.size(); ++i)
    if (list[i].name() == from) {
      auto copy = list[i];
      copy.set_name(to);
      *list.Add() = std::move(copy);
      return;
    }
}

// A copy of its own, not a second use of the same place in a file beside the model.
onnx::TensorProto copy_of(const onnx::TensorProto& tensor, const std::string& name, ExternalData& external) {
  onnx::TensorProto copy = tensor;
  copy.set_name(name);
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL) {
    const auto data = tensor_of(tensor, external);
    copy.clear_external_data();
    copy.clear_data_location();
    if (data) store(*data, DataForm::raw, copy);
  }
  return copy;
}

}  // namespace

int untie(onnx::ModelProto& model, ExternalData& external, const std::vector<std::string>& patterns) {
  if (patterns.empty()) return 0;
  onnx::GraphProto& graph = *model.mutable_graph();
  Readers readers;
  for (auto& node : *graph.mutable_node())
    for (auto& input : *node.mutable_input()) readers[input].push_back(&input);
  std::set<std::string> names;
  take_names(graph, names);
  const int initializers = graph.initializer_size();
  for (const std::string& pattern : patterns) {
    bool any = false;
    for (int i = 0; i < initializers; ++i) {
      const std::string name = graph.initializer(i).name();
      const std::vector<std::string*>& places = readers[name];
      if (!matches_any(name, {pattern}) || places.size() < 2 || !is_float(static_cast<DType>(graph.initializer(i).data_type()))) continue;
      any = true;
      for (std::size_t place = 1, number = 2; place < places.size(); ++place) {
        if (*places[place] != name) continue;  // another pattern's
        std::string copy;
        do copy = concat(name, '@', number++);
        while (!names.insert(copy).second);
        *graph.add_initializer() = copy_of(graph.initializer(i), copy, external);
        copy_entry(*graph.mutable_value_info(), name, copy);
        copy_entry(*graph.mutable_input(), name, copy);  // until IR version 4 an initializer is an input, too
        *places[place] = copy;
      }
    }
    if (!any) fail(ExitCode::usage, option("untie"), " '", pattern, "': the model has no float initializer of that name that several nodes read");
  }
  return graph.initializer_size() - initializers;
}

std::vector<std::string> merged_by_exporter(const FlatModel& model) {
  const std::vector<Uses> all = uses_of(model);
  std::vector<int> readers(model.symbols.size());  // of the model's own graph: those of a branch cannot be told apart
  for (const FlatNode& node : model.main.nodes)
    for (const Symbol in : node.inputs)
      if (in.present() && node.top_level) ++readers[static_cast<std::size_t>(in.index)];
  std::vector<std::string> names;
  for (const FlatInitializer& i : model.main.initializers) {
    const Uses& uses = all[static_cast<std::size_t>(i.symbol.index)];
    if (model.holding(i.symbol) != Holding::trained || uses.readers < 2 || !i.data) continue;
    const bool alike = all_alike(*i.data);
    const bool of_layer = uses.has(OperandRole::matrix) || uses.has(OperandRole::filter) || uses.has(OperandRole::transposed_filter);
    if (of_layer && !uses.has(OperandRole::embedding)) return {};  // a layer that is used twice
    const Shape& s = i.type.shape;
    const bool vector = s.rank() > 0 && s.elements() > 1 && s.elements() == *std::max_element(s.begin(), s.end());
    if (alike && vector && readers[static_cast<std::size_t>(i.symbol.index)] == uses.readers) names.push_back(model.name(i.symbol));
  }
  return names;
}

}  // namespace tandem
