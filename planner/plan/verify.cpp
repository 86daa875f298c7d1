// What must hold of a plan before it runs.
#include "planner/plan/verify.h"

#include <algorithm>
#include <map>

namespace tandem {
namespace {

// How much of the template's tensor a part is: [begin, end) along its axis; all of it where it is not cut. A breach: end is -1.
struct Extent {
  std::int64_t begin = 0, end = -1;
};
Extent extent_of(const PlanParameter& p, const ProgramPart& part, std::int64_t begin) {
  const Shape& whole = p.type.shape;
  const std::int64_t elements = part.operand.shape.elements();
  if (part.axis == -1) return elements == whole.elements() ? Extent{0, 1} : Extent{};
  if (part.axis < 0 || part.axis >= whole.rank() || begin < 0) return {};
  std::int64_t row = 1;  // elements of one index of the axis
  for (int axis = 0; axis < whole.rank(); ++axis) row *= axis == part.axis ? 1 : whole[axis];
  if (row == 0 || elements % row != 0 || begin > whole[part.axis] || elements / row > whole[part.axis] - begin) return {};
  return {begin, begin + elements / row};
}

// Every element is on some device: on one with all of it, or in parts cut along one axis.
void check_whole(const PlanParameter& p, const std::string& where, std::vector<Extent> extents, Breaches& breaches) {
  const int axis = p.parts[0].axis;
  if (std::any_of(p.parts.begin(), p.parts.end(), [](const ProgramPart& part) { return part.axis == -1; })) return;
  if (std::any_of(p.parts.begin(), p.parts.end(), [&](const ProgramPart& part) { return part.axis != axis; }))
    return breaches.add(where, " is cut along several axes");
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  std::int64_t end = 0;
  for (const Extent& e : extents)
    if (e.begin <= end) end = std::max(end, e.end);
  if (end != p.type.shape[axis]) breaches.add(where, " of ", p.type, ": no device keeps index ", end, " of axis ", axis);
}

// By program.
using Devices = IdVector<ProgramId, std::vector<int>>;

constexpr std::int64_t most_units = std::int64_t{1} << 31;  // and of what one has: products fit

void check_parameter(const Plan& plan, const Devices& devices, const PlanParameter& p, Breaches& breaches) {
  const std::string where = concat("parameter '", brief(p.name), "'");
  if (const std::string reason = problem_of(p.type); !reason.empty()) return breaches.add(where, ": ", reason);
  if (p.arena != ArenaKind::parameters && p.arena != ArenaKind::optimizer) breaches.add(where, " lies in arena ", name_of(p.arena));
  if (p.parts.empty()) return breaches.add(where, " is on no device");
  std::vector<Extent> extents;
  ProgramId before;
  for (const ProgramPart& part : p.parts) {
    if (part.program <= before || part.program.index >= std::ssize(plan.programs))
      return breaches.add(where, " has a part of program ", part.program.index, " of ", plan.programs.size(), ", behind one of ",
                          before.index);
    before = part.program;
    const Operand& o = part.operand;
    if (const std::string reason = problem_of(o); !reason.empty()) return breaches.add(where, ": ", reason);
    if (o.layout.opaque()) return breaches.add(where, ": layout ", o.layout, " cannot be exported");
    if (part.axis != -1 && (part.cut < 0 || part.cut >= std::ssize(plan.cuts) || part.unit < 0 || part.unit > most_units))
      return breaches.add(where, " is cut in way ", part.cut, " of ", plan.cuts.size(), ", with units of ", part.unit);
    for (const int device : devices[part.program]) {
      const std::int64_t begin = part.axis == -1 ? 0 : part.unit * plan.cuts[at(part.cut)].begins[at(device)];
      extents.push_back(extent_of(p, part, begin));
      if (p.type.dtype != o.dtype || extents.back().end < 0)
        return breaches.add(where, " of ", p.type, " is kept as ", o,
                            part.axis == -1 ? std::string() : concat(" from ", begin, " of axis ", part.axis));
      if (part.axis == -1) break;  // all devices have all of it
    }
    if (p.source.any()) continue;
    const std::string reason = problem_of(Operand{o.dtype, o.shape, p.source});
    if (!reason.empty() || !p.source.plain()) return breaches.add(where, ": source layout ", p.source, " does not fit ", o.shape);
  }
  check_whole(p, where, std::move(extents), breaches);
}

constexpr std::int64_t most_rows = std::int64_t{1} << 40;

// Who runs what. Whether programs, cuts and rows of exchanges may be looked up by device.
bool check_devices(const Plan& plan, Devices& devices, Breaches& breaches) {
  const std::size_t before = breaches.count();
  if (plan.devices.empty()) breaches.add("there are no devices");
  devices.resize(plan.programs.size());
  for (std::size_t i = 0; i < plan.devices.size(); ++i) {
    const PlanDevice& d = plan.devices[i];
    if (d.program.index < 0 || d.program.index >= std::ssize(plan.programs)) {
      breaches.add(d.device, ": runs program ", d.program.index, " of ", plan.programs.size());
      continue;
    }
    std::vector<int>& others = devices[d.program];
    if (!others.empty() && plan.devices[at(others[0])].device.backend != d.device.backend)
      breaches.add(d.device, " and ", plan.devices[at(others[0])].device, " run one program");
    others.push_back(static_cast<int>(i));
  }
  for (ProgramId p{0}; p.index < std::ssize(devices); ++p.index)
    if (devices[p].empty()) breaches.add("program ", p.index, " is run by no device");
  for (std::size_t c = 0; c < plan.cuts.size(); ++c) {
    const std::vector<std::int64_t>& begins = plan.cuts[c].begins;
    if (begins.size() != plan.devices.size() ||
        std::any_of(begins.begin(), begins.end(), [](std::int64_t begin) { return begin < 0 || begin > most_units; }))
      breaches.add("cut ", c, " has ", begins.size(), " begins, expected one of each of ", plan.devices.size(), " devices, 0 to ",
                   most_units);
  }
  for (std::size_t e = 0; e < plan.exchanges.size(); ++e)
    if (const Exchange& x = plan.exchanges[e]; x.rows < 1 || x.devices.size() % at(x.rows) != 0)
      breaches.add("exchange ", e, " '", brief(x.name), "' (", name_of(x.kind), ") has ", x.devices.size(), " members in ", x.rows,
                   " rows");
  return breaches.count() == before;
}

void check_whole(const Plan& plan, const Devices& devices, Breaches& breaches) {
  if (plan.version != plan_version) breaches.add("version ", plan.version, ", expected ", plan_version);
  if (plan.batch < 0 || plan.batch > most_rows) breaches.add("batch is ", plan.batch, ", expected 0 to ", most_rows);
  for (const HostInput& i : plan.inputs) {
    if (const std::string reason = problem_of(i.type); !reason.empty()) breaches.add("input '", brief(i.name), "': ", reason);
    if (i.batched && (i.type.shape.rank() == 0 || i.type.shape[0] != plan.batch))
      breaches.add("input '", brief(i.name), "' of ", i.type, " has no batch of ", plan.batch, " along axis 0");
  }
  for (const HostOutput& o : plan.outputs) {
    if (const std::string reason = problem_of(o.type); !reason.empty()) breaches.add("output '", brief(o.name), "': ", reason);
    if (o.parts < 1 || o.parts > std::max(1, static_cast<int>(plan.devices.size())) || (o.combine == Combine::rows && o.parts != 1))
      breaches.add("output '", brief(o.name), "' has ", o.parts, " parts, ",
                   o.combine == Combine::rows ? "expected one" : "expected one of each device at most");
    TensorType all = o.type;  // of all parts
    all.shape.dims.insert(all.shape.dims.begin(), std::max(1, o.parts));
    if (const std::string reason = problem_of(all); problem_of(o.type).empty() && !reason.empty())
      breaches.add("output '", brief(o.name), "' in ", o.parts, " parts: ", reason);
    if (o.combine == Combine::rows && (o.type.shape.rank() == 0 || o.type.shape[0] % std::max<std::int64_t>(1, plan.batch) != 0))
      breaches.add("output '", brief(o.name), "' of ", o.type, " has no batch of ", plan.batch, " along axis 0");
  }
  std::map<ParameterKey, const PlanParameter*> known;
  for (const PlanParameter& p : plan.parameters) {
    check_parameter(plan, devices, p, breaches);
    if (!known.emplace(p.key(), &p).second)
      breaches.add("there are two parameters '", brief(p.name), "'",
                   p.role == ValueRole::plain ? "" : concat(" that are a ", name_of(p.role)));
  }
  for (const PlanParameter& p : plan.parameters) {
    if (p.role != ValueRole::copy) continue;
    const auto of = known.find({ValueRole::plain, p.of});
    if (of == known.end() || of->second->type.shape != p.type.shape || !is_16_bit(p.type.dtype))
      breaches.add("parameter '", brief(p.name), "' of ", p.type, " is no copy in 16 bits of a parameter '", brief(p.of), "'");
  }
  for (const PlanDevice& d : plan.devices)
    if (d.slice_begin < 0 || d.slice_size < 0 || d.slice_begin > plan.batch || d.slice_size > plan.batch - d.slice_begin)
      breaches.add(d.device, ": works on ", d.slice_size, " rows from ", d.slice_begin, " of ", plan.batch);
}

}  // namespace

std::string brief(const std::string& name) {
  return name.size() <= 80 ? name : name.substr(0, 77) + "...";
}

std::string ProgramBreaches::buffer(BufferId id) const { return concat("buffer ", id.index, " '", brief(program_.buffers[id].name), "'"); }

std::string ProgramBreaches::step(StepId id) const { return name_of_step(plan_, program_, id); }

std::string name_of_step(const Plan& plan, const DeviceProgram& program, StepId id) {
  const Step& s = program.steps[id];
  const auto* launch = s.as<LaunchStep>();
  return concat("step ", id.index, " (", launch ? brief(launch->op) : std::string(kind_of(plan, s)), ")");
}

void Breaches::raise(const Plan& plan) const {
  if (count_ == 0) return;
  const std::string rest = count_ > shown ? concat("\n  and ", count_ - shown, " more") : std::string();
  fail(ExitCode::model, "plan of '", plan.model, "' breaks ", count_, count_ == 1 ? " rule:" : " rules:", text_, rest);
}

void verify(const Plan& plan) {
  Breaches breaches;
  Devices devices;
  bool sound = check_devices(plan, devices, breaches);
  if (!sound) breaches.raise(plan);
  check_whole(plan, devices, breaches);
  for (ProgramId p{0}; p.index < std::ssize(plan.programs); ++p.index) {
    const Structure structure = verify_structure(plan, p, devices[p], breaches);
    sound = sound && structure.sound;
    if (!structure.sound) continue;
    verify_launches(plan, p, breaches);
    verify_memory(plan, p, structure.roots, breaches);
  }
  if (sound) {
    verify_exchanges(plan, breaches);
    verify_host(plan, breaches);
  }
  breaches.raise(plan);
}

}  // namespace tandem
