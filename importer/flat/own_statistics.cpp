#include "importer/flat/own_statistics.h"

#include <algorithm>

#include "importer/flat/operand_uses.h"
#include "tandem_onnx.pb.h"

namespace tandem {
namespace {

constexpr const char* mark = "own_statistics";

bool asks_for_training(const FlatNode& node) {
  if (node.opset < 14) return node.proto && node.proto->output_size() > 1;
  const AttributeValue* mode = node.attributes.find("training_mode");
  const auto* value = mode ? std::get_if<std::int64_t>(mode) : nullptr;
  return value && *value != 0;
}

}  // namespace

void mark_own_statistics(FlatModel& model) {
  std::vector<bool> sampled(model.symbols.size()), computed(model.symbols.size());  // depends on an input; made by arithmetic
  const auto in_set = [](const std::vector<bool>& set, Symbol s) { return s.present() && set[static_cast<std::size_t>(s.index)]; };
  for (const Symbol in : model.main.inputs) sampled[static_cast<std::size_t>(in.index)] = true;
  for (FlatNode& node : model.main.nodes) {
    const auto any = [&](const std::vector<bool>& set) {
      return std::any_of(node.inputs.begin(), node.inputs.end(), [&](Symbol s) { return in_set(set, s); });
    };
    const bool depends = any(sampled) || !node.bodies.empty();  // a body reads more than its node's operands
    const bool arithmetic = !node.inputs.empty() && (!is_view(role_of(node, 0)) || in_set(computed, node.inputs[0]));
    for (const Symbol out : node.outputs) {
      if (!out.present()) continue;
      sampled[static_cast<std::size_t>(out.index)] = depends;
      computed[static_cast<std::size_t>(out.index)] = arithmetic;
    }
    if (node.op != "BatchNormalization" || !node.domain.empty() || node.inputs.size() != 5 || depends || !asks_for_training(node)) continue;
    if (!in_set(computed, node.inputs[3]) && !in_set(computed, node.inputs[4])) continue;
    node.attributes.set("training_mode", std::int64_t{1});
    node.attributes.set(mark, std::int64_t{1});
  }
}

bool has_own_statistics(const FlatNode& node) {
  return node.op == "BatchNormalization" && node.attributes.has(mark);
}

}  // namespace tandem
