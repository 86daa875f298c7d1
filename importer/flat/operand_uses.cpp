// The nodes are walked backwards, so that what an output is used for is known when the inputs ask; what each operand is stands in the
// operators' rows. A normalization that is written out as arithmetic shows only in several nodes together, and is looked for in a
// second walk.
#include "importer/flat/operand_uses.h"

#include <algorithm>

#include "importer/upgrade/upgrade.h"

namespace tandem {
namespace {

using enum OperandRole;

constexpr std::uint32_t bit(OperandRole role) {
  return std::uint32_t{1} << static_cast<int>(role);
}
// Of these it takes the file's or the user's word that a tensor is trained.
constexpr std::uint32_t without_gradient =
    bit(mean) | bit(variance) | bit(class_weights) | bit(constant) | bit(bound) | bit(positions) | bit(classes) | bit(index);
constexpr std::uint32_t statistics = bit(mean) | bit(variance);

// The first that a value is used as says what it is.
constexpr OperandRole by_strength[] = {
    variance, mean,     class_weights, constant, filter, transposed_filter, matrix, embedding, scale,     bias,    slope,
    radicand, exponent, addend,        factor,   data,   unchanged,         view,   bound,     positions, classes, index};

std::size_t strength(OperandRole role) {
  return static_cast<std::size_t>(std::find(std::begin(by_strength), std::end(by_strength), role) - std::begin(by_strength));
}

// By its own name, or by today's where it has left ONNX.
const Operator* operator_of(const FlatNode& node) {
  if (const Operator* op = find_operator(node.op, node.domain)) return op;
  const std::optional<Renamed> now = renamed(node.op, node.opset);
  return now ? find_operator(now->op, node.domain) : nullptr;
}

// Nothing flows back through these outputs, whatever the operator's rule says of floats.
bool gives_no_floats(const FlatNode& node) {
  const Operator* op = operator_of(node);
  const AttributeValue* to = op && !op->type_attribute.empty() ? node.attributes.find(op->type_attribute) : nullptr;
  const auto* dtype = to ? std::get_if<std::int64_t>(to) : nullptr;
  return dtype && !is_float(static_cast<DType>(*dtype)) && !is_small_float(static_cast<DType>(*dtype));
}

// Walks backwards, so that what a node's outputs are used for is known when its inputs ask.
class Walk {
 public:
  explicit Walk(const FlatModel& model) : uses_(model.symbols.size()), lone_(model.symbols.size()) {
    note_lone(model.main);
    for (const Symbol out : model.main.outputs)
      if (out.present()) {
        of(out).output = true;
        of(out).roles |= bit(data);
      }
    body(model.main);
    means(model.main);
  }
  std::vector<Uses> take() { return std::move(uses_); }

 private:
  Uses& of(Symbol s) { return uses_[static_cast<std::size_t>(s.index)]; }
  bool lone(Symbol s) const { return s.present() && lone_[static_cast<std::size_t>(s.index)]; }
  void note_lone(Symbol s, const TensorType& type) {
    lone_[static_cast<std::size_t>(s.index)] = is_float(type.dtype) && type.shape.elements() == 1;
  }
  void note_lone(const FlatBody& b) {
    for (const FlatInitializer& i : b.initializers) note_lone(i.symbol, i.type);
    for (const FlatNode& node : b.nodes) {
      note_constant(node);
      for (const FlatBody& inner : node.bodies) note_lone(inner);
    }
  }
  void note_constant(const FlatNode& node) {
    if (node.op != "Constant" || !node.domain.empty() || node.outputs.size() != 1 || !node.outputs[0].present()) return;
    const AttributeValue* value = node.attributes.find("value");
    if (const Tensor* tensor = value ? std::get_if<Tensor>(value) : nullptr) note_lone(node.outputs[0], tensor->type());
    if (node.attributes.has("value_float")) lone_[static_cast<std::size_t>(node.outputs[0].index)] = true;
  }

  void body(const FlatBody& b) {
    for (auto node = b.nodes.rbegin(); node != b.nodes.rend(); ++node) {
      for (const FlatBody& inner : node->bodies) {
        for (std::size_t i = 0; i < inner.outputs.size(); ++i) {
          const Symbol from = inner.outputs[i];
          if (!from.present()) continue;
          if (node->op == "If" && i < node->outputs.size() && node->outputs[i].present()) hand_on(from, of(node->outputs[i]));
          if (node->op != "If") of(from).roles |= bit(data);  // feeds the next iteration
        }
        body(inner);
      }
      read(*node);
    }
  }

  void read(const FlatNode& node) {
    const Operator* op = operator_of(node);
    const bool flows = (!op || op->differentiate || op->expand) && !gives_no_floats(node);
    std::uint32_t after = 0;  // what the outputs are used for
    bool root = false;
    for (const Symbol out : node.outputs) {
      if (!out.present()) continue;
      after |= of(out).roles;
      root = root || of(out).has(radicand);
    }
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const Symbol in = node.inputs[i];
      if (!in.present()) continue;
      const int input = static_cast<int>(i);
      const OperandRole role = role_of(node, input);
      ++of(in).readers;
      if (is_view(role) && flows) {
        for (const Symbol out : node.outputs)
          if (out.present()) hand_on(in, of(out));
      } else if (bit(role) & without_gradient) {
        add(in, role, {&node, input});
      } else if (flows && (after & ~without_gradient)) {
        add(in, role, {&node, input});
        const bool under_root = role == addend && root && node.inputs.size() == 2;
        of(in).written_out = of(in).written_out || role == radicand || (under_root && lone(node.inputs[1 - i]));
        of(in).epsilon = of(in).epsilon || (under_root && lone(in));
      } else {
        // Arithmetic of what is constant. What is reduced to a mean is not one itself: it may be a weight that is normalized.
        const std::uint32_t passed = after & without_gradient & ~(op && op->elementwise ? 0 : statistics);
        for (const Symbol out : node.outputs)
          if (out.present() && passed) hand_on(in, of(out), passed);
      }
    }
  }

