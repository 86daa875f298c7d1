#include "planner/loss/loss_value.h"

#include "base/option.h"

#include <algorithm>
#include <set>

#include "planner/loss/probabilities.h"

namespace tandem {
namespace {

// Whether the loss takes the scores that such an output was made of.
bool takes_scores(const LossRow& loss, OutputKind kind) {
  return kind != OutputKind::plain && loss.scores == (kind == OutputKind::log_softmax ? OutputKind::softmax : kind);
}

}  // namespace

FinalScores find_scores(const Graph& graph, ValueId output, const LossRow& loss) {
  for (ValueId v = output; graph[v].producer.present();) {
    const Node& node = graph[graph[v].producer];
    const OutputKind kind = node.op->gives;
    if (loss.scores == OutputKind::softmax)
      if (const std::optional<FinalScores> scores = scores_of_probabilities(graph, v)) return *scores;
    if (takes_scores(loss, kind)) {
      const ValueId x = node.inputs[0];
      const bool has_axis = kind != OutputKind::sigmoid;
      return {kind, x, has_axis ? normalize_axis(node.attributes.integer("axis", -1), graph[x].type.shape.rank(), node.op->name) : -1};
    }
    if (node.inputs.empty() || operand_of(*node.op, 0).role != OperandRole::unchanged) break;
    v = node.inputs[0];
  }
  return {OutputKind::plain, output, -1};
}

namespace {

// Whether no input of the model reaches a value.
bool from_parameters(const Graph& graph, ValueId value) {
  std::vector<ValueId> open{value};
  std::set<ValueId> seen{value};
  while (!open.empty()) {
    const Value& v = graph[open.back()];
    open.pop_back();
    if (v.kind == ValueKind::input) return false;
    if (!v.producer.present()) continue;
    for (const ValueId input : graph[v.producer].inputs)
      if (input.present() && seen.insert(input).second) open.push_back(input);
  }
  return true;
}

}  // namespace

int feature_axis(const Graph& graph, ValueId value) {
  const Value& v = graph[value];
  const Shape& shape = v.type.shape;
  const int last = shape.rank() - 1;
  if (!v.producer.present() || last < 0) return -1;
  const Node& node = graph[v.producer];
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i].present()) continue;
    const OperandRole role = operand_of(*node.op, static_cast<int>(i)).role;
    if (role == OperandRole::filter || role == OperandRole::transposed_filter) return last < 1 ? -1 : 1;
    if ((role == OperandRole::matrix && i > 0) || role == OperandRole::embedding) return from_parameters(graph, node.inputs[i]) ? last : -1;
  }
  for (const ValueId input : node.inputs) {
    if (!input.present()) continue;
    const Shape& from = graph[input].type.shape;
    if (node.op->name == "Transpose") {
      const Ints perm = node.attributes.ints("perm");
      const int axis = feature_axis(graph, input);
      const auto at = std::find(perm.begin(), perm.end(), axis);
      return axis < 0 || at == perm.end() ? -1 : static_cast<int>(at - perm.begin());
    }
    if (from == shape) {
      if (!from_parameters(graph, input)) return feature_axis(graph, input);
    } else if (is_view(operand_of(*node.op, 0).role) && from.rank() > 0 && from[from.rank() - 1] == shape[last] && from.elements() == shape.elements()) {
      return feature_axis(graph, input) == from.rank() - 1 ? last : -1;
    }
  }
  return -1;
}

std::vector<CompileOptions> options_of_losses(const CompileOptions& o) {
  const std::vector<LossTerm> terms = parse_loss(o.loss.name);
  std::vector<CompileOptions> list(terms.size(), o);
  for (std::size_t i = 0; i < terms.size(); ++i) {
    CompileOptions& one = list[i];
    const LossTerm& term = terms[i];
    if (!term.output.empty() && !o.loss.on.empty() && o.loss.on != term.output)
      fail(ExitCode::usage, option("loss_on"), " ", o.loss.on, ": the loss says that it is computed on '", term.output, "'");
    if (!term.output.empty()) one.loss.on = term.output;
    if (terms.size() == 1) continue;
    one.loss.name = term.file.empty() ? term.loss : term.file;
    const auto form = o.loss.label_forms.find(term.output);
    one.loss.class_axis = form == o.loss.label_forms.end() ? std::nullopt : form->second.class_axis;
    one.loss.dense_labels = form != o.loss.label_forms.end() && form->second.dense;
    one.loss.label_length = form == o.loss.label_forms.end() ? std::nullopt : form->second.label_length;
  }
  return list;
}

ValueId loss_value(const Graph& model, const CompileOptions& o) {
  const LossTerm term = parse_loss(o.loss.name)[0];
  if (const auto computed = term.file.empty() ? std::nullopt : model.find(ValueRole::file_loss, o.loss.on)) return *computed;
  return model_value(model, o);
}

ValueId model_value(const Graph& model, const CompileOptions& o) {
  if (model.outputs.empty()) fail("model '", model.name, "' has no output to compute a loss on");
  if (o.loss.on.empty()) {  // labels that a classifier gives as integers are no scores
    const auto floats = std::find_if(model.outputs.begin(), model.outputs.end(),
                                     [&](const GraphOutput& out) { return is_float(model[out.value].type.dtype); });
    return floats == model.outputs.end() ? model.outputs[0].value : floats->value;
  }
  for (const ValueId out : model.outputs)
    if (model[out].name == o.loss.on) return out;
  const auto found = model.find(o.loss.on);
  if (!found) fail(ExitCode::usage, option("loss_on"), " ", o.loss.on, ": model '", model.name, "' has no value of that name");
  if (!is_float(model[*found].type.dtype))
    fail(ExitCode::usage, option("loss_on"), " ", o.loss.on, ": it is ", model[*found].type, ", expected floating point");
  return *found;
}

std::vector<ValueId> logits_of(const Graph& model, const CompileOptions& o) {
  std::vector<ValueId> logits;
  for (const CompileOptions& one : options_of_losses(o))
    logits.push_back(find_scores(model, loss_value(model, one), loss_row(parse_loss(one.loss.name)[0].loss)).logits);
  if (!o.loss.distillation) return logits;
  logits.push_back(scores_behind(model, student_value(model, o)));
  const auto teacher = model.find(ValueRole::teacher);
  if (!teacher) fail("internal: the graph has no scores of a teacher");
  logits.push_back(*teacher);
  return logits;
}

ValueId scores_behind(const Graph& model, ValueId value) { return find_scores(model, value, loss_row("softmax-cross-entropy")).logits; }

ValueId student_value(const Graph& model, const CompileOptions& o) {
  CompileOptions on = o;
  if (const LossTerm term = parse_loss(o.loss.name)[0]; !term.output.empty()) on.loss.on = term.output;
  return model_value(model, on);
}

}  // namespace tandem
