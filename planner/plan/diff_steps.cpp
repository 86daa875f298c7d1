// Of the steps of one device, those that were added, removed or changed.
#include <algorithm>
#include <map>
#include <set>

#include "planner/plan/diff_rows.h"
#include "planner/plan/format.h"
#include "planner/plan/print.h"

namespace tandem {
namespace {

std::string_view kind_in(const ProgramSide& side, const Step& step) {
  return step.as<LaunchStep>() ? step.op() : kind_of(side.plan, step);
}

// The ONNX node that it came from, else the value that it makes, as an update its parameter, or what it moves.
std::string node_of(const ProgramSide& side, const Step& step) {
  if (!step.origin.empty()) return step.origin.front();
  if (!step.as<LaunchStep>()) return target_of(side.plan, step);
  BufferId made = step.outputs.empty() ? BufferId{} : step.outputs[0];
  if (!made.present()) return "";
  while (side.program.buffers[made].alias.present()) made = side.program.buffers[made].alias;
  return side.program.buffers[made].name;
}

// Operator and node; first with the name of what the step makes, which tells several apart.
std::vector<Keys> keys_in(const ProgramSide& side) {
  const auto key = [&](const Step& s) {
    const std::string phase = side.program.schedule.empty() ? "" : concat(name_of(s.phase), s.chunk);
    return concat(kind_of(side.plan, s), '\n', s.op(), '\n', node_of(side, s), '\n', phase);
  };
  const auto made = [&](const Step& s) {
    return concat(key(s), '\n', s.outputs.empty() || !s.outputs[0].present() ? "" : side.program.buffers[s.outputs[0]].name);
  };
  return {keys_of(side.program.steps, made), keys_of(side.program.steps, key)};
}

Json text_of(const AttributeValue& value) {
  return std::visit(
      []<class T>(const T& v) {
        if constexpr (std::is_same_v<T, Tensor>)
          return Json(to_string(v.type()));
        else if constexpr (std::is_same_v<T, std::string>)
          return Json(v);
        else
          return Json(Json(v).dump());
      },
      value);
}

void add_attributes(DiffRows& f, const Attributes& a, const Attributes& b) {
  std::set<std::string> names;
  for (const auto* list : {&a, &b})
    for (const auto& [name, value] : *list) names.insert(name);
  for (const std::string& name : names) {
    const AttributeValue *before = a.find(name), *after = b.find(name);
    f.row(name, before ? text_of(*before) : Json(), after ? text_of(*after) : Json());
  }
}

Json text_of_buffer(const ProgramSide& side, BufferId id) {
  if (!id.present()) return {};
  const Buffer& b = side.program.buffers[id];
  return concat(b.operand.dtype, b.operand.shape, ':', b.operand.layout.opaque() ? "opaque" : b.operand.layout.tag(),
                b.placement.empty() ? "" : concat(' ', b.placement), b.arena == ArenaKind::scratch ? "" : concat(" in ", name_of(b.arena)));
}

// Of an operand the parts that differ.
void add_operand(DiffRows& f, const std::string& what, const ProgramSide& a, const ProgramSide& b, BufferId before, BufferId after) {
  if (!before.present() || !after.present()) return f.row(what, text_of_buffer(a, before), text_of_buffer(b, after));
  const Buffer &p = a.program.buffers[before], &q = b.program.buffers[after];
  const auto layout = [](const Buffer& buffer) { return buffer.operand.layout.opaque() ? "opaque" : buffer.operand.layout.tag(); };
  f.row(what + " type", to_string(p.operand.dtype), to_string(q.operand.dtype));
  f.row(what + " shape", to_string(p.operand.shape), to_string(q.operand.shape));
  f.row(what + " layout", layout(p), layout(q));
  f.row(what + " placement", p.placement, q.placement);
  f.row(what + " arena", name_of(p.arena), name_of(q.arena));
}

void add_operands(DiffRows& f, std::string_view what, const ProgramSide& a, const ProgramSide& b, const std::vector<BufferId>& before,
                  const std::vector<BufferId>& after) {
  if (before.size() != after.size()) return f.row(concat(what, 's'), before.size(), after.size(), DiffUnit::count);
  for (std::size_t i = 0; i < before.size(); ++i)
    add_operand(f, i == 0 ? std::string(what) : concat(what, ' ', i + 1), a, b, before[i], after[i]);
}

Json workspace_of(const ProgramSide& side, const Step& s) {
  return s.workspace.present() ? side.program.buffers[s.workspace].bytes : std::int64_t{0};
}

void add_facts(DiffRows& f, const ProgramSide& a, const ProgramSide& b, const Step& s, const Step& t) {
  if (const auto *from = s.as<LaunchStep>(), *to = t.as<LaunchStep>(); from && to) {
    f.row("kernel", from->kernel, to->kernel);
    add_attributes(f, from->attributes, to->attributes);
  }
  f.row("nodes", joined(s.origin), joined(t.origin));
  f.row("stream", stream_names[at(s.stream)], stream_names[at(t.stream)]);
  add_operands(f, "input", a, b, s.inputs, t.inputs);
  add_operands(f, "output", a, b, s.outputs, t.outputs);
  f.row("workspace", workspace_of(a, s), workspace_of(b, t), DiffUnit::bytes);
}

// Which pairs stand in one order in both plans: the longest list of places that grow in both.
std::set<std::size_t> in_order(const std::vector<Pair>& pairs) {
  constexpr std::size_t none = ~std::size_t{0};
  std::vector<std::size_t> ends, before(pairs.size(), none);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (!pairs[i].both()) continue;
    const auto it = std::ranges::lower_bound(ends, pairs[i].after, {}, [&](std::size_t k) { return pairs[k].after; });
    if (it != ends.begin()) before[i] = *(it - 1);
    it == ends.end() ? ends.push_back(i) : void(*it = i);
  }
  std::set<std::size_t> kept;
  for (std::size_t i = ends.empty() ? none : ends.back(); i != none; i = before[i]) kept.insert(i);
  return kept;
}

// Steps that a step waits for, by their pairs.
std::set<int> waits_of(const Step& step, const std::vector<int>& pair_of) {
  std::set<int> waits;
  for (const StepId w : step.waits) waits.insert(pair_of[at(w.index)]);
  return waits;
}

// Where operands lie.
std::vector<std::int64_t> places_of(const ProgramSide& side, const Step& step) {
  std::vector<std::int64_t> list;
  const auto add = [&](BufferId id) {
    if (id.present()) list.push_back(side.program.buffers[id].offset);
  };
  std::ranges::for_each(step.inputs, add);
  std::ranges::for_each(step.outputs, add);
  add(step.workspace);
  return list;
}

}  // namespace

