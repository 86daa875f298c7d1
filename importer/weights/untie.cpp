// The file's own message is changed before anything else reads it, so that all later stages, and the export, see the copies.
#include "importer/weights/untie.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/option.h"
#include "base/pattern.h"
#include "importer/edit/message_values.h"
#include "importer/flat/call_parameters.h"
#include "importer/flat/operand_uses.h"
#include "importer/message/tensor_data.h"
#include "importer/message/value_tests.h"

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

namespace {

// Gives readers of initializers copies of their own.
class Untie {
 public:
  Untie(onnx::ModelProto& model, ExternalData& external)
      : graph_(*model.mutable_graph()), external_(external), initializers_(graph_.initializer_size()) {
    take_names(graph_, names_);
  }

  int initializers() const { return initializers_; }
  int added() const { return graph_.initializer_size() - initializers_; }

  // The `i`th initializer once more, with all that is said of it, as `wanted` or, where that is empty or taken, "NAME@2" and so on.
  std::string copy(int i, const std::string& wanted = {}) {
    const std::string name = graph_.initializer(i).name();
    std::string copy = wanted;
    for (std::size_t number = 2; copy.empty() || !names_.insert(copy).second; ++number) copy = concat(name, '@', number);
    *graph_.add_initializer() = copy_of(graph_.initializer(i), copy, external_);
    copy_entry(*graph_.mutable_value_info(), name, copy);
    copy_entry(*graph_.mutable_input(), name, copy);  // until IR version 4 an initializer is an input, too
    return copy;
  }

  void change_notes(const std::string& name, const auto& change) {
    for (auto& value : *graph_.mutable_value_info())
      if (value.name() == name) change(*value.mutable_metadata_props());
    change(*graph_.mutable_initializer(graph_.initializer_size() - 1)->mutable_metadata_props());
  }

 private:
  onnx::GraphProto& graph_;
  ExternalData& external_;
  int initializers_;
  std::set<std::string> names_;
};

}  // namespace

int untie(onnx::ModelProto& model, ExternalData& external, const std::vector<std::string>& patterns) {
  if (patterns.empty()) return 0;
  onnx::GraphProto& graph = *model.mutable_graph();
  Readers readers;
  for (auto& node : *graph.mutable_node())
    for (auto& input : *node.mutable_input()) readers[input].push_back(&input);
  Untie untied(model, external);
  for (const std::string& pattern : patterns) {
    bool any = false;
    for (int i = 0; i < untied.initializers(); ++i) {
      const std::string name = graph.initializer(i).name();
      const std::vector<std::string*>& places = readers[name];
      if (!matches_any(name, {pattern}) || places.size() < 2 || !is_float(static_cast<DType>(graph.initializer(i).data_type()))) continue;
      any = true;
      for (std::size_t place = 1; place < places.size(); ++place)
        if (*places[place] == name) *places[place] = untied.copy(i);  // not another pattern's
    }
    if (!any)
      fail(ExitCode::usage, option("untie"), " '", pattern, "': the model has no float initializer of that name that several nodes read");
  }
  return untied.added();
}

int untie(onnx::ModelProto& model, ExternalData& external, const std::vector<Merged>& merged, const Signature& signature) {
  onnx::GraphProto& graph = *model.mutable_graph();
  std::map<const onnx::NodeProto*, onnx::NodeProto*> nodes;
  for (auto& node : *graph.mutable_node()) nodes[&node] = &node;
  Untie untied(model, external);
  for (int i = 0; i < untied.initializers(); ++i) {
    const std::string name = graph.initializer(i).name();
    std::map<std::string, std::string> copies;  // by owner
    for (const Merged& m : merged) {
      if (m.tensor != name) continue;
      std::string& copy = copies[m.owner];
      const bool known = signature.lists(m.owner);
      if (copy.empty()) {
        const std::vector<std::string>& stands_for = signature.stands_for(name);
        const bool itself = known && signature.lists(stands_for.front()) && name == signature.target(stands_for.front());
        copy = untied.copy(i, itself ? signature.target(m.owner) : std::string());
        untied.change_notes(copy, [&](auto& notes) {
          signature.rename(notes, known && stands_for.size() == 1 ? stands_for.front() : std::string(), m.owner);
        });
      }
      *nodes.at(m.node)->mutable_input(m.input) = copy;
    }
  }
  return untied.added();
}

std::vector<Merged> merged_by_calls(const FlatModel& model) {
  std::vector<Merged> merged;
  for (const Foreign& f : call_parameters(model).merged) {
    if (model.holding(f.tensor) == Holding::constant) continue;
    merged.push_back({model.name(f.tensor), f.reader->proto, f.input, f.owner.empty() ? f.reader->name : f.owner});
  }
  return merged;
}

std::vector<std::string> merged_by_exporter(const FlatModel& model) {
  const std::vector<Uses> all = uses_of(model);
  const std::set<int> shared = call_parameters(model).shared;
  std::vector<int> readers(model.symbols.size());  // of the model's own graph: those of a branch cannot be told apart
  for (const FlatNode& node : model.main.nodes)
    for (const Symbol in : node.inputs)
      if (in.present() && node.top_level) ++readers[static_cast<std::size_t>(in.index)];
  std::vector<std::string> names;
  for (const FlatInitializer& i : model.main.initializers) {
    const Uses& uses = all[static_cast<std::size_t>(i.symbol.index)];
    if (model.holding(i.symbol) != Holding::trained || uses.readers < 2 || !i.data || shared.contains(i.symbol.index)) continue;
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
