// Which of the model's float constants are weights. ONNX does not say: it is judged by what reads them.
#include <algorithm>

#include "importer/flat_model.h"

namespace tandem {
namespace {

enum class Use {
  weight,  // whatever its size
  many,    // a weight if it has more than one element: a lone number is part of the formula
  statistic,
  fixed,  // a constant of the task: the weights of a loss's classes
  pass,   // the output is the weight in another form
};

struct Slot {
  std::string_view op;
  int first, last;  // inputs
  Use use;
};
constexpr int all = 1 << 30;
constexpr Slot slots[] = {
    {"Conv", 1, 2, Use::weight},
    {"ConvTranspose", 1, 2, Use::weight},
    {"Gemm", 0, 2, Use::weight},
    {"MatMul", 0, 1, Use::weight},
    {"Einsum", 0, all, Use::weight},
    {"Gather", 0, 0, Use::weight},
    {"PRelu", 1, 1, Use::weight},
    {"BatchNormalization", 1, 2, Use::weight},
    {"BatchNormalization", 3, 4, Use::statistic},
    {"InstanceNormalization", 1, 2, Use::weight},
    {"LayerNormalization", 1, 2, Use::weight},
    {"GroupNormalization", 1, 2, Use::weight},
    {"RMSNormalization", 1, 1, Use::weight},
    {"LSTM", 1, 3, Use::weight},
    {"GRU", 1, 3, Use::weight},
    {"RNN", 1, 3, Use::weight},
    {"NegativeLogLikelihoodLoss", 2, 2, Use::fixed},
    {"SoftmaxCrossEntropyLoss", 2, 2, Use::fixed},
    {"Add", 0, 1, Use::many},
    {"Mul", 0, 1, Use::many},
    {"Sum", 0, all, Use::many},
    {"Identity", 0, 0, Use::pass},
    {"Cast", 0, 0, Use::pass},
    {"CastLike", 0, 0, Use::pass},
    {"Reshape", 0, 0, Use::pass},
    {"Flatten", 0, 0, Use::pass},
    {"Squeeze", 0, 0, Use::pass},
    {"Unsqueeze", 0, 0, Use::pass},
    {"Transpose", 0, 0, Use::pass},
    {"Expand", 0, 0, Use::pass},
    {"Tile", 0, 0, Use::pass},
    {"Slice", 0, 0, Use::pass},
    {"Split", 0, 0, Use::pass},
    {"Concat", 0, all, Use::pass},
    {"Div", 0, 0, Use::pass},
    {"Sqrt", 0, 0, Use::pass},
    {"Reciprocal", 0, 0, Use::pass},
};

// Normalisation written out as arithmetic tells its statistics only by the names frameworks give them.
constexpr std::string_view statistic_names[] = {"running_mean", "running_var", "moving_mean", "moving_variance", "moving_var"};

struct Uses {
  bool weight = false, many = false, statistic = false, fixed = false;
  bool only_fixed() const { return fixed && !weight && !many && !statistic; }
  void add(const Uses& other) {
    weight = weight || other.weight;
    many = many || other.many;
    statistic = statistic || other.statistic;
    fixed = fixed || other.fixed;
  }
};

// Walks backwards, so that what a node's outputs are used for is known when its inputs ask.
class WeightFinder {
 public:
  explicit WeightFinder(FlatModel& model) : model_(model), uses_(model.symbols.size()) {
    model.roles.assign(model.symbols.size(), WeightRole::none);
    walk(model.main.nodes);
  }

  void judge(Symbol source, std::int64_t elements) {
    const std::string& name = model_.name(source);
    const bool named =
        std::any_of(std::begin(statistic_names), std::end(statistic_names), [&](std::string_view s) { return name.ends_with(s); });
    const Uses& uses = uses_of(source);
    const bool weight = uses.weight || (uses.many && elements > 1);
    if (uses.statistic || named) {
      role(source) = WeightRole::statistic;
    } else if (uses.fixed) {
      model_.warnings.push_back(concat("'", name, "' weighs the classes of a loss: it is a constant and not trained",
                                       weight ? ", although it is used as a weight too" : ""));
    } else if (weight) {
      role(source) = WeightRole::trained;
    }
  }

 private:
  void walk(const std::vector<FlatNode>& nodes) {
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
      for (const FlatBody& body : node->bodies) {
        if (node->op == "If")
          for (std::size_t i = 0; i < std::min(body.outputs.size(), node->outputs.size()); ++i) pass(body.outputs[i], node->outputs[i]);
        walk(body.nodes);
      }
      if (node->domain.empty()) use(*node);
    }
  }

  void use(const FlatNode& node) {
    for (const Slot& slot : slots) {
      if (slot.op != node.op) continue;
      const int last = std::min(slot.last, static_cast<int>(node.inputs.size()) - 1);
      for (int i = slot.first; i <= last; ++i) {
        const Symbol in = node.inputs[static_cast<std::size_t>(i)];
        if (!in.present()) continue;
        // What only goes into a constant of the task is no weight, whatever arithmetic it takes.
        const bool into_fixed = slot.use == Use::many && node.outputs.size() == 1 && node.outputs[0].present() && uses_of(node.outputs[0]).only_fixed();
        if (slot.use == Use::pass || into_fixed) {
          for (const Symbol out : node.outputs) pass(in, out);
        } else {
          uses_of(in).add({slot.use == Use::weight, slot.use == Use::many, slot.use == Use::statistic, slot.use == Use::fixed});
        }
      }
    }
  }

  void pass(Symbol from, Symbol to) {
    if (from.present() && to.present()) uses_of(from).add(uses_of(to));
  }
  Uses& uses_of(Symbol s) { return uses_[static_cast<std::size_t>(s.index)]; }
  WeightRole& role(Symbol s) { return model_.roles[static_cast<std::size_t>(s.index)]; }

  FlatModel& model_;
  std::vector<Uses> uses_;
};

const Tensor* value_of(const FlatNode& node) {
  const AttributeValue* value = node.attributes.find("value");
  return value ? std::get_if<Tensor>(value) : nullptr;
}

}  // namespace

void find_weights(FlatModel& model) {
  WeightFinder finder(model);
  std::vector<const Tensor*> integers(model.symbols.size());
  for (const FlatInitializer& i : model.main.initializers) {
    if (is_float(i.type.dtype) && i.type.shape.rank() > 0) finder.judge(i.symbol, i.type.shape.elements());
    if (i.type.dtype == DType::int64 && i.data) integers[static_cast<std::size_t>(i.symbol.index)] = &*i.data;
  }
  for (const FlatNode& node : model.main.nodes) {
    if (!node.domain.empty() || node.outputs.size() != 1 || !node.outputs[0].present()) continue;
    const Tensor* value = value_of(node);
    if (node.op == "Constant" && value && is_float(value->dtype()) && value->shape().rank() > 0)
      finder.judge(node.outputs[0], value->elements());
    if (node.op == "ConstantOfShape" && node.inputs.size() == 1 && node.inputs[0].present() && (!value || is_float(value->dtype()))) {
      const Tensor* shape = integers[static_cast<std::size_t>(node.inputs[0].index)];
      if (!shape || shape->elements() == 0) continue;
      // Only whether it is one or more matters; the product could overflow.
      const auto dims = shape->values<std::int64_t>();
      finder.judge(node.outputs[0], std::all_of(dims.begin(), dims.end(), [](std::int64_t d) { return d == 1; }) ? 1 : 2);
    }
  }
}

}  // namespace tandem
