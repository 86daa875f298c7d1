// After differentiation: elementwise nodes become programs. A node joins the program of an operand that nothing else
// reads, so no value is computed twice and no order changes but that the producer runs where its consumer does.
#include <algorithm>

#include "planner/rewrite/graph_copy.h"
#include "planner/rewrite/pass.h"

namespace tandem::pass_rows {
namespace {

constexpr std::size_t most_instructions = 24;
constexpr std::size_t most_inputs = 8;

struct Instruction {
  std::string op;
  std::int64_t args[3];  // < 0: none; < inputs: an input; else inputs + instruction
  float params[2];
};
struct Program {
  std::vector<ValueId> inputs;  // of the old graph
  std::vector<Instruction> code;
  std::vector<std::string> origin;
};

bool one_dtype(const Graph& g, const Node& node) {
  if (!node.op->elementwise || node.outputs.size() != 1 || node.inputs.size() > 3 || node.inputs.empty()) return false;
  const DType t = g[node.outputs[0]].type.dtype;
  if (!is_float(t)) return false;
  return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId in) { return in.present() && g[in].type.dtype == t; });
}

Program program_of(const Node& node) {
  Program p{.inputs = {}, .code = {}, .origin = node.origin};
  Instruction code{std::string(node.op->name), {-1, -1, -1}, {0, 0}};
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const auto it = std::find(p.inputs.begin(), p.inputs.end(), node.inputs[i]);
    code.args[i] = it - p.inputs.begin();
    if (it == p.inputs.end()) p.inputs.push_back(node.inputs[i]);
  }
  for (std::size_t i = 0; i < node.op->parameters.size() && i < 2; ++i)
    code.params[i] = node.attributes.real(node.op->parameters[i].attribute, node.op->parameters[i].absent);
  p.code = {code};
  return p;
}

// The program that computes `value` by `first` and then `second`, which reads it.
std::optional<Program> joined(const Program& first, const Program& second, ValueId value) {
  Program p = first;
  std::vector<std::int64_t> input_at(second.inputs.size(), -1);
  for (std::size_t i = 0; i < second.inputs.size(); ++i) {
    if (second.inputs[i] == value) continue;
    const auto it = std::find(p.inputs.begin(), p.inputs.end(), second.inputs[i]);
    input_at[i] = it - p.inputs.begin();
    if (it == p.inputs.end()) p.inputs.push_back(second.inputs[i]);
  }
  if (p.inputs.size() > most_inputs || first.code.size() + second.code.size() > most_instructions) return std::nullopt;
  const auto k = static_cast<std::int64_t>(p.inputs.size());
  const auto old = static_cast<std::int64_t>(first.inputs.size());
  for (Instruction& c : p.code)
    for (std::int64_t& a : c.args)
      if (a >= old) a += k - old;
  const auto done = static_cast<std::int64_t>(first.code.size());
  for (Instruction c : second.code) {
    for (std::int64_t& a : c.args) {
      if (a < 0) continue;
      if (a >= static_cast<std::int64_t>(second.inputs.size()))
        a = k + done + a - static_cast<std::int64_t>(second.inputs.size());
      else
        a = second.inputs[static_cast<std::size_t>(a)] == value ? k + done - 1 : input_at[static_cast<std::size_t>(a)];
    }
    p.code.push_back(c);
  }
  add_origin(p.origin, second.origin);
  return p;
}

Attributes attributes_of(const Program& p) {
  Strings ops;
  Ints args;
  Floats params;
  for (const Instruction& c : p.code) {
    ops.push_back(c.op);
    args.insert(args.end(), c.args, c.args + 3);
    params.insert(params.end(), c.params, c.params + 2);
  }
  const auto last = static_cast<std::int64_t>(p.inputs.size() + p.code.size() - 1);
  return {{"ops", std::move(ops)}, {"args", std::move(args)}, {"params", std::move(params)}, {"results", Ints{last}}};
}

Graph fuse_elementwise(const Graph& graph, const PassContext& context) {
  const IdVector<ValueId, int> uses = graph.uses();
  IdVector<NodeId, std::optional<Program>> programs(graph.nodes.size());
  IdVector<NodeId, bool> absorbed(graph.nodes.size());
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!one_dtype(graph, node)) continue;
    Program p = program_of(node);
    for (const ValueId in : node.inputs) {
      const NodeId from = graph[in].producer;
      if (!from.present() || !programs[from] || absorbed[from]) continue;
      // A value that this node reads twice has two uses, both here.
      const auto here = std::count(node.inputs.begin(), node.inputs.end(), in);
      const auto miss = [&](std::string why) { context.not_fused(graph[from], node, std::move(why)); };
      if (uses[in] != here) {
        miss(concat("the result of the first has ", uses[in], " readers"));
      } else if (graph[in].type != graph[node.outputs[0]].type) {
        miss(concat("their results differ in shape: ", graph[in].type, " and ", graph[node.outputs[0]].type));
      } else if (auto both = joined(*programs[from], p, in)) {
        p = std::move(*both);
        absorbed[from] = true;
      } else {
        miss(concat("an elementwise kernel has at most ", most_instructions, " operators and ", most_inputs, " operands"));
      }
    }
    programs[n] = std::move(p);
  }

  const Operator& op = internal_operator("Elementwise");
  GraphCopy copy(graph);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (absorbed[n]) continue;
    const Node& node = graph.nodes[n];
    if (!programs[n]) {
      copy.copy(node);
      continue;
    }
    std::vector<ValueId> inputs;
    for (const ValueId in : programs[n]->inputs) inputs.push_back(copy.map(in));
    const NodeId id = copy.to.add_node(op, node.name, attributes_of(*programs[n]), inputs, 1, programs[n]->origin);
    const ValueId y = copy.to[id].outputs[0];
    copy.to[y].name = graph[node.outputs[0]].name;
    copy.to[y].placement = graph[node.outputs[0]].placement;
    if (copy.to[y].type != graph[node.outputs[0]].type)
      fail("elementwise program of '", node.name, "' gives ", copy.to[y].type, " instead of ", graph[node.outputs[0]].type);
    copy.set(node.outputs[0], y);
  }
  return copy.finish();
}

}  // namespace

// Elementwise nodes into programs (Elementwise). After differentiation.
Pass fuse_elementwise() {
  return {.name = "fuse_elementwise",
          .run = [](Graph g, PassContext& c) { return fuse_elementwise(g, c); },
          .needs = {Property::primitive, Property::updated},
          .why = "elementwise formulas cost one pass over memory"};
}

}  // namespace tandem::pass_rows
