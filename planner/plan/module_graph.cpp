#include "planner/plan/module_graph.h"

#include <algorithm>
#include <map>

#include "base/units.h"
#include "planner/plan/issue_order.h"
#include "planner/plan/modules.h"
#include "planner/plan/print.h"

namespace tandem {
namespace {

// The modules of a program's steps, none for those that are no launch.
using Paths = std::vector<std::vector<std::string>>;

// The box of each step, -1 for those without, at a depth of the modules. Boxes are numbered in the order of their first step.
struct Folded {
  std::vector<std::string> names;
  std::vector<int> box_of;
};
Folded folded(const Paths& paths, std::size_t depth) {
  Folded f;
  std::map<std::vector<std::string>, int> known;
  for (const std::vector<std::string>& path : paths) {
    if (path.empty()) {
      f.box_of.push_back(-1);
      continue;
    }
    const std::vector<std::string> cut(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(std::min(depth, path.size())));
    const auto [box, fresh] = known.try_emplace(cut, static_cast<int>(f.names.size()));
    if (fresh) {
      std::string name;
      for (const std::string& part : cut) name += (name.empty() ? "" : ".") + part;
      f.names.push_back(std::move(name));
    }
    f.box_of.push_back(box->second);
  }
  return f;
}

// Boxes in a row become one where there are too many.
Folded joined(Folded f, std::size_t most) {
  if (f.names.size() <= most) return f;
  const std::size_t each = (f.names.size() + most - 1) / most;
  std::vector<std::string> names;
  for (std::size_t first = 0; first < f.names.size(); first += each) {
    const std::size_t last = std::min(first + each, f.names.size()) - 1;
    names.push_back(first == last ? f.names[first] : concat(f.names[first], " .. ", f.names[last]));
  }
  for (int& box : f.box_of)
    if (box >= 0) box /= static_cast<int>(each);
  f.names = std::move(names);
  return f;
}

Folded folded(const DeviceProgram& program, std::size_t most) {
  Paths paths;
  std::size_t deepest = 1;
  for (const Step& s : program.steps) {
    paths.push_back(module_of(program, s));
    deepest = std::max(deepest, paths.back().size());
  }
  Folded best = folded(paths, 1);
  for (std::size_t depth = 2; depth <= deepest && best.names.size() < most; ++depth) {
    Folded deeper = folded(paths, depth);
    if (deeper.names.size() > most) break;
    best = std::move(deeper);
  }
  return joined(std::move(best), most);
}

void add_edges(ModuleGraph& graph, const DeviceProgram& program, const Folded& f, std::size_t first_box) {
  const IdVector<BufferId, BufferId> roots = roots_of(program);
  std::map<BufferId, int> writer;
  std::map<std::pair<int, int>, std::map<BufferId, std::int64_t>> values;
  for (StepId s{0}; s.index < std::ssize(program.steps); ++s.index) {
    const int box = f.box_of[at(s.index)];
    for (const BufferId in : program.steps[s].inputs) {
      if (!in.present() || box < 0) continue;
      auto from = writer.find(in);
      if (from == writer.end()) from = writer.find(roots[in]);
      if (from != writer.end() && from->second >= 0 && from->second < box) values[{from->second, box}][in] = program.buffers[in].bytes;
    }
    for (const BufferId out : program.steps[s].outputs)
      if (out.present()) writer[out] = writer[roots[out]] = box;
  }
  for (const auto& [ends, list] : values) {
    ModuleGraph::Edge edge{first_box + at(ends.first), first_box + at(ends.second), 0};
    for (const auto& [id, bytes] : list) edge.bytes += bytes;
    graph.edges.push_back(edge);
  }
}

void add_meetings(ModuleGraph& graph, const Plan& plan) {
  const IdVector<ExchangeId, bool> gradients = carry_gradients(plan);
  for (ExchangeId id{0}; id.index < std::ssize(plan.exchanges); ++id.index) {
    const Exchange& e = plan.exchanges[id];
    ModuleGraph::Meeting meeting{.kind = e.kind, .programs = {}, .gradients = gradients[id]};
    for (const int d : e.devices)
      if (std::ranges::find(meeting.programs, plan.devices[at(d)].program) == meeting.programs.end())
        meeting.programs.push_back(plan.devices[at(d)].program);
    const auto same = std::ranges::find_if(graph.meetings, [&](const ModuleGraph::Meeting& m) {
      return m.kind == meeting.kind && m.programs == meeting.programs && m.gradients == meeting.gradients;
    });
    ModuleGraph::Meeting& sum = same == graph.meetings.end() ? graph.meetings.emplace_back(std::move(meeting)) : *same;
    ++sum.count;
    sum.bytes += e.elements * static_cast<std::int64_t>(size_of(e.dtype));
    sum.seconds += e.seconds;
  }
}

template <class What>
std::vector<ProgramId> programs_with(const Plan& plan, std::size_t host) {
  std::vector<ProgramId> list;
  for (ProgramId p{0}; p.index < std::ssize(plan.programs); ++p.index)
    if (std::ranges::any_of(plan.programs[p].steps, [&](const Step& s) {
          const auto* what = s.as<What>();
          return what && at(what->host) == host;
        }))
      list.push_back(p);
  return list;
}

}  // namespace

ModuleGraph module_graph(const Plan& plan, std::size_t most) {
  ModuleGraph graph;
  for (ProgramId p{0}; p.index < std::ssize(plan.programs); ++p.index) {
    const DeviceProgram& program = plan.programs[p];
    const Folded f = folded(program, most);
    const std::size_t first = graph.boxes.size();
    for (const std::string& name : f.names) graph.boxes.push_back({name, p});
    for (StepId s{0}; s.index < std::ssize(program.steps); ++s.index) {
      if (f.box_of[at(s.index)] < 0) continue;
      ModuleGraph::Box& box = graph.boxes[first + at(f.box_of[at(s.index)])];
      const Step& step = program.steps[s];
      const bool repeats = !program.schedule.empty() && is_of_micro_batch(step.phase);
      ++box.steps;
      box.seconds += step.seconds * (repeats ? static_cast<double>(plan.micro_batches) : 1);
    }
    add_edges(graph, program, f, first);
  }
  add_meetings(graph, plan);
  return graph;
}

std::string text_of(const ModuleGraph::Meeting& m) {
  return concat(name_of(m.kind), m.count > 1 ? concat(" ×", m.count) : "", ": ", text_of_bytes(m.bytes),
                m.gradients ? " of gradients" : "");
}

std::string title_of(const Plan& plan, ProgramId program) {
  const std::vector<int> devices = plan.devices_of(program);
  return concat(names_of(plan, program), ", ", plan.devices[at(devices[0])].slice_size, " of ",
                plan.batch / std::max<std::int64_t>(1, plan.micro_batches), " samples", devices.size() > 1 ? " each" : "");
}

std::string text_of(const HostInput& input) {
  return concat(shorten(input.name, 32), " ", input.type, input.batched ? ", sliced by samples" : ", whole");
}

std::vector<ProgramId> takers_of(const Plan& plan, std::size_t input) {
  return programs_with<SliceStep>(plan, input);
}
std::vector<ProgramId> givers_of(const Plan& plan, std::size_t output) {
  return programs_with<ConcatStep>(plan, output);
}

}  // namespace tandem
