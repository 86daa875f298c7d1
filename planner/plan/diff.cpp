#include "planner/plan/diff.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/units.h"
#include "planner/plan/diff_rows.h"
#include "planner/plan/plan_file.h"
#include "planner/plan/print.h"
#include "planner/plan/process_memory.h"
#include "planner/plan/timeline.h"

namespace tandem {
namespace {

// The plan without what is estimated, measured, or said of how it was made.
Plan bare(Plan plan) {
  plan.seconds = 0;
  plan.record = {};
  plan.made_from = 0;
  plan.warnings.clear();
  plan.recompute.clear();  // these two tell of steps, with their times
  plan.offload.clear();
  for (Exchange& e : plan.exchanges) e.seconds = 0;
  for (DeviceProgram& p : plan.programs) {
    p.model = {.name = p.model.name};
    for (Step& s : p.steps) {
      s.seconds = 0;
      s.measured = false;
    }
  }
  return plan;
}

double rate_of(const Plan& plan) {
  return plan.seconds > 0 ? static_cast<double>(plan.batch) / plan.seconds : 0;
}

template <class Values>
std::string types_of(const Values& values) {
  std::string text;
  for (const auto& v : values)
    if (v.role != ValueRole::step_state) text += concat(text.empty() ? "" : ", ", v.name, ' ', v.type);
  return text;
}

std::string kernels_of(const KernelOptions& o) {
  return concat(o.preference == LayoutPreference::blocked ? "blocked" : "channels last", o.deterministic ? ", deterministic" : "",
                o.winograd ? "" : ", no Winograd", o.tf32 ? ", TF32" : "", o.threads ? concat(", threads ", o.threads) : "");
}

// By name; of a file that holds no such options, its text.
std::map<std::string, std::string> options_of(const PlanRecord& record) {
  std::map<std::string, std::string> options;
  if (record.options.empty()) return options;
  try {
    const Json asked = Json::parse(record.options);
    for (const auto& [name, value] : asked.object()) options[name] = value.text();
  } catch (const Error&) {
    return {{"text", record.options}};
  }
  return options;
}

void add_options(DiffRows& f, const PlanRecord& a, const PlanRecord& b) {
  const auto before = options_of(a), after = options_of(b);
  std::set<std::string> names;
  for (const auto* list : {&before, &after})
    for (const auto& [name, value] : *list) names.insert(name);
  const auto value = [](const auto& list, const std::string& name) { return list.contains(name) ? Json(list.at(name)) : Json(); };
  for (const std::string& name : names) f.row(concat("option ", name), value(before, name), value(after, name));
}

DiffTable general(const Plan& a, const Plan& b) {
  DiffTable table{"Plan", "", {}};
  DiffRows f(table, "");
  const auto mode = [](const Plan& p) { return p.mode == PlanMode::training ? "training" : "inference"; };
  f.row("model", a.model, b.model);
  f.row("mode", mode(a), mode(b));
  f.row("batch", a.batch, b.batch, DiffUnit::count);
  f.row("micro-batches", a.micro_batches, b.micro_batches, DiffUnit::count);
  f.row("schedule", a.schedule, b.schedule);
  f.row("inputs", types_of(a.inputs), types_of(b.inputs));
  f.row("outputs", types_of(a.outputs), types_of(b.outputs));
  f.row("loss", a.loss, b.loss);
  f.row("optimizer", a.optimizer, b.optimizer);
  f.row("precision", to_string(a.precision), to_string(b.precision));
  f.row("recompute", a.recompute, b.recompute);
  f.row("offload", a.offload, b.offload);
  f.row("kernels", kernels_of(a.options), kernels_of(b.options));
  f.row("estimated step", a.seconds, b.seconds, DiffUnit::seconds);
  f.row("samples/s", rate_of(a), rate_of(b), DiffUnit::count);
  f.row("process", process_memory(a).total(), process_memory(b).total(), DiffUnit::bytes);
  add_options(f, a.record, b.record);
  return table;
}

// Devices that have one program in either plan.
struct DeviceMatch {
  std::vector<int> devices;  // by their place in both plans
  ProgramId before, after;   // absent: -1
  bool both() const { return before.index >= 0 && after.index >= 0; }
};
std::vector<DeviceMatch> groups_of(const Plan& a, const Plan& b) {
  std::vector<DeviceMatch> groups;
  const auto program = [](const Plan& plan, std::size_t d) { return d < plan.devices.size() ? plan.devices[d].program : ProgramId{}; };
  for (std::size_t d = 0; d < std::max(a.devices.size(), b.devices.size()); ++d) {
    const ProgramId before = program(a, d), after = program(b, d);
    const auto it = std::ranges::find_if(groups, [&](const DeviceMatch& g) { return g.before == before && g.after == after; });
    (it == groups.end() ? groups.emplace_back(DeviceMatch{{}, before, after}) : *it).devices.push_back(static_cast<int>(d));
  }
  return groups;
}

std::string names_in(const Plan& plan, const std::vector<int>& devices) {
  std::vector<DeviceId> ids;
  for (const int d : devices)
    if (d < std::ssize(plan.devices)) ids.push_back(plan.devices[at(d)].device);
  return names_of(ids);
}

// "cpu:0-1", or "cpu:0 / cuda:0" where the plans have others in that place.
std::string title_of(const Plan& a, const Plan& b, const DeviceMatch& g) {
  const std::string before = names_in(a, g.devices), after = names_in(b, g.devices);
  return before.empty() || before == after ? after : after.empty() ? before : concat(before, " / ", after);
}

// Of one device's samples: all alike, or each.
std::string rows_of(const Plan& plan, const std::vector<int>& devices) {
  std::vector<std::int64_t> sizes;
  for (const int d : devices) sizes.push_back(plan.devices[at(d)].slice_size);
  return std::ranges::count(sizes, sizes[0]) == std::ssize(sizes) ? concat(sizes[0]) : joined(sizes);
}

double longest(const std::vector<Timeline>& lines, const std::vector<int>& devices) {
  double seconds = 0;
  for (const int d : devices) seconds = std::max(seconds, lines[at(d)].seconds);
  return seconds;
}

std::int64_t bytes_of(const DeviceProgram& p, ArenaKind kind) {
  const auto arena = std::ranges::find(p.arenas, kind, &Arena::kind);
  return arena == p.arenas.end() ? 0 : arena->bytes;
}

std::int64_t bytes_at_peak(const DeviceProgram& p, MemoryClass kind) {
  const auto memory = std::ranges::find(p.memory, kind, &std::pair<MemoryClass, std::int64_t>::first);
  return memory == p.memory.end() ? 0 : memory->second;
}

DiffTable devices(const Plan& a, const Plan& b, const std::vector<DeviceMatch>& groups) {
  DiffTable table{"Devices", "", {}};
  const std::vector<Timeline> before = timelines_of(written_out(a)), after = timelines_of(written_out(b));
  for (const DeviceMatch& g : groups) {
    const std::string name = title_of(a, b, g);
    if (!g.both()) {
      const DeviceProgram& program = g.before.index < 0 ? b.programs[g.after] : a.programs[g.before];
      add_only(table, g.before.index < 0, name, "", "peak memory", program.peak_bytes(), DiffUnit::bytes);
      continue;
    }
    const DeviceProgram &p = a.programs[g.before], &q = b.programs[g.after];
    DiffRows f(table, name);
    f.row("devices", names_in(a, g.devices), names_in(b, g.devices));
    f.row("model", p.model.name, q.model.name);
    f.row("rows", rows_of(a, g.devices), rows_of(b, g.devices));
    f.row("steps", p.steps.size(), q.steps.size(), DiffUnit::count);
    f.row("estimate", longest(before, g.devices), longest(after, g.devices), DiffUnit::seconds);
    f.row("peak memory", p.peak_bytes(), q.peak_bytes(), DiffUnit::bytes);
    for (const ArenaKind kind : arena_kinds) f.row(concat("arena ", name_of(kind)), bytes_of(p, kind), bytes_of(q, kind), DiffUnit::bytes);
    for (const MemoryClass kind : memory_classes)
      f.row(concat(name_of(kind), " at the peak"), bytes_at_peak(p, kind), bytes_at_peak(q, kind), DiffUnit::bytes);
  }
  return table;
}

// The devices with a parameter, or a part of it.
std::string devices_of(const Plan& plan, const PlanParameter& parameter) {
  std::vector<int> devices;
  for (int d = 0; d < std::ssize(plan.devices); ++d)
    if (parameter.on(plan.devices[at(d)].program)) devices.push_back(d);
  return devices.size() == plan.devices.size() ? "all devices" : names_in(plan, devices);
}

// "[20,1,5,5]:abcd split(0)", of each form that devices have.
std::string forms_of(const PlanParameter& parameter) {
  std::set<std::string> forms;
  for (const ProgramPart& part : parameter.parts) {
    std::vector<int> axes;
    for (const ProgramRange& r : part.ranges) axes.push_back(r.axis);
    forms.insert(concat(part.operand.shape, ':', part.operand.layout.opaque() ? "opaque" : part.operand.layout.tag(),
                        axes.empty() ? "" : concat(" split(", joined(axes), ")")));
  }
  return joined(forms);
}

std::vector<std::int64_t> offsets_of(const PlanParameter& parameter) {
  std::vector<std::int64_t> offsets;
  for (const ProgramPart& part : parameter.parts) offsets.push_back(part.offset);
  return offsets;
}

DiffTable parameters(const Plan& a, const Plan& b) {
  DiffTable table{"Parameters", "", {}};
  std::size_t elsewhere = 0;
  const auto key = [](const PlanParameter& p) { return concat(name_of(p.role), '\n', p.name); };
  const auto kind = [](const PlanParameter& p) { return p.role == ValueRole::plain ? std::string_view() : name_of(p.role); };
  for (const Pair& pair : paired({keys_of(a.parameters, key)}, {keys_of(b.parameters, key)})) {
    if (!pair.both()) {
      const PlanParameter& only = pair.before < 0 ? b.parameters[at(pair.after)] : a.parameters[at(pair.before)];
      add_only(table, pair.before < 0, only.name, kind(only), "bytes", tandem::bytes_of(only.type), DiffUnit::bytes);
      continue;
    }
    const PlanParameter &p = a.parameters[at(pair.before)], &q = b.parameters[at(pair.after)];
    DiffRows f(table, p.name, kind(p));
    f.row("type", to_string(p.type), to_string(q.type));
    f.row("trained", p.trainable ? "yes" : "no", q.trainable ? "yes" : "no");
    f.row("arena", name_of(p.arena), name_of(q.arena));
    f.row("on", devices_of(a, p), devices_of(b, q));
    f.row("form", forms_of(p), forms_of(q));
    elsewhere += offsets_of(p) != offsets_of(q);
  }
  add_count(table, "parameters with other offsets", elsewhere);
  return table;
}

DiffTable exchanges(const Plan& a, const Plan& b) {
  DiffTable table{"Exchanges", "", {}};
  // Buckets are numbered: what they carry tells more.
  const auto key = [](const Exchange& e) { return concat(name_of(e.kind), '\n', e.values.empty() ? e.name : e.values.front()); };
  const auto name = [](const Exchange& e) {
    return e.values.empty() ? e.name : concat(e.name, " of ", e.values.front(), e.values.size() > 1 ? ", .." : "");
  };
  const auto bytes = [](const Exchange& e) { return e.elements * static_cast<std::int64_t>(size_of(e.dtype)); };
  for (const Pair& pair : paired({keys_of(a.exchanges, key)}, {keys_of(b.exchanges, key)})) {
    if (!pair.both()) {
      const Exchange& only = pair.before < 0 ? b.exchanges[at(pair.after)] : a.exchanges[at(pair.before)];
      add_only(table, pair.before < 0, name(only), name_of(only.kind), "bytes", bytes(only), DiffUnit::bytes);
      continue;
    }
    const Exchange &d = a.exchanges[at(pair.before)], &e = b.exchanges[at(pair.after)];
    DiffRows f(table, name(d), name_of(d.kind));
    f.row("name", d.name, e.name);
    f.row("bytes", bytes(d), bytes(e), DiffUnit::bytes);
    f.row("among", names_in(a, d.devices), names_in(b, e.devices));
    f.row("rows", d.rows, e.rows, DiffUnit::count);
    f.row("type", to_string(d.dtype), to_string(e.dtype));
    f.row("carries", joined(d.values), joined(e.values));
    f.row("estimate", d.seconds, e.seconds, DiffUnit::seconds);
  }
  return table;
}

DiffTable transfers(const Plan& a, const Plan& b) {
  DiffTable table{"Transfers", "", {}};
  const auto key = [](const PlanTransfer& t) { return concat(name_of(t.kind), '\n', t.value, '\n', t.node); };
  const auto name = [](const PlanTransfer& t) { return t.node.empty() ? t.value : concat(t.value, " for ", t.node); };
  for (const Pair& pair : paired({keys_of(a.transfers, key)}, {keys_of(b.transfers, key)})) {
    if (!pair.both()) {
      const PlanTransfer& only = pair.before < 0 ? b.transfers[at(pair.after)] : a.transfers[at(pair.before)];
      add_only(table, pair.before < 0, name(only), name_of(only.kind), "bytes", only.bytes, DiffUnit::bytes);
      continue;
    }
    const PlanTransfer &t = a.transfers[at(pair.before)], &u = b.transfers[at(pair.after)];
    DiffRows f(table, name(t), name_of(t.kind));
    f.row("bytes", t.bytes, u.bytes, DiffUnit::bytes);
    f.row("along", t.axis, u.axis);
    f.row("reason", t.reason, u.reason);
  }
  return table;
}

}  // namespace

std::vector<Pair> paired(const std::vector<Keys>& before, const std::vector<Keys>& after) {
  std::vector<int> partner(before[0].size(), -1);
  std::vector<bool> taken(after[0].size());
  for (std::size_t k = 0; k < before.size(); ++k) {
    std::map<std::string_view, std::vector<int>> left;  // the first last
    for (int j = static_cast<int>(taken.size()); j-- > 0;)
      if (!taken[at(j)]) left[after[k][at(j)]].push_back(j);
    for (std::size_t i = 0; i < partner.size(); ++i) {
      std::vector<int>& same = left[before[k][i]];
      if (partner[i] >= 0 || same.empty()) continue;
      taken[at(partner[i] = same.back())] = true;
      same.pop_back();
    }
  }
  std::vector<Pair> pairs;
  const auto add_new = [&](int j) {
    for (; j < std::ssize(taken) && !taken[at(j)]; ++j) pairs.push_back({-1, j});
  };
  add_new(0);
  for (int i = 0; i < std::ssize(partner); ++i) {
    pairs.push_back({i, partner[at(i)]});
    if (partner[at(i)] >= 0) add_new(partner[at(i)] + 1);
  }
  return pairs;
}

PlanDiff diff_of(const Plan& before, const Plan& after) {
  PlanDiff diff;
  if (serialize(bare(before)) == serialize(bare(after))) return diff;
  diff.equal = false;
  const std::vector<DeviceMatch> groups = groups_of(before, after);
  diff.tables = {general(before, after), devices(before, after, groups), parameters(before, after), exchanges(before, after),
                 transfers(before, after)};
  for (const DeviceMatch& g : groups)
    if (g.both())
      diff.tables.push_back(
          diff_of_steps({before, before.programs[g.before]}, {after, after.programs[g.after]}, title_of(before, after, g)));
  std::erase_if(diff.tables, [](const DiffTable& t) { return t.rows.empty(); });
  // What has no row of its own, such as where axes are cut.
  if (diff.tables.empty())
    diff.tables = {{"Plan", "", {{Change::changed, "", "", "members that the plans' JSON has", hash_of(before), hash_of(after)}}}};
  return diff;
}

}  // namespace tandem
