// The placement of a plan by module as an SVG picture: a column for each class of devices, inputs above, exchanges and outputs below.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/printable.h"
#include "base/units.h"
#include "planner/plan/module_graph.h"
#include "planner/plan/plan_file.h"
#include "planner/plan/print.h"

namespace tandem {
namespace {

constexpr double column = 250, box_width = 206, box_height = 38, gap = 20, head = 44, line = 40, margin = 16;
constexpr std::size_t title_width = 30, name_width = 26, line_width = 76;
constexpr std::string_view colours[] = {"#2f6fb0", "#c96a1e", "#2f8f5b", "#8e5bb5", "#b8405e", "#1f8f96", "#8a6d1f", "#5c6672"};
constexpr std::string_view style = R"(
  text { font: 13px system-ui, sans-serif; fill: #1c2430; } .small { font-size: 11.5px; fill: #5a6472; } .name { font-weight: 600; }
  .frame { fill: #ffffff; } line, path { stroke: #5a6472; fill: none; } .exchange { stroke: #d9762b; stroke-width: 1.6; }
  .page { fill: #ffffff; } .bus { paint-order: stroke; stroke: #ffffff; stroke-width: 4px; }
  @media (prefers-color-scheme: dark) { text { fill: #e7ebf0; } .small { fill: #a2acb8; }
    .frame, .page { fill: #14181d; } .bus { stroke: #14181d; } line, path { stroke: #a2acb8; } }
)";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : printable(text))
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
  return out;
}

std::string text(double x, double y, std::string_view kind, std::string_view value) {
  return fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" class=\"{}\">{}</text>\n", x, y, kind, escaped(value));
}

class Picture {
 public:
  explicit Picture(const Plan& plan) : plan_(plan), graph_(module_graph(plan)) {}

  std::string draw() {
    for (std::size_t i = 0; i < plan_.inputs.size(); ++i)
      if (plan_.inputs[i].role != ValueRole::step_state) above_.push_back({text_of(plan_.inputs[i]), takers_of(plan_, i), "host", false});
    for (const ModuleGraph::Meeting& m : graph_.meetings) below_.push_back({text_of(m), m.programs, "exchange", m.directed()});
    for (std::size_t o = 0; o < plan_.outputs.size(); ++o)
      below_.push_back(
          {concat(shorten(plan_.outputs[o].name, 32), plan_.outputs[o].combine == Combine::rows ? ", rows joined" : ", summed"),
           givers_of(plan_, o), "host", false});
    std::erase_if(above_, [](const Bus& b) { return b.programs.empty(); });
    std::erase_if(below_, [](const Bus& b) { return b.programs.empty(); });
    top_ = margin + line * static_cast<double>(above_.size());
    for (ProgramId p{0}; p.index < std::ssize(plan_.programs); ++p.index) columns(p);
    double y = margin + 14;
    for (std::size_t i = 0; i < above_.size(); ++i, y += line) bus(above_[i], y, i, above_.size(), true);
    y = bottom_ + line - 8;
    for (std::size_t i = 0; i < below_.size(); ++i, y += line) bus(below_[i], y, i, below_.size(), false);
    const double width = std::max(widest_, column * static_cast<double>(plan_.programs.size())) + margin;
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
               "role=\"img\">\n"
               "<title>{2}</title>\n<style>{3}</style>\n"
               "<defs><marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\" "
               "markerUnits=\"userSpaceOnUse\"><path d=\"M0 0L8 4L0 8z\" style=\"fill: #5a6472; stroke: none\"/></marker></defs>\n"
               "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n",
               width, y, escaped(concat("Placement of ", shorten(plan_.model, 60), ' ', counted_devices(plan_))), style) +
           out_ + "</svg>\n";
  }

 private:
  struct Bus {
    std::string text;
    std::vector<ProgramId> programs;
    std::string_view kind;
    bool directed;
  };
  static double left(ProgramId p) { return margin + column * p.index; }

  void columns(ProgramId p) {
    const std::string_view colour = colours[at(p.index) % std::size(colours)];
    double y = top_ + head, all = 0;
    std::vector<std::pair<std::size_t, double>> places;
    for (std::size_t b = 0; b < graph_.boxes.size(); ++b) {
      if (graph_.boxes[b].program != p) continue;
      places.emplace_back(b, y);
      all += graph_.boxes[b].seconds;
      y += box_height + gap;
    }
    const int replicas = plan_.devices_of(p).size() > 1 ? 2 : 0;
    for (int r = replicas; r >= 0; --r)
      out_ += fmt::format("<rect class=\"frame\" x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\" rx=\"8\" stroke=\"{}\"/>\n",
                          left(p) + 4 * r, top_ - 4 * r, box_width + 20, y - top_, colour);
    const std::vector<int> devices = plan_.devices_of(p);
    out_ += text(left(p) + 10, top_ + 18, "name",
                 concat(shorten(names_of(plan_, p), title_width), devices.size() > 1 ? concat("  ×", devices.size()) : ""));
    out_ += text(left(p) + 10, top_ + 34, "small",
                 concat(plan_.devices[at(devices[0])].slice_size, " samples", devices.size() > 1 ? " each, " : ", ",
                        text_of_bytes(plan_.programs[p].peak_bytes())));
    for (const auto& [b, top] : places) box(b, left(p) + 10, top, all, colour);
    for (const ModuleGraph::Edge& e : graph_.edges) edge(e, places, left(p) + 10);
    bottom_ = std::max(bottom_, y);
    ends_.push_back(y);
  }

  void box(std::size_t b, double x, double y, double all, std::string_view colour) {
    const ModuleGraph::Box& box = graph_.boxes[b];
    const double share = all > 0 ? box.seconds / all : 0;
    out_ += fmt::format(
        "<g><title>{}</title><rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\" rx=\"5\" fill=\"{}\" "
        "fill-opacity=\"{:.2f}\" stroke=\"{}\"/>\n",
        escaped(concat(box.name, ", ", box.steps, box.steps == 1 ? " step" : " steps")), x, y, box_width, box_height, colour,
        0.12 + 0.4 * share, colour);
    out_ += text(x + 9, y + 16, "", shorten(box.name, name_width)) +
            text(x + 9, y + 31, "small", fmt::format("{}  {:.1f}%", text_of_seconds(box.seconds), 100 * share)) + "</g>\n";
  }

  // Straight to the next box; around the others at the side.
  void edge(const ModuleGraph::Edge& e, const std::vector<std::pair<std::size_t, double>>& places, double x) {
    const auto place = [&](std::size_t b) { return std::ranges::find(places, b, &std::pair<std::size_t, double>::first); };
    const auto from = place(e.from), to = place(e.to);
    if (from == places.end() || to == places.end()) return;
    const double y1 = from->second + box_height, y2 = to->second, middle = x + box_width / 2, side = x + box_width;
    const std::string bytes = text_of_bytes(e.bytes);
    if (e.to == e.from + 1)
      out_ +=
          fmt::format("<line x1=\"{0:.0f}\" x2=\"{0:.0f}\" y1=\"{1:.0f}\" y2=\"{2:.0f}\" marker-end=\"url(#head)\"/>\n", middle, y1, y2) +
          text(middle + 8, y1 + 14, "small", bytes);
    else
      out_ += fmt::format(
          "<path d=\"M{0:.0f} {1:.0f}C{2:.0f} {1:.0f} {2:.0f} {3:.0f} {0:.0f} {3:.0f}\" "
          "marker-end=\"url(#head)\"><title>{4}</title></path>\n",
          side, y1 - 12, side + std::min(26.0, 8.0 + 2.0 * static_cast<double>(e.to - e.from)), y2 + 12, bytes);
  }

  void bus(const Bus& b, double y, std::size_t number, std::size_t of, bool down) {
    const double shift = 9 * (static_cast<double>(number) - static_cast<double>(of - 1) / 2);
    const auto middle = [&](ProgramId p) { return left(p) + 10 + box_width / 2 + shift; };
    const auto [first, last] = std::ranges::minmax(b.programs);
    const auto segment = [&](double x1, double y1, double x2, double y2, bool arrow) {
      out_ += fmt::format("<line class=\"{}\" x1=\"{:.0f}\" y1=\"{:.0f}\" x2=\"{:.0f}\" y2=\"{:.0f}\"{}/>\n", b.kind, x1, y1, x2, y2,
                          arrow ? " marker-end=\"url(#head)\"" : "");
    };
    segment(middle(first), y, middle(last), y, false);
    for (const ProgramId p : b.programs) {
      const double end = ends_[at(p.index)];
      if (down)
        segment(middle(p), y, middle(p), top_ - 2, true);
      else if (b.kind == "host" || (b.directed && p == b.programs[0]))
        segment(middle(p), end, middle(p), y, b.kind == "host");
      else
        segment(middle(p), y, middle(p), end + 2, true);
    }
    const std::string words = shorten(b.text, line_width);
    out_ += text(middle(first) + 8, y - 6, "bus", words);
    widest_ = std::max(widest_, middle(first) + 8 + 7.2 * static_cast<double>(words.size()));
  }

  const Plan& plan_;
  const ModuleGraph graph_;
  std::vector<Bus> above_, below_;
  std::vector<double> ends_;  // of the columns, by program
  double top_ = 0, bottom_ = 0, widest_ = 0;
  std::string out_;
};

}  // namespace

std::string svg_of(const Plan& plan) {
  return Picture(plan).draw();
}

}  // namespace tandem