  void add(Symbol s, OperandRole role, Uses::Reader reader) {
    Uses& u = of(s);
    if (!u.reader.node || strength(role) < strength(u.strongest())) {
      u.reader = reader;
      u.direct = true;
    }
    u.roles |= bit(role);
  }

  void hand_on(Symbol to, const Uses& from, std::uint32_t roles) {
    Uses& u = of(to);
    const Uses passed{.roles = from.roles & roles};
    if (passed.roles && from.reader.node && (!u.reader.node || strength(passed.strongest()) < strength(u.strongest()))) {
      u.reader = from.reader;
      u.direct = false;
    }
    u.roles |= passed.roles;
  }

  void hand_on(Symbol to, const Uses& from) {
    hand_on(to, from, ~std::uint32_t{0});
    Uses& u = of(to);
    u.written_out = u.written_out || from.written_out;
    u.epsilon = u.epsilon || from.epsilon;
  }

  // In x − m, of which the difference is multiplied or divided by the root of a held variance, m is the mean. Nodes stand in
  // order, so what is computed from held tensors alone is known when a later node reads it.
  void means(const FlatBody& main) {
    std::vector<bool> known(uses_.size()), spread(uses_.size());
    std::vector<Symbol> subtracted(uses_.size()), source(uses_.size());  // source: behind views, what is held
    std::vector<Symbol> scaled(uses_.size());                            // what is held, times such a root
    const auto in_set = [](const std::vector<bool>& set, Symbol s) { return s.present() && set[static_cast<std::size_t>(s.index)]; };
    const auto hold = [&](Symbol s) { known[static_cast<std::size_t>(s.index)] = true; source[static_cast<std::size_t>(s.index)] = s; };
    for (const FlatInitializer& i : main.initializers) hold(i.symbol);
    for (const FlatNode& node : main.nodes) {
      if (!node.domain.empty() || node.outputs.size() != 1 || !node.outputs[0].present()) continue;
      const auto out = static_cast<std::size_t>(node.outputs[0].index);
      if (node.op == "Constant") hold(node.outputs[0]);
      if (node.inputs.empty() || !node.inputs[0].present()) continue;
      known[out] = std::all_of(node.inputs.begin(), node.inputs.end(), [&](Symbol s) { return in_set(known, s); });
      const auto first = static_cast<std::size_t>(node.inputs[0].index);
      const OperandRole role = role_of(node, 0);
      const bool product = role == factor;
      if (role == unchanged) source[out] = source[first];
      if (node.op == "Sub" && node.inputs.size() == 2 && in_set(known, node.inputs[1]) && !known[out])
        subtracted[out] = source[static_cast<std::size_t>(node.inputs[1].index)];
      const bool any_spread = std::any_of(node.inputs.begin(), node.inputs.end(), [&](Symbol s) { return in_set(spread, s); });
      spread[out] = known[out] && (role == radicand || any_spread);
      // beta − mean · (gamma / root), as Keras writes it.
      if (known[out] && product && node.inputs.size() == 2)
        for (const int i : {0, 1})
          if (in_set(spread, node.inputs[static_cast<std::size_t>(1 - i)]) && !in_set(spread, node.inputs[static_cast<std::size_t>(i)]))
            scaled[out] = source[static_cast<std::size_t>(node.inputs[static_cast<std::size_t>(i)].index)];
      if (node.op == "Neg" && known[out] && scaled[first].present()) of(scaled[first]).written_out = true;
      if (node.op == "Sub" && known[out] && node.inputs.size() == 2 && scaled[static_cast<std::size_t>(node.inputs[1].index)].present())
        of(scaled[static_cast<std::size_t>(node.inputs[1].index)]).written_out = true;
      if (!product || known[out]) continue;
      for (const Symbol in : node.inputs) {
        const Symbol mean_value = in.present() ? subtracted[static_cast<std::size_t>(in.index)] : Symbol{};
        if (mean_value.present()) subtracted[out] = mean_value;
        if (mean_value.present() && any_spread) of(mean_value).written_out = true;
      }
    }
  }

  std::vector<Uses> uses_;
  std::vector<bool> lone_;  // floats of one element that the file holds
};

}  // namespace

bool Uses::gradient() const {
  return (roles & ~without_gradient) != 0;
}

OperandRole Uses::strongest() const {
  for (const OperandRole role : by_strength)
    if (has(role)) return role;
  return index;
}

OperandRole role_of(const FlatNode& node, int input) {
  const Operator* op = operator_of(node);
  return op ? operand_of(*op, input).role : data;
}

std::vector<Uses> uses_of(const FlatModel& model) {
  return Walk(model).take();
}

bool is_weight(OperandRole role) {
  return role == filter || role == transposed_filter || role == matrix || role == embedding || role == scale || role == bias ||
         role == slope;
}
bool is_statistic(OperandRole role) {
  return role == mean || role == variance;
}

std::string text_of(const Uses::Reader& reader) {
  if (!reader.node) return "an output of the model";
  const Operator* op = operator_of(*reader.node);
  const std::string_view name = op ? operand_of(*op, reader.input).name : std::string_view();
  const std::string operand = name.empty() ? concat("input ", reader.input) : std::string(name);
  return concat(operand, " of ", reader.node->op, " '", reader.node->name, '\'');
}

}  // namespace tandem
