// A plan for Graphviz, a cluster for each program that names its devices: boxes are steps, edges values, dashed edges waits, bold ones what
// moves between devices, those of a program to itself, too. Of a plan with many steps boxes are modules, and exchanges stand together.
#include <map>
#include <set>

#include "base/printable.h"
#include "base/units.h"
#include "planner/plan/issue_order.h"
#include "planner/plan/module_graph.h"
#include "planner/plan/plan_file.h"
#include "planner/plan/print.h"

namespace tandem {
namespace {

std::string quoted(const std::string& text) {
  std::string s = "\"";
  for (const char c : printable(text, Lines::kept)) {
    if (c == '"' || c == '\\') s += '\\';
    if (c == '\n')
      s += "\\n";
    else
      s += c;
  }
  return s + "\"";
}

constexpr std::size_t most_steps = 120;  // that Graphviz draws within a few seconds and people read
constexpr std::string_view colors[] = {"#eef3fb", "#fdf0e2", "#eaf6ec", "#f3ecf9"};  // slice, launch, exchange, concat

std::string head_of(const Plan& plan) {
  return concat(
      "digraph ", quoted(shorten(plan.model.empty() ? "plan" : plan.model, 60)),
      " {\n  node [shape=box style=\"rounded,filled\" fontname=\"Helvetica\" fontsize=10];\n  edge [fontname=\"Helvetica\" fontsize=8];\n"
      "  graph [fontname=\"Helvetica\" fontsize=12];\n");
}

// Modules in place of steps. Edges to a program are to its cluster's first box.
std::string by_modules(const Plan& plan) {
  const ModuleGraph graph = module_graph(plan);
  std::string out = head_of(plan) + "  compound=true;\n";
  IdVector<ProgramId, std::string> first(plan.programs.size());
  for (ProgramId p{0}; p.index < std::ssize(plan.programs); ++p.index) {
    out += concat("  subgraph cluster_p", p.index, " {\n  label=", quoted(title_of(plan, p)), ";\n");
    for (std::size_t b = 0; b < graph.boxes.size(); ++b) {
      const ModuleGraph::Box& box = graph.boxes[b];
      if (box.program != p) continue;
      if (first[p].empty()) first[p] = concat("m", b);
      out += concat("  m", b, " [label=", quoted(concat(shorten(box.name, 40), "\n", box.steps, " steps, ", text_of_seconds(box.seconds))),
                    " fillcolor=", quoted(std::string(colors[1])), "];\n");
    }
    if (first[p].empty()) out += concat("  ", first[p] = concat("p", p.index), " [label=\"nothing is computed\"];\n");
    out += "  }\n";
  }
  for (const ModuleGraph::Edge& e : graph.edges)
    out += concat("  m", e.from, " -> m", e.to, " [label=", quoted(text_of_bytes(e.bytes)), "];\n");
  for (std::size_t x = 0; x < graph.meetings.size(); ++x) {
    const ModuleGraph::Meeting& m = graph.meetings[x];
    out += concat("  x", x, " [shape=ellipse fillcolor=", quoted(std::string(colors[2])), " label=", quoted(text_of(m)), "];\n");
    for (std::size_t i = 0; i < m.programs.size(); ++i) {
      const ProgramId p = m.programs[i];
      const bool gives = m.directed() && i == 0 && m.programs.size() > 1;
      out += gives ? concat("  ", first[p], " -> x", x, " [style=bold ltail=cluster_p", p.index, "];\n")
                   : concat("  x", x, " -> ", first[p], " [style=bold lhead=cluster_p", p.index,
                            m.directed() ? "" : " dir=both constraint=false", "];\n");
    }
  }
  return out + "}\n";
}

class DotPrinter {
 public:
  explicit DotPrinter(const Plan& plan) : plan_(plan), members_(plan.exchanges.size()) {}

  std::string run() {
    out_ = head_of(plan_);
    for (ProgramId p{0}; p.index < std::ssize(plan_.programs); ++p.index) {
      const std::vector<int> devices = plan_.devices_of(p);
      const std::string each = devices.size() > 1 ? " each" : "";
      const std::string rows = concat(plan_.devices[at(devices[0])].slice_size, " of ", plan_.batch, " samples", each);
      out_ += concat("  subgraph cluster_p", p.index, " {\n  label=", quoted(concat(names_of(plan_, p), ", ", rows)), ";\n");
      draw_steps(p);
      out_ += "  }\n";
    }
    for (std::size_t e = 0; e < members_.size(); ++e) draw_exchange({static_cast<int>(e)});
    return out_ + "}\n";
  }

