// The placement of a plan by module, for Mermaid.
#include <algorithm>

#include "base/printable.h"
#include "base/units.h"
#include "planner/plan/module_graph.h"
#include "planner/plan/plan_file.h"
#include "planner/plan/print.h"

namespace tandem {
namespace {

constexpr std::size_t name_width = 40;

// Text in quotes, of whose characters none is Mermaid's or HTML's own.
std::string quoted(std::string_view text) {
  std::string s = "\"";
  for (const char c : printable(text)) {
    if (std::string_view("\"#<>&`\\;{}[]()|").find(c) == std::string_view::npos)
      s += c;
    else
      s += concat('#', static_cast<int>(c), ';');
  }
  return s + "\"";
}
// The same of two lines.
std::string quoted(std::string_view first, std::string_view second) {
  std::string s = quoted(first);
  s.pop_back();
  return concat(s, "<br/>", quoted(second).substr(1));
}

std::string group(ProgramId p) {
  return concat("p", p.index);
}

}  // namespace

std::string mermaid_of(const Plan& plan) {
  const ModuleGraph graph = module_graph(plan);
  std::string out = concat("%% ", quoted(shorten(plan.model, name_width)), ", placed over devices\nflowchart TB\n");
  for (ProgramId p{0}; p.index < std::ssize(plan.programs); ++p.index) {
    out += concat("  subgraph ", group(p), "[", quoted(title_of(plan, p)), "]\n");
    for (std::size_t b = 0; b < graph.boxes.size(); ++b)
      if (graph.boxes[b].program == p)
        out += concat("    m", b, "[", quoted(shorten(graph.boxes[b].name, name_width), text_of_seconds(graph.boxes[b].seconds)), "]\n");
    out += "  end\n";
  }
  for (const ModuleGraph::Edge& e : graph.edges) out += concat("  m", e.from, " -->|", quoted(text_of_bytes(e.bytes)), "| m", e.to, "\n");
  for (std::size_t i = 0; i < plan.inputs.size(); ++i) {
    if (plan.inputs[i].role == ValueRole::step_state) continue;
    out += concat("  in", i, "([", quoted(text_of(plan.inputs[i])), "])\n");
    for (const ProgramId p : takers_of(plan, i)) out += concat("  in", i, " --> ", group(p), "\n");
  }
  for (std::size_t x = 0; x < graph.meetings.size(); ++x) {
    const ModuleGraph::Meeting& m = graph.meetings[x];
    if (m.directed() && m.programs.size() > 1) {
      for (std::size_t to = 1; to < m.programs.size(); ++to)
        out += concat("  ", group(m.programs[0]), " -->|", quoted(text_of(m)), "| ", group(m.programs[to]), "\n");
      continue;
    }
    out += concat("  x", x, "{{", quoted(text_of(m)), "}}\n");
    for (const ProgramId p : m.programs) out += concat("  ", group(p), " <--> x", x, "\n");
  }
  for (std::size_t o = 0; o < plan.outputs.size(); ++o) {
    const HostOutput& output = plan.outputs[o];
    out += concat("  out", o, "([",
                  quoted(concat(shorten(output.name, 32), output.combine == Combine::rows ? ", rows joined" : ", summed")), "])\n");
    for (const ProgramId p : givers_of(plan, o)) out += concat("  ", group(p), " --> out", o, "\n");
  }
  return out;
}

}  // namespace tandem
