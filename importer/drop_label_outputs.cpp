// Exporters of classifiers end a model in label strings and maps from label to score. A graph holds tensors of numbers:
// the scores take the map's place, the labels go.
#include <algorithm>

#include "importer/flat_model.h"

namespace tandem {
namespace {

// Operators that give what is no tensor of numbers; `scores` is the input that holds the numbers, -1: there is none.
struct LabelOp {
  std::string_view domain, op;
  int scores;
};
constexpr LabelOp label_ops[] = {
    {"ai.onnx.ml", "ZipMap", 0},
    {"ai.onnx.ml", "ArrayFeatureExtractor", -1},
    {"ai.onnx.ml", "LabelEncoder", -1},
};

}  // namespace

void drop_label_outputs(FlatModel& model) {
  std::vector<const LabelOp*> rows(model.symbols.size());
  std::vector<const FlatNode*> producers(model.symbols.size());
  for (const FlatNode& node : model.main.nodes) {
    const auto row = std::find_if(std::begin(label_ops), std::end(label_ops),
                                  [&](const LabelOp& r) { return r.domain == node.domain && r.op == node.op; });
    for (const Symbol out : node.outputs) {
      if (!out.present()) continue;
      producers[static_cast<std::size_t>(out.index)] = &node;
      if (row != std::end(label_ops)) rows[static_cast<std::size_t>(out.index)] = &*row;
    }
  }
  std::vector<Symbol> outputs;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < model.main.outputs.size(); ++i) {
    const Symbol out = model.main.outputs[i];
    const LabelOp* row = out.present() ? rows[static_cast<std::size_t>(out.index)] : nullptr;
    if (!row) {
      outputs.push_back(out);
      names.push_back(model.output_names[i]);
      continue;
    }
    const FlatNode& node = *producers[static_cast<std::size_t>(out.index)];
    const Symbol scores = row->scores >= 0 && row->scores < static_cast<int>(node.inputs.size())
                              ? node.inputs[static_cast<std::size_t>(row->scores)]
                              : Symbol{};
    if (!scores.present() || std::find(model.main.outputs.begin(), model.main.outputs.end(), scores) != model.main.outputs.end()) continue;
    outputs.push_back(scores);
    names.push_back(model.name(scores));
  }
  // A model of nothing but labels stays as it is, and is reported.
  if (outputs.empty()) return;
  model.main.outputs = std::move(outputs);
  model.output_names = std::move(names);
}

}  // namespace tandem
