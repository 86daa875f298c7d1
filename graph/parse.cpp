#include "graph/parse.h"

#include <algorithm>
#include <map>

#include "graph/operator.h"
#include "graph/text_line.h"

namespace tandem {
namespace {

constexpr std::int64_t most_values = 1 << 20;

class Parser {
 public:
  Graph run(std::string_view text) {
    for (int number = 1; !text.empty(); ++number) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      TextLine line(text.substr(0, end), number);
      text.remove_prefix(std::min(end + 1, text.size()));
      if (line.ended()) continue;
      read(line);
      if (!line.ended()) line.refuse("the end of the line");
    }
    verify(graph_);
    return std::move(graph_);
  }

 private:
  void read(TextLine& l) {
    if (l.take("graph")) {
      graph_.name = l.name();
    } else if (l.take("group")) {
      read_group(l);
    } else if (l.take("part")) {
      read_part(l);
    } else if (l.take("given")) {
      const ValueId v = defined(l, {.kind = ValueKind::input, .depends_on_batch = true}, true);
      graph_.inputs.push_back(v);
    } else if (l.take("trained")) {
      defined(l, {.kind = ValueKind::parameter, .trainable = true}, true);
    } else if (l.take("kept")) {
      defined(l, {.kind = ValueKind::parameter}, true);
    } else if (l.take("known")) {
      const ValueId v = defined(l, {.kind = ValueKind::constant}, true);
      l.expect("=");
      graph_[v].data = l.values(graph_[v].type);
    } else if (l.take("gives")) {
      const ValueId v = operand(l);
      auto [role, of] = l.role();
      graph_.outputs.emplace_back(v, role, std::move(of));
    } else {
      read_node(l);
    }
  }

  void read_group(TextLine& l) {
    DeviceGroup group{.name = l.name(), .axes = {}, .devices = {}};
    l.expect("on");
    for (const std::int64_t device : l.ints()) group.devices.push_back(static_cast<int>(device));
    std::int64_t devices = 1;
    while (!l.ended()) {
      std::string name = l.name("a mesh axis");
      group.axes.push_back({std::move(name), l.ints()});
      devices *= group.axes.back().length();
    }
    if (devices != std::ssize(group.devices)) l.wrong("a mesh for ", devices, " devices, the group has ", group.devices.size());
    graph_.groups.push_back(std::move(group));
  }

  void read_part(TextLine& l) {
    l.expect("of");
    PartOfParameter part;
    part.parameter.second = l.name();
    part.parameter.first = l.role().first;
    part.whole = Shape{l.ints()};
    while (!l.ended()) {
      AxisRange r;
      l.expect("axis");
      r.axis = static_cast<int>(l.number());
      l.expect("from");
      r.begin = l.number();
      l.expect("size");
      r.size = l.number();
      if (l.take("outside")) r.outer = l.number();
      if (l.take("runs")) r.widths = l.ints();
      part.ranges.push_back(r);
    }
    graph_.parts.push_back(std::move(part));
  }

  Placement placement(TextLine& l) {
    const std::string name = l.name("a group");
    const auto group = std::find_if(graph_.groups.begin(), graph_.groups.end(), [&](const DeviceGroup& g) { return g.name == name; });
    if (group == graph_.groups.end()) l.wrong("there is no group '", name, "'");
    Placement placement{.group = static_cast<int>(group - graph_.groups.begin()), .parts = {}};
    l.list("[", "]", [&] {
      Part part;
      for (const Spread spread : {Spread::broadcast, Spread::split, Spread::partial, Spread::own})
        if (l.take(name_of(spread))) {
          part.spread = spread;
          if (spread == Spread::split) {
            l.expect("(");
            part.axis = static_cast<int>(l.number());
            if (l.take(",")) part.outer = l.number();
            if (l.take(",")) {
              l.expect("runs");
              part.widths = l.ints();
            }
            l.expect(")");
          }
          placement.parts.push_back(part);
          return;
        }
      l.refuse("broadcast, split(AXIS), partial or own");
    });
    if (placement.parts.size() > group->axes.size()) l.wrong("group '", name, "' has ", group->axes.size(), " mesh axes");
    return placement;
  }

  // A value where it comes from. `typed`: its type must be there.
  ValueId defined(TextLine& l, Value value, bool typed) {
    std::int64_t index = std::ssize(graph_.values);
    if (l.take("%")) index = l.number("a value's number");
    if (index < 0 || index >= most_values) l.wrong("values have numbers from 0 to ", most_values - 1, ", got ", index);
    value.name = l.name("a value's name");
    batch_said_ = false;
    if (typed || l.begins_type()) {
      value.type = l.type();
      if (value.kind == ValueKind::parameter) value.template_shape = value.type.shape;
      take_rest(l, value);
    }
    const ValueId id{static_cast<int>(index)};
    if (known(id)) l.wrong("value %", index, " is there already");
    if (id.index >= std::ssize(graph_.values)) {
      graph_.values.resize(static_cast<std::size_t>(id.index) + 1);
      known_.resize(graph_.values.size());
    }
    named_[value.name] = id;
    known_[static_cast<std::size_t>(id.index)] = true;
    graph_[id] = std::move(value);
    return id;
  }
  bool known(ValueId v) const { return static_cast<std::size_t>(v.index) < known_.size() && known_[static_cast<std::size_t>(v.index)]; }

