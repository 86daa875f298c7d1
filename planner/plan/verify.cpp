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
Extent extent_of(const PlanParameter& p, const ParameterPart& part) {
  const Shape& whole = p.type.shape;
  const std::int64_t elements = part.operand.shape.elements();
  if (part.axis == -1) return elements == whole.elements() ? Extent{0, 1} : Extent{};
  if (part.axis < 0 || part.axis >= whole.rank() || part.begin < 0) return {};
  std::int64_t row = 1;  // elements of one index of the axis
  for (int axis = 0; axis < whole.rank(); ++axis) row *= axis == part.axis ? 1 : whole[axis];
  if (row == 0 || elements % row != 0 || part.begin > whole[part.axis] || elements / row > whole[part.axis] - part.begin) return {};
  return {part.begin, part.begin + elements / row};
}

// Every element is on some device: on one with all of it, or in parts cut along one axis.
void check_whole(const PlanParameter& p, const std::string& where, std::vector<Extent> extents, Breaches& breaches) {
  const int axis = p.parts[0].axis;
  if (std::any_of(p.parts.begin(), p.parts.end(), [](const ParameterPart& part) { return part.axis == -1; })) return;
  if (std::any_of(p.parts.begin(), p.parts.end(), [&](const ParameterPart& part) { return part.axis != axis; }))
    return breaches.add(where, " is cut along several axes");
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  std::int64_t end = 0;
  for (const Extent& e : extents)
    if (e.begin <= end) end = std::max(end, e.end);
  if (end != p.type.shape[axis]) breaches.add(where, " of ", p.type, ": no device keeps index ", end, " of axis ", axis);
}

void check_parameter(const Plan& plan, const PlanParameter& p, Breaches& breaches) {
  const std::string where = concat("parameter '", brief(p.name), "'");
  if (const std::string reason = problem_of(p.type); !reason.empty()) return breaches.add(where, ": ", reason);
  if (p.arena != ArenaKind::parameters && p.arena != ArenaKind::optimizer) breaches.add(where, " lies in arena ", name_of(p.arena));
  if (p.parts.empty()) return breaches.add(where, " is on no device");
  std::vector<Extent> extents;
  int before = -1;
  for (const ParameterPart& part : p.parts) {
    if (part.device <= before || part.device >= static_cast<int>(plan.devices.size()))
      return breaches.add(where, " has a part on device ", part.device, " of ", plan.devices.size(), ", behind one on ", before);
    before = part.device;
    const Operand& o = part.operand;
    if (const std::string reason = problem_of(o); !reason.empty()) return breaches.add(where, ": ", reason);
    if (o.layout.opaque()) return breaches.add(where, ": layout ", o.layout, " cannot be exported");
    extents.push_back(extent_of(p, part));
    if (p.type.dtype != o.dtype || extents.back().end < 0)
      return breaches.add(where, " of ", p.type, " is kept as ", o,
                          part.axis == -1 ? std::string() : concat(" from ", part.begin, " of axis ", part.axis));
    if (p.source.any()) continue;
    const std::string reason = problem_of(Operand{o.dtype, o.shape, p.source});
    if (!reason.empty() || !p.source.plain()) return breaches.add(where, ": source layout ", p.source, " does not fit ", o.shape);
  }
  check_whole(p, where, std::move(extents), breaches);
}

constexpr std::int64_t most_rows = std::int64_t{1} << 40;

void check_whole(const Plan& plan, Breaches& breaches) {
  if (plan.version != plan_version) breaches.add("version ", plan.version, ", expected ", plan_version);
  if (plan.batch < 0 || plan.batch > most_rows) breaches.add("batch is ", plan.batch, ", expected 0 to ", most_rows);
  if (plan.devices.empty()) breaches.add("there are no devices");
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
    check_parameter(plan, p, breaches);
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
  for (const DevicePlan& d : plan.devices)
    if (d.slice_begin < 0 || d.slice_size < 0 || d.slice_begin > plan.batch || d.slice_size > plan.batch - d.slice_begin)
      breaches.add(d.device, ": works on ", d.slice_size, " rows from ", d.slice_begin, " of ", plan.batch);
}

}  // namespace

std::string brief(const std::string& name) {
  return name.size() <= 80 ? name : name.substr(0, 77) + "...";
}

std::string DeviceBreaches::buffer(BufferId id) const { return concat("buffer ", id.index, " '", brief(device_.buffers[id].name), "'"); }

std::string DeviceBreaches::step(StepId id) const { return name_of_step(plan_, device_, id); }

std::string name_of_step(const Plan& plan, const DevicePlan& device, StepId id) {
  const Step& s = device.steps[id];
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
  check_whole(plan, breaches);
  bool sound = true;
  for (const DevicePlan& device : plan.devices) {
    const Structure structure = verify_structure(plan, device, breaches);
    sound = sound && structure.sound;
    if (!structure.sound) continue;
    verify_launches(plan, device, breaches);
    verify_memory(plan, device, structure.roots, breaches);
  }
  if (sound) {
    verify_exchanges(plan, breaches);
    verify_host(plan, breaches);
  }
  breaches.raise(plan);
}

}  // namespace tandem