DiffTable diff_of_steps(const ProgramSide& a, const ProgramSide& b, const std::string& devices) {
  DiffTable table{concat("Steps of ", devices), "", {}};
  const std::vector<Pair> pairs = paired(keys_in(a), keys_in(b));
  const std::set<std::size_t> ordered = in_order(pairs);
  std::vector<int> pair_of_before(a.program.steps.size()), pair_of_after(b.program.steps.size());
  for (int k = 0; k < std::ssize(pairs); ++k) {
    if (pairs[at(k)].before >= 0) pair_of_before[at(pairs[at(k)].before)] = k;
    if (pairs[at(k)].after >= 0) pair_of_after[at(pairs[at(k)].after)] = k;
  }
  std::size_t added = 0, removed = 0, changed = 0, moved = 0, elsewhere = 0, waits = 0;
  for (std::size_t k = 0; k < pairs.size(); ++k) {
    const auto [i, j] = pairs[k];
    const bool is_new = i < 0;
    const ProgramSide& side = is_new ? b : a;
    const Step& step = side.step(is_new ? j : i);
    if (!pairs[k].both()) {
      ++(is_new ? added : removed);
      const auto* launch = step.as<LaunchStep>();
      const BufferId moves = !step.outputs.empty() ? step.outputs[0] : !step.inputs.empty() ? step.inputs[0] : BufferId{};
      add_only(table, is_new, node_of(side, step), kind_in(side, step), launch ? "kernel" : "value",
               launch ? Json(launch->kernel) : text_of_buffer(side, moves), DiffUnit::text);
      continue;
    }
    const std::size_t rows = table.rows.size();
    DiffRows f(table, node_of(side, step), kind_in(side, step));
    add_facts(f, a, b, step, b.step(j));
    changed += table.rows.size() > rows;
    moved += !ordered.contains(k);
    elsewhere += places_of(a, step) != places_of(b, b.step(j));
    waits += waits_of(step, pair_of_before) != waits_of(b.step(j), pair_of_after);
  }
  add_count(table, "steps in another order", moved);
  add_count(table, "steps with other offsets", elsewhere);
  add_count(table, "steps that wait for others", waits);
  if (!table.rows.empty())
    table.summary =
        concat(added, " added, ", removed, " removed, ", changed, " changed, ", pairs.size() - added - removed - changed, " the same");
  return table;
}

}  // namespace tandem
