// A plan as one page for a browser, nothing fetched from elsewhere: when each step is estimated to run, where the scratch
// memory's buffers lie and how long they live, and below the text of the plan. What a bar or a box is shows under the mouse.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/printable.h"
#include "base/units.h"
#include "planner/plan/format.h"
#include "planner/plan/plan_file.h"
#include "planner/plan/print.h"
#include "planner/plan/timeline.h"

namespace tandem {
namespace {

constexpr double left = 130, width = 1040, row = 26, map_height = 320, below = 24;
constexpr std::size_t name_width = 60;
// By memory class, and by kind of step.
constexpr std::string_view class_colours[] = {"#2f6fb0", "#6f9fd0", "#d1662b", "#e8a87c", "#3a9a5b", "#8a5fb5"};
constexpr std::string_view kind_colours[] = {"#3a9a5b", "#2f6fb0", "#d1662b", "#8a5fb5"};
constexpr std::string_view step_kinds[] = {"slice", "launch", "exchange", "concat"};

constexpr std::string_view style = R"(
  body { font: 14px sans-serif; color: #222; margin: 24px; }
  h1 { font-size: 22px; } h2 { font-size: 16px; margin: 28px 0 6px; }
  pre { font: 12px monospace; background: #f6f7f9; padding: 12px; overflow-x: auto; }
  svg text { font: 12px sans-serif; fill: #444; } svg line { stroke: #bbb; }
  rect { stroke: #fff; stroke-width: 0.4; } rect:hover { stroke: #000; }
  .key { display: inline-block; width: 12px; height: 12px; margin: 0 5px 0 16px; }
)";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : printable(text, Lines::kept))
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
  return out;
}

std::string key(std::string_view colour, std::string_view name) {
  return fmt::format("<span class=key style=\"background:{}\"></span>{}", colour, name);
}

std::string box(double x, double y, double w, double h, std::string_view colour, const std::string& hint) {
  return fmt::format("<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\"><title>{}</title></rect>\n", x, y, w,
                     h, colour, escaped(hint));
}

std::string label(double x, double y, std::string_view anchor, std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, escaped(text));
}

std::string hint_of(const Plan& plan, const Step& s, std::size_t index) {
  std::string hint = concat("step ", index, ": ", label_of(plan, s));
  if (const auto* launch = s.as<LaunchStep>()) hint += concat(", ", launch->kernel);
  for (const std::string& o : s.origin) hint += concat("\nfrom ", shorten(o, name_width));
  return hint + concat("\n", text_of_seconds(s.seconds), s.measured ? " measured" : " estimated");
}

std::string timeline(const Plan& plan, const DeviceProgram& d, const Timeline& t) {
  const double total = t.seconds;
  if (total <= 0) return "";
  std::string keys, out;
  for (std::size_t k = 0; k < std::size(step_kinds); ++k) keys += key(kind_colours[k], step_kinds[k]);
  const double height = t.streams * row;
  out += fmt::format("<p>Time of a step, estimated {}</p>\n<svg width=\"{}\" height=\"{}\">\n", keys, left + width + 40,
                     height + below);
  for (std::size_t s = 0; s < static_cast<std::size_t>(t.streams); ++s)
    out += label(left - 8, static_cast<double>(s) * row + 17, "end", s < std::size(stream_names) ? stream_names[s] : "stream");
  for (std::size_t i = 0; i < d.steps.size(); ++i)
    out += box(left + t.begins[i] / total * width, d.steps[i].stream * row + 2, (t.ends[i] - t.begins[i]) / total * width, row - 4,
               kind_colours[d.steps[i].what.index()], hint_of(plan, d.steps[i], i));
  return out + label(left, height + 16, "start", "0") + label(left + width, height + 16, "end", text_of_seconds(total)) + "</svg>\n";
}

// Scratch memory: offsets upwards, steps to the right.
std::string memory_map(const DeviceProgram& d) {
  const auto arena = std::find_if(d.arenas.begin(), d.arenas.end(), [](const Arena& a) { return a.kind == ArenaKind::scratch; });
  if (arena == d.arenas.end() || arena->bytes == 0 || d.steps.empty()) return "";
  const double x = width / static_cast<double>(d.steps.size()), y = map_height / static_cast<double>(arena->bytes);
  std::set<MemoryClass> classes;
  std::string boxes;
  for (const Buffer& b : d.buffers) {
    if (b.arena != ArenaKind::scratch || b.alias.present() || b.bytes == 0) continue;
    classes.insert(b.memory);
    boxes += box(left + b.first.index * x, map_height - static_cast<double>(b.offset + b.bytes) * y, (b.last.index - b.first.index + 1) * x,
                 static_cast<double>(b.bytes) * y, class_colours[static_cast<std::size_t>(b.memory)],
                 concat(shorten(b.name, name_width), b.placement.empty() ? "" : ", ", b.placement, "\n", b.operand, "\n",
                        text_of_bytes(b.bytes), " at ", b.offset, ", steps ", b.first.index, " to ", b.last.index));
  }
  std::string keys;
  for (const MemoryClass c : classes) keys += key(class_colours[static_cast<std::size_t>(c)], name_of(c));
  const std::string axes =
      fmt::format("<line x1=\"{0}\" x2=\"{0}\" y1=\"0\" y2=\"{1}\"/><line x1=\"{0}\" x2=\"{2}\" y1=\"{1}\" y2=\"{1}\"/>\n", left,
                  map_height, left + width);
  return fmt::format("<p>Scratch memory, offset over steps {}</p>\n<svg width=\"{}\" height=\"{}\">\n", keys, left + width + 40,
                     map_height + below) +
         boxes + axes + label(left - 8, 12, "end", text_of_bytes(arena->bytes)) + label(left - 8, map_height, "end", "0") +
         label(left, map_height + 16, "start", "step 0") +
         label(left + width, map_height + 16, "end", concat("step ", d.steps.size() - 1)) + "</svg>\n";
}

}  // namespace

std::string html_of(const Plan& plan) {
  const std::string_view kind = plan.mode == PlanMode::training ? "Training" : "Inference";
  const std::string title = escaped(concat(kind, " plan of ", shorten(plan.model, name_width)));
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=en><meta charset=utf-8>\n<title>{0}</title>\n<style>{1}</style>\n<h1>{0}</h1>\n", title, style);
  const Plan drawn = written_out(plan);
  const std::vector<Timeline> lines = timelines_of(drawn);
  for (ProgramId p{0}; p.index < std::ssize(plan.programs); ++p.index) {
    const std::vector<int> devices = plan.devices_of(p);
    const DeviceProgram& program = drawn.programs[p];
    const std::int64_t samples = plan.devices[at(devices[0])].slice_size;
    out += concat("<h2>", names_of(plan, p), ", ", samples, " of ", plan.batch / plan.micro_batches,
                  devices.size() > 1 ? " samples each</h2>\n" : " samples</h2>\n", timeline(drawn, program, lines[at(devices[0])]),
                  memory_map(program));
  }
  return out + concat("<h2>The plan</h2>\n<pre>", escaped(text_of_plan(plan, true)), "</pre>\n</html>\n");
}

}  // namespace tandem
