// A graph as text, which parse() reads back: graph/parse.h says how it is written.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/printable.h"
#include "graph/operator.h"
#include "graph/parse.h"

namespace tandem {
namespace {

constexpr std::int64_t most_elements = 64;  // of a tensor: of larger ones the values are left out

template <class T>
std::string number(T value) {
  if (std::isnan(value)) return "nan";
  char digits[64];
  std::string text(digits, std::to_chars(digits, std::end(digits), value).ptr);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";  // so that it is no integer
  return text;
}

std::string quoted(std::string_view name) {
  std::string text = "\"";
  for (const char c : printable(as_text(name))) text += c == '"' ? std::string("\\x22") : std::string(1, c);
  return text + '"';
}

std::string word(std::string_view name) {
  const bool plain = !name.empty() && std::all_of(name.begin(), name.end(), is_word) &&
                     std::string_view("-.0123456789").find(name[0]) == std::string_view::npos;
  return plain ? std::string(name) : quoted(name);
}

template <class List, class Each>
std::string joined(const List& list, Each&& each, std::string_view between = ",") {
  std::string text;
  bool first = true;
  for (const auto& one : list) {
    if (!std::exchange(first, false)) text += between;
    text += each(one);
  }
  return text;
}

std::string whole(std::int64_t v) { return std::to_string(v); }
template <class List>
std::string ints(const List& list) {
  return concat('[', joined(list, [](auto v) { return whole(v); }), ']');
}

std::string values_of(const Tensor& t) {
  if (t.elements() > most_elements) return "...";
  std::string text;
  if (t.dtype() == DType::float64)
    text = joined(t.values<double>(), number<double>);
  else if (is_float(t.dtype()) || is_small_float(t.dtype()))
    text = joined(t.cast(DType::float32).values<float>(), number<float>);
  else
    text = joined(t.to_int64s(), whole);
  return concat('[', text, ']');
}

std::string attribute(const AttributeValue& value) {
  struct Visitor {
    std::string operator()(std::int64_t v) const { return whole(v); }
    std::string operator()(float v) const { return number(v); }
    std::string operator()(const std::string& v) const { return quoted(v); }
    std::string operator()(const Ints& v) const { return ints(v); }
    std::string operator()(const Floats& v) const { return v.empty() ? "[floats]" : concat('[', joined(v, number<float>), ']'); }
    std::string operator()(const Strings& v) const { return v.empty() ? "[strings]" : concat('[', joined(v, *this), ']'); }
    std::string operator()(const Tensor& v) const { return concat(v.type(), ' ', values_of(v)); }
  };
  return std::visit(Visitor{}, value);
}

class Printer {
 public:
  explicit Printer(const Graph& graph) : graph_(graph) {}

  std::string run() {
    line("graph ", word(graph_.name));
    for (const DeviceGroup& group : graph_.groups)
      line("group ", word(group.name), " on ", ints(group.devices),
           joined(
               group.axes, [](const MeshAxis& a) { return concat(' ', word(a.name), ints(a.sizes)); }, ""));
    for (const PartOfParameter& part : graph_.parts)
      line("part of ", word(part.parameter.second),
           part.parameter.first == ValueRole::plain ? "" : concat(" as ", name_of(part.parameter.first)), ' ', ints(part.whole.dims),
           joined(
               part.ranges,
               [](const AxisRange& r) {
                 return concat(" axis ", r.axis, " from ", r.begin, " size ", r.size, r.outer > 1 ? concat(" outside ", r.outer) : "",
                               r.widths.empty() ? "" : concat(" runs ", ints(r.widths)));
               },
               ""));
    for (const ValueId in : graph_.inputs) line("given ", defined(in, true));
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      const ValueId v{static_cast<int>(i)};
      const Value& value = graph_[v];
      if (value.kind == ValueKind::parameter) line(value.trainable ? "trained " : "kept ", defined(v, false));
      if (value.kind == ValueKind::constant) line("known ", defined(v, false), " = ", values_of(*value.data));
    }
    for (const Node& node : graph_.nodes) line(of_node(node));
    for (const GraphOutput& out : graph_.outputs) line("gives ", read(out), role(out.role, out.of));
    return std::move(text_);
  }

 private:
  template <class... Parts>
  void line(const Parts&... parts) {
    text_ += concat(parts...) + '\n';
  }

  std::string read(ValueId v) const { return v.present() ? concat('%', v.index, ' ', word(graph_[v].name)) : "-"; }

  static std::string role(ValueRole role, const std::string& of) {
    if (role == ValueRole::plain && of.empty()) return {};
    return concat(" as ", name_of(role), of.empty() ? "" : " of ", of.empty() ? "" : word(of));
  }

  std::string placed(const Placement& placement) const {
    if (placement.group < 0) return {};
    const auto part = [](const Part& p) {
      return p.is_split() ? concat("split(", p.axis, p.outer == 1 ? "" : concat(',', p.outer),
                                   p.widths.empty() ? "" : concat(",runs ", ints(p.widths)), ')')
                          : std::string(name_of(p.spread));
    };
    return concat(" on ", word(graph_.groups[static_cast<std::size_t>(placement.group)].name), '[', joined(placement.parts, part), ']');
  }

  // `holds`: whether it holds samples unless it is said.
  std::string defined(ValueId id, bool holds) const {
    const Value& v = graph_[id];
    std::string text = concat(read(id), ' ', v.type, placed(v.placement), role(v.role, v.of));
    if (v.opaque) text += " opaque";
    if (v.depends_on_batch != holds) text += v.depends_on_batch ? " batch" : " single";
    if (v.batch.present() || v.batch.mixed)
      text += concat(" samples(", v.batch.axis, ',', v.batch.outer, v.batch.mixed ? ",mixed" : "", ')');
    if (!v.source.any()) text += concat(" in ", word(v.source.tag()));
    if (v.kind == ValueKind::parameter && v.template_shape != v.type.shape) text += concat(" template ", v.template_shape);
    return text;
  }

  std::string of_node(const Node& node) const {
    const bool holds =
        std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId in) { return in.present() && graph_[in].depends_on_batch; });
    const bool own = node.op->domain.empty() || node.op->domain == "tandem";
    const std::string attributes = joined(
        node.attributes, [](const auto& a) { return concat(word(a.first), '=', attribute(a.second)); }, ", ");
    return concat(joined(
                      node.outputs, [&](ValueId v) { return v.present() ? defined(v, holds) : "-"; }, ", "),
                  node.outputs.empty() ? "= " : " = ", own ? "" : concat(node.op->domain, "::"), node.op->name, ' ', word(node.name), '(',
                  joined(
                      node.inputs, [&](ValueId v) { return read(v); }, ", "),
                  ')', attributes.empty() ? "" : concat(" {", attributes, '}'), node.origin.empty() ? "" : " from ",
                  joined(node.origin, word, ", "));
  }

  const Graph& graph_;
  std::string text_;
};

}  // namespace

std::string print(const Graph& graph) { return Printer(graph).run(); }

}  // namespace tandem