 private:
  static std::string node(ProgramId program, std::size_t step) { return concat("p", program.index, "s", step); }

  void draw_steps(ProgramId p) {
    const DeviceProgram& device = plan_.programs[p];
    const IdVector<BufferId, BufferId> roots = roots_of(device);
    std::map<BufferId, std::size_t> writer;  // of a buffer's memory, by the buffer itself and by its root
    for (std::size_t i = 0; i < device.steps.size(); ++i) {
      const Step& s = device.steps[i];
      std::string label = label_of(plan_, s);
      if (!s.origin.empty()) label += "\n" + shorten(s.origin.front(), 32);
      if (const auto* launch = s.as<LaunchStep>()) label += "\n" + launch->kernel;
      if (s.seconds > 0) label += "\n" + text_of_seconds(s.seconds);
      out_ += concat("  ", node(p, i), " [label=", quoted(label), " fillcolor=", quoted(std::string(colors[s.what.index()])),
                     s.stream == 0 ? "" : " penwidth=2", "];\n");
      for (const BufferId in : s.inputs) {
        if (!in.present()) continue;
        auto from = writer.find(in);
        if (from == writer.end()) from = writer.find(roots[in]);
        if (from == writer.end()) continue;  // a parameter or a constant
        out_ += concat("  ", node(p, from->second), " -> ", node(p, i), " [label=", quoted(to_string(device.buffers[in].operand.shape)),
                       "];\n");
      }
      for (const StepId w : s.waits)
        out_ += concat("  ", node(p, static_cast<std::size_t>(w.index)), " -> ", node(p, i), " [style=dashed constraint=false];\n");
      for (const BufferId o : s.outputs)
        if (o.present()) writer[o] = writer[roots[o]] = i;
      if (const auto* e = s.as<ExchangeStep>()) members_[e->exchange][p] = node(p, i);
    }
  }

  // From the giver to those who get; where all give and get, by way of a node in the middle.
  void draw_exchange(ExchangeId id) {
    const Exchange& e = plan_.exchanges[id];
    const std::string bytes = text_of_bytes(e.elements * static_cast<std::int64_t>(size_of(e.dtype)));
    const bool one_gives = e.kind == ExchangeKind::send || e.kind == ExchangeKind::broadcast;
    const auto place = [&](int device) { return members_[id].at(plan_.devices[at(device)].program); };
    std::set<std::pair<std::string, std::string>> drawn;
    const auto draw = [&](const std::string& from, const std::string& to, const std::string& how) {
      if (drawn.emplace(from, to).second) out_ += concat("  ", from, " -> ", to, " [style=bold ", how, "];\n");
    };
    if (one_gives) {
      const std::string how = concat("label=", quoted(concat(shorten(e.name, 28), ", ", bytes)));
      for (std::size_t r = 0; r < at(e.rows); ++r)
        for (const int to : e.row(r).subspan(1)) draw(place(e.row(r)[0]), place(to), how);
      return;
    }
    const std::string name = concat("x", id.index);
    out_ += concat("  ", name, " [shape=ellipse fillcolor=", quoted(std::string(colors[2])), " label=",
                   quoted(concat(name_of(e.kind), " ", shorten(e.name, 28), e.rows > 1 ? concat("\n", e.rows, " rows of ") : "\n",
                                 e.rows > 1 ? concat(e.row_length(), " devices, ") : "", bytes)),
                   "];\n");
    for (const int device : e.devices) draw(place(device), name, "dir=both constraint=false");
  }

  const Plan& plan_;
  std::string out_;
  IdVector<ExchangeId, std::map<ProgramId, std::string>> members_;  // the node that takes part
};

}  // namespace

std::string dot_of(const Plan& plan) {
  std::size_t steps = 0;
  for (const DeviceProgram& p : plan.programs) steps += p.steps.size();
  return steps > most_steps ? by_modules(plan) : DotPrinter(plan).run();
}

}  // namespace tandem
