// What must hold of a plan before it runs.
#include "planner/plan/verify.h"

#include <algorithm>
#include <map>

namespace tandem {
namespace {

// Which indices of each axis of the template's tensor a part has; empty: it is no part of it.
using Box = std::vector<std::vector<IndexRun>>;
Box box_of(const PlanParameter& p, const ParameterPart& part) {
  const std::optional<Shape> shape = shape_of(p.type.shape, part.ranges);
  if (!shape || shape->elements() != part.operand.shape.elements()) return {};
  Box box{{{0, 1}}};  // of a scalar, too
  for (int axis = 0; axis < shape->rank(); ++axis) {
    std::optional<std::vector<IndexRun>> runs = runs_of(p.type.shape[axis], axis, part.ranges);
    if (!runs) return {};
    box.push_back(std::move(*runs));
  }
  return box;
}

bool meet(const std::vector<IndexRun>& a, const std::vector<IndexRun>& b) {
  for (std::size_t i = 0, k = 0; i < a.size() && k < b.size(); a[i].end < b[k].end ? ++i : ++k)
    if (a[i].begin < b[k].end && b[k].begin < a[i].end) return true;
  return false;
}
bool meet(const Box& a, const Box& b) {
  for (std::size_t axis = 0; axis < a.size(); ++axis)
    if (!meet(a[axis], b[axis])) return false;
  return true;
}

std::string places_of(std::span<const AxisRange> ranges) {
  std::string text;
  for (const AxisRange& r : ranges) {
    text += concat(text.empty() ? " from " : ", ", r.begin, " of axis ", r.axis, " on, ", r.size);
    if (r.outer != 1) text += concat(" in each of ", r.outer, " runs");
  }
  return text;
}

// Every element is on some device: on one with all of it, or in parts of which two are the same or have nothing in common.
void check_whole(const PlanParameter& p, const std::string& where, const std::vector<Box>& boxes, Breaches& breaches) {
  if (std::ranges::any_of(p.parts, &ParameterPart::is_whole)) return;
  std::int64_t elements = 0;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    bool met = false;
    for (std::size_t k = 0; k < i && !met; ++k) {
      met = p.parts[k].same_ranges(p.parts[i]);
      if (!met && meet(boxes[k], boxes[i]))
        return breaches.add(where, " of ", p.type, ": the parts on devices ", p.parts[k].device, " and ", p.parts[i].device, " overlap");
    }
    if (!met) elements += p.parts[i].operand.shape.elements();
  }
  if (elements != p.type.shape.elements())
    breaches.add(where, " of ", p.type, ": no device keeps ", p.type.shape.elements() - elements, " of its elements");
}

void check_parameter(const Plan& plan, const PlanParameter& p, Breaches& breaches) {
  const std::string where = concat("parameter '", brief(p.name), "'");
  if (const std::string reason = problem_of(p.type); !reason.empty()) return breaches.add(where, ": ", reason);
  if (p.arena != ArenaKind::parameters && p.arena != ArenaKind::optimizer) breaches.add(where, " lies in arena ", name_of(p.arena));
  if (p.parts.empty()) return breaches.add(where, " is on no device");
  std::vector<Box> boxes;
  int before = -1;
  for (const ParameterPart& part : p.parts) {
    if (part.device <= before || part.device >= static_cast<int>(plan.devices.size()))
      return breaches.add(where, " has a part on device ", part.device, " of ", plan.devices.size(), ", behind one on ", before);
    before = part.device;
    const Operand& o = part.operand;
    if (const std::string reason = problem_of(o); !reason.empty()) return breaches.add(where, ": ", reason);
    if (o.layout.opaque()) return breaches.add(where, ": layout ", o.layout, " cannot be exported");
    boxes.push_back(box_of(p, part));
    if (p.type.dtype != o.dtype || boxes.back().empty())
      return breaches.add(where, " of ", p.type, " is kept as ", o,
                          places_of(part.ranges));
    if (p.source.any()) continue;
    const std::string reason = problem_of(Operand{o.dtype, o.shape, p.source});
    if (!reason.empty() || !p.source.plain()) return breaches.add(where, ": source layout ", p.source, " does not fit ", o.shape);
  }
  check_whole(p, where, boxes, breaches);
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