  void take_rest(TextLine& l, Value& value) {
    if (l.take("on")) value.placement = placement(l);
    std::tie(value.role, value.of) = l.role();
    value.opaque = l.take("opaque");
    for (const bool batch : {true, false})
      if (l.take(batch ? "batch" : "single")) {
        value.depends_on_batch = batch;
        batch_said_ = true;
      }
    if (l.take("samples")) {
      l.expect("(");
      value.batch.axis = static_cast<int>(l.number());
      l.expect(",");
      value.batch.outer = l.number();
      if (l.take(",")) {
        l.expect("mixed");
        value.batch.mixed = true;
      }
      l.expect(")");
    }
    if (l.take("in")) value.source = Layout(l.name("a layout"));
    if (l.take("template")) value.template_shape = Shape{l.ints()};
  }

  ValueId operand(TextLine& l) {
    if (!l.take("%")) {
      const std::string name = l.name("a value");
      const auto it = named_.find(name);
      if (it == named_.end()) l.wrong("there is no value '", name, "' before this line");
      return it->second;
    }
    const std::int64_t index = l.number("a value's number");
    if (index < 0 || index >= most_values || !known({static_cast<int>(index)})) l.wrong("there is no value %", index, " before this line");
    const ValueId v{static_cast<int>(index)};
    if (const std::string name = l.name("the value's name"); name != graph_[v].name)
      l.wrong("%", index, " is called '", graph_[v].name, "', not '", name, "'");
    return v;
  }

  // A number beside other operands is of their type.
  ValueId literal(TextLine& l, const std::vector<ValueId>& beside) {
    const double value = l.number<double>("an operand");
    DType dtype = DType::float32;
    for (const ValueId v : beside)
      if (v.present()) dtype = graph_[v].type.dtype;
    const ValueId v = graph_.add_constant(concat("const_", value), Tensor::scalar(value).cast(dtype));
    known_.resize(graph_.values.size());
    known_[static_cast<std::size_t>(v.index)] = true;
    return v;
  }

  void read_node(TextLine& l) {
    std::vector<ValueId> unsaid;  // outputs that depend on the batch if an operand does
    bool typed = true;
    Node node;
    if (!l.take("=")) {
      do {
        if (l.take("-")) {
          node.outputs.emplace_back();
          continue;
        }
        node.outputs.push_back(defined(l, {.producer = {static_cast<int>(graph_.nodes.size())}}, false));
        if (!batch_said_) unsaid.push_back(node.outputs.back());
        if (graph_[node.outputs.back()].type.dtype == DType::undefined) typed = false;
      } while (l.take(","));
      l.expect("=");
    }
    read_operator(l, node);
    l.list("(", ")", [&] {
      const char c = l.next();
      const bool digit = (c >= '0' && c <= '9') || c == '.';
      if (l.take("-"))
        node.inputs.emplace_back();
      else if (digit || c == '-')
        node.inputs.push_back(literal(l, node.inputs));
      else
        node.inputs.push_back(operand(l));
    });
    if (l.next() == '{')
      l.list("{", "}", [&] {
        std::string name = l.name("an attribute's name");
        l.expect("=");
        node.attributes.set(std::move(name), l.attribute());
      });
    if (l.take("from"))
      do node.origin.push_back(l.name());
      while (l.take(","));
    const bool batch =
        std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId in) { return in.present() && graph_[in].depends_on_batch; });
    for (const ValueId out : unsaid) graph_[out].depends_on_batch = batch;
    graph_.nodes.push_back(std::move(node));
    if (!typed) infer(l, graph_.nodes.back());
  }

  void read_operator(TextLine& l, Node& node) {
    const std::string name = l.name("an operator");
    const std::size_t colons = name.rfind("::");
    if (colons == std::string::npos) {
      node.op = find_operator(name);
      if (!node.op) node.op = find_operator(name, "tandem");
    } else {
      node.op = find_operator(name.substr(colons + 2), name.substr(0, colons));
    }
    if (!node.op) l.wrong("there is no operator '", name, "'");
    if (l.next() != '(') node.name = l.name("a node's name");
  }

  void infer(const TextLine& l, Node& node) {
    try {
      InferContext context(graph_, node);
      node.op->infer(context);
    } catch (const Error& e) {
      l.wrong(e.what());
    }
  }

  Graph graph_;
  std::vector<bool> known_;  // by value
  bool batch_said_ = false;  // of the value that was read last
  std::map<std::string, ValueId, std::less<>> named_;
};

}  // namespace

Graph parse(std::string_view text) { return Parser().run(text); }

}  // namespace tandem
