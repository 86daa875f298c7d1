// Exporters of classifiers end a model in label strings and maps from label to score. A graph holds tensors of numbers:
// the scores take the map's place, the labels go.
#include <algorithm>

#include "importer/flat/drop_label_outputs.h"
#include "tandem_onnx.pb.h"

namespace tandem {
namespace {

// Operators that give labels where an attribute or an operand says strings.
struct LabelOp {
  std::string_view domain, op, strings;
};
constexpr LabelOp label_ops[] = {
    {"ai.onnx.ml", "LabelEncoder", "values_strings"},
    {"ai.onnx.ml", "LinearClassifier", "classlabels_strings"},
    {"ai.onnx.ml", "SVMClassifier", "classlabels_strings"},
    {"ai.onnx.ml", "TreeEnsembleClassifier", "classlabels_strings"},
};
constexpr std::string_view hand_strings_on[] = {
    "ArrayFeatureExtractor", "Concat", "Flatten", "Gather", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze", "Where"};

bool is_constant_of_strings(const FlatNode& node) {
  if (node.op != "Constant" || !node.domain.empty()) return false;
  const auto& list = node.proto->attribute();
  return std::any_of(list.begin(), list.end(), [](const onnx::AttributeProto& a) {
    return a.name() == "value_string" || a.name() == "value_strings" ||
           (a.name() == "value" && a.t().data_type() == onnx::TensorProto::STRING);
  });
}

bool is_map(const FlatNode& node) { return node.domain == "ai.onnx.ml" && node.op == "ZipMap"; }

// Which symbols stand for strings that nodes give: labels.
std::vector<bool> labels_of(const FlatModel& model) {
  std::vector<bool> held(model.symbols.size()), given(model.symbols.size());  // in the file or by the user; by nodes
  const auto note = [](std::vector<bool>& set, Symbol s) {
    if (s.present()) set[static_cast<std::size_t>(s.index)] = true;
  };
  const auto is_string = [&](Symbol s) {
    return s.present() && (held[static_cast<std::size_t>(s.index)] || given[static_cast<std::size_t>(s.index)]);
  };
  for (std::size_t i = 0; i < model.inputs.size() && i < model.main.inputs.size(); ++i)
    if (model.inputs[i].dtype == DType::string) note(held, model.main.inputs[i]);
  for (const FlatInitializer& i : model.main.initializers)
    if (i.type.dtype == DType::string) note(held, i.symbol);
  for (const FlatNode& node : model.main.nodes) {
    if (node.outputs.empty()) continue;
    const bool gives = std::any_of(std::begin(label_ops), std::end(label_ops), [&](const LabelOp& r) {
      return r.domain == node.domain && r.op == node.op && node.attributes.has(r.strings);
    });
    const bool hands_on = std::find(std::begin(hand_strings_on), std::end(hand_strings_on), node.op) != std::end(hand_strings_on);
    if (is_constant_of_strings(node)) note(held, node.outputs[0]);
    if (gives) note(given, node.outputs[0]);
    if (hands_on && std::any_of(node.inputs.begin(), node.inputs.end(), is_string))
      for (const Symbol out : node.outputs) note(given, out);
  }
  return given;
}

}  // namespace

void drop_label_outputs(FlatModel& model) {
  const std::vector<bool> labels = labels_of(model);
  std::vector<Symbol> outputs;
  std::vector<std::string> names;
  const auto keep = [&](Symbol s, const std::string& name) {
    outputs.push_back(s);
    names.push_back(name);
  };
  for (std::size_t i = 0; i < model.main.outputs.size(); ++i) {
    const Symbol out = model.main.outputs[i];
    if (out.present() && labels[static_cast<std::size_t>(out.index)]) continue;
    const auto map = std::find_if(model.main.nodes.begin(), model.main.nodes.end(), [&](const FlatNode& n) {
      return is_map(n) && std::find(n.outputs.begin(), n.outputs.end(), out) != n.outputs.end();
    });
    if (map == model.main.nodes.end() || !out.present()) {
      keep(out, model.output_names[i]);
      continue;
    }
    const Symbol scores = map->inputs.empty() ? Symbol{} : map->inputs[0];
    const bool given = std::find(model.main.outputs.begin(), model.main.outputs.end(), scores) != model.main.outputs.end();
    if (scores.present() && !given) keep(scores, model.name(scores));
  }
  // A model of nothing but labels stays as it is, and is reported.
  if (outputs.empty()) return;
  model.main.outputs = std::move(outputs);
  model.output_names = std::move(names);
}

}  // namespace tandem
