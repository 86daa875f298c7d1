// A plan's steps for Graphviz, a cluster for each device: boxes are steps, edges values, dashed edges waits, bold ones what moves
// between devices. A device that runs the steps of one before it is one box that says so.
#include <map>

#include "base/printable.h"
#include "base/units.h"
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

constexpr std::string_view colors[] = {"#eef3fb", "#fdf0e2", "#eaf6ec", "#f3ecf9"};  // slice, launch, exchange, concat

class DotPrinter {
 public:
  explicit DotPrinter(const Plan& plan) : plan_(plan), members_(plan.exchanges.size()) {}

  std::string run() {
    out_ = concat("digraph ", quoted(shorten(plan_.model.empty() ? "plan" : plan_.model, 60)),
                  " {\n  node [shape=box style=\"rounded,filled\" fontname=\"Helvetica\" fontsize=10];\n  edge [fontname=\"Helvetica\" fontsize=8];\n"
                  "  graph [fontname=\"Helvetica\" fontsize=12];\n");
    for (std::size_t d = 0; d < plan_.devices.size(); ++d) {
      const DevicePlan& device = plan_.devices[d];
      const std::string rows = concat(device.slice_size, " of ", plan_.batch, " samples");
      out_ += concat("  subgraph cluster_d", d, " {\n  label=", quoted(concat(device.device, ", ", rows)), ";\n");
      std::size_t like = 0;
      while (!run_alike(plan_.devices[like], device)) ++like;
      like == d ? draw_steps(d) : draw_likeness(d, like);
      out_ += "  }\n";
    }
    for (std::size_t e = 0; e < members_.size(); ++e) draw_exchange({static_cast<int>(e)});
    return out_ + "}\n";
  }

 private:
  static std::string node(std::size_t device, std::size_t step) { return concat("d", device, "s", step); }

  void draw_likeness(std::size_t d, std::size_t like) {
    const DevicePlan& device = plan_.devices[d];
    const std::string name = concat("d", d);
    out_ += concat("  ", name, " [label=", quoted(concat("the ", device.steps.size(), " steps of ", plan_.devices[like].device)),
                   " fillcolor=\"#f4f4f4\"];\n");
    for (const Step& s : device.steps)
      if (const auto* e = s.as<ExchangeStep>()) members_[e->exchange][static_cast<int>(d)] = name;
  }

  void draw_steps(std::size_t d) {
    const DevicePlan& device = plan_.devices[d];
    const auto root = [&](BufferId id) {
      for (std::size_t hops = 0; hops < device.buffers.size() && device.buffers[id].alias.present(); ++hops) id = device.buffers[id].alias;
      return id;
    };
    std::map<BufferId, std::size_t> writer;  // of a buffer's memory, by the buffer itself and by its root
    for (std::size_t i = 0; i < device.steps.size(); ++i) {
      const Step& s = device.steps[i];
      std::string label = label_of(plan_, s);
      if (!s.origin.empty()) label += "\n" + shorten(s.origin.front(), 32);
      if (const auto* launch = s.as<LaunchStep>()) label += "\n" + launch->kernel;
      if (s.seconds > 0) label += "\n" + text_of_seconds(s.seconds);
      out_ += concat("  ", node(d, i), " [label=", quoted(label), " fillcolor=", quoted(std::string(colors[s.what.index()])),
                     s.stream == 0 ? "" : " penwidth=2", "];\n");
      for (const BufferId in : s.inputs) {
        if (!in.present()) continue;
        auto from = writer.find(in);
        if (from == writer.end()) from = writer.find(root(in));
        if (from == writer.end()) continue;  // a parameter or a constant
        out_ += concat("  ", node(d, from->second), " -> ", node(d, i), " [label=", quoted(to_string(device.buffers[in].operand.shape)),
                       "];\n");
      }
      for (const StepId w : s.waits)
        out_ += concat("  ", node(d, static_cast<std::size_t>(w.index)), " -> ", node(d, i), " [style=dashed constraint=false];\n");
      for (const BufferId o : s.outputs)
        if (o.present()) writer[o] = writer[root(o)] = i;
      if (const auto* e = s.as<ExchangeStep>()) members_[e->exchange][static_cast<int>(d)] = node(d, i);
    }
  }

  // From the giver to those who get; where all give and get, by way of a node in the middle.
  void draw_exchange(ExchangeId id) {
    const Exchange& e = plan_.exchanges[id];
    const std::string bytes = text_of_bytes(e.elements * static_cast<std::int64_t>(size_of(e.dtype)));
    const bool one_gives = e.kind == ExchangeKind::send || e.kind == ExchangeKind::broadcast;
    const auto place = [&](int device) { return members_[id].at(device); };
    if (one_gives) {
      for (std::size_t m = 1; m < e.devices.size(); ++m)
        out_ += concat("  ", place(e.devices[0]), " -> ", place(e.devices[m]),
                       " [style=bold label=", quoted(concat(shorten(e.name, 28), ", ", bytes)), "];\n");
      return;
    }
    out_ += concat("  x", id.index, " [shape=ellipse fillcolor=", quoted(std::string(colors[2])),
                   " label=", quoted(concat(name_of(e.kind), " ", shorten(e.name, 28), "\n", bytes)), "];\n");
    for (const int device : e.devices) out_ += concat("  ", place(device), " -> x", id.index, " [style=bold dir=both constraint=false];\n");
  }

  const Plan& plan_;
  std::string out_;
  IdVector<ExchangeId, std::map<int, std::string>> members_;  // by exchange and device: the node that takes part
};

}  // namespace

std::string dot_of(const Plan& plan) { return DotPrinter(plan).run(); }

}  // namespace tandem
