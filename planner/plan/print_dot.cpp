// A plan's steps for Graphviz: boxes are steps, edges values, dashed edges waits.
#include <map>

#include "planner/plan/plan_file.h"
#include "planner/plan/units.h"

namespace tandem {
namespace {

std::string quoted(const std::string& text) {
  std::string s = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') s += '\\';
    if (c == '\n')
      s += "\\n";
    else
      s += c;
  }
  return s + "\"";
}

constexpr std::string_view colors[] = {"#eef3fb", "#fdf0e2", "#eaf6ec", "#f3ecf9"};  // slice, launch, all_reduce, concat

}  // namespace

std::string dot_of(const Plan& plan) {
  std::string out = concat(
      "digraph ", quoted(shorten(plan.model.empty() ? "plan" : plan.model, 60)),
      " {\n  node [shape=box style=\"rounded,filled\" fontname=\"Helvetica\" fontsize=10];\n  edge [fontname=\"Helvetica\" fontsize=8];\n");
  if (plan.devices.empty()) return out + "}\n";
  const DevicePlan& d = plan.devices[0];
  const auto root = [&](BufferId id) {
    for (std::size_t hops = 0; hops < d.buffers.size(); ++hops) {
      const BufferId next = d.buffers[static_cast<std::size_t>(id.index)].alias;
      if (!next.present()) break;
      id = next;
    }
    return id.index;
  };
  std::map<int, std::size_t> writer;  // of a buffer's memory, by the buffer itself and by its root
  for (std::size_t i = 0; i < d.steps.size(); ++i) {
    const Step& s = d.steps[i];
    std::vector<std::string> lines{s.kind == StepKind::launch ? s.op : std::string(name_of(s.kind))};
    if (s.kind == StepKind::slice && s.host >= 0) lines[0] += " " + shorten(plan.inputs[static_cast<std::size_t>(s.host)].name, 28);
    if (s.kind == StepKind::concat && s.host >= 0) lines[0] += " " + shorten(plan.outputs[static_cast<std::size_t>(s.host)].name, 28);
    if (s.kind == StepKind::all_reduce && s.bucket >= 0)
      lines[0] += " " + shorten(plan.buckets[static_cast<std::size_t>(s.bucket)].name, 28);
    if (!s.origin.empty()) lines.push_back(shorten(s.origin.front(), 32));
    if (!s.kernel.empty()) lines.push_back(s.kernel);
    if (s.seconds > 0) lines.push_back(text_of_seconds(s.seconds));
    std::string label;
    for (const std::string& l : lines) label += (label.empty() ? "" : "\n") + l;
    out += concat("  s", i, " [label=", quoted(label), " fillcolor=", quoted(std::string(colors[static_cast<std::size_t>(s.kind)])),
                  s.stream == 0 ? "" : " penwidth=2", "];\n");
    for (const BufferId in : s.inputs) {
      if (!in.present()) continue;
      auto from = writer.find(in.index);
      if (from == writer.end()) from = writer.find(root(in));
      if (from == writer.end()) continue;  // a parameter or a constant
      const Operand& operand = d.buffers[static_cast<std::size_t>(in.index)].operand;
      out += concat("  s", from->second, " -> s", i, " [label=", quoted(to_string(operand.shape)), "];\n");
    }
    for (const StepId w : s.waits) out += concat("  s", w.index, " -> s", i, " [style=dashed constraint=false];\n");
    for (const BufferId o : s.outputs)
      if (o.present()) {
        writer[o.index] = i;
        writer[root(o)] = i;
      }
  }
  return out + "}\n";
}

}  // namespace tandem
