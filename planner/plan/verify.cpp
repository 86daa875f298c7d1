// What must hold of a plan before it runs.
#include "planner/plan/verify.h"

#include <algorithm>
#include <map>
#include <set>

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
    if (r.outer != 1) text += concat(" in each of ", r.outer, r.widths.empty() ? " runs" : " units");
  }
  return text;
}

// A part that is no other's.
struct DistinctPart {
  ParameterPart part;
  Box box;
};

// Every element is on some device: on one with all of it, or in parts that have nothing in common.
void check_whole(const PlanParameter& p, const std::string& where, std::vector<DistinctPart> parts, Breaches& breaches) {
  if (std::ranges::any_of(p.parts, &ProgramPart::is_whole)) return;
  std::erase_if(parts, [](const DistinctPart& d) { return d.part.operand.shape.elements() == 0; });
  // In the order in which they begin along an axis that is cut, each is compared with those that have not ended there.
  const std::size_t along = parts.empty() ? 0 : at(parts[0].part.ranges[0].axis) + 1;
  std::ranges::stable_sort(parts, {}, [&](const DistinctPart& d) { return d.box[along].front().begin; });
  std::vector<const DistinctPart*> open;
  std::int64_t elements = 0;
  for (const DistinctPart& d : parts) {
    std::erase_if(open, [&](const DistinctPart* o) { return o->box[along].back().end <= d.box[along].front().begin; });
    for (const DistinctPart* o : open)
      if (meet(o->box, d.box)) {
        const auto [one, other] = std::minmax(o->part.device, d.part.device);
        return breaches.add(where, " of ", p.type, ": the parts on devices ", one, " and ", other, " overlap");
      }
    open.push_back(&d);
    elements += d.part.operand.shape.elements();
  }
  if (elements != p.type.shape.elements())
    breaches.add(where, " of ", p.type, ": no device keeps ", p.type.shape.elements() - elements, " of its elements");
}

// By program.
using Devices = IdVector<ProgramId, std::vector<int>>;

constexpr std::int64_t most_units = std::int64_t{1} << 31;  // and of what one has: products fit

void check_parameter(const Plan& plan, const Devices& devices, const PlanParameter& p, Breaches& breaches) {
  const std::string where = concat("parameter '", brief(p.name), "'");
  if (const std::string reason = problem_of(p.type); !reason.empty()) return breaches.add(where, ": ", reason);
  if (p.arena != ArenaKind::parameters && p.arena != ArenaKind::optimizer) breaches.add(where, " lies in arena ", name_of(p.arena));
  if (p.parts.empty()) return breaches.add(where, " is on no device");
  std::vector<DistinctPart> parts;
  std::set<std::vector<std::int64_t>> met;  // of each its numbers
  ProgramId before;
  for (const ProgramPart& part : p.parts) {
    if (part.program <= before || part.program.index >= std::ssize(plan.programs))
      return breaches.add(where, " has a part of program ", part.program.index, " of ", plan.programs.size(), ", behind one of ",
                          before.index);
    before = part.program;
    const Operand& o = part.operand;
    if (const std::string reason = problem_of(o); !reason.empty()) return breaches.add(where, ": ", reason);
    if (o.layout.opaque()) return breaches.add(where, ": layout ", o.layout, " cannot be exported");
    for (const ProgramRange& r : part.ranges)
      if (r.cut < 0 || r.cut >= std::ssize(plan.cuts) || r.unit < 0 || r.unit > most_units)
        return breaches.add(where, " is cut in way ", r.cut, " of ", plan.cuts.size(), ", with units of ", r.unit);
    for (const int device : devices[part.program]) {
      ParameterPart own = plan.part_of(part, device);
      std::vector<std::int64_t> numbers{static_cast<std::int64_t>(o.dtype), o.shape.elements()};
      for (const AxisRange& r : own.ranges) {
        numbers.insert(numbers.end(), {r.axis, r.begin, r.size, r.outer, std::ssize(r.widths)});
        numbers.insert(numbers.end(), r.widths.begin(), r.widths.end());
      }
      if (!met.insert(std::move(numbers)).second) continue;
      Box box = box_of(p, own);
      if (p.type.dtype != o.dtype || box.empty()) return breaches.add(where, " of ", p.type, " is kept as ", o, places_of(own.ranges));
      parts.push_back({std::move(own), std::move(box)});
    }
    if (p.source.any()) continue;
    const std::string reason = problem_of(Operand{o.dtype, o.shape, p.source});
    if (!reason.empty() || !p.source.plain()) return breaches.add(where, ": source layout ", p.source, " does not fit ", o.shape);
  }
  check_whole(p, where, std::move(parts), breaches);
}

constexpr std::int64_t most_rows = std::int64_t{1} << 40, most_micro_batches = 65536;

// What is looked at for each device, and steps that schedules make of a few: a small file can ask for no more.
constexpr std::int64_t most_pairs = std::int64_t{1} << 26, most_issued = std::int64_t{1} << 22;

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
  if (std::ssize(plan.programs) * std::ssize(plan.devices) > most_pairs)
    breaches.add(plan.programs.size(), " programs on ", plan.devices.size(), " devices, expected a product of at most ", most_pairs);
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

// Parts of parameters on devices, together.
bool check_parts(const Plan& plan, const Devices& devices, Breaches& breaches) {
  std::int64_t parts = 0;
  for (const PlanParameter& p : plan.parameters)
    for (const ProgramPart& part : p.parts)
      if (part.program.index >= 0 && part.program.index < std::ssize(devices)) parts += std::ssize(devices[part.program]);
  if (parts > most_pairs) breaches.add("devices keep ", parts, " parts of parameters together, expected at most ", most_pairs);
  return parts <= most_pairs;
}

// The steps of sound programs, those of schedules as often as they are done.
bool check_issued(const Plan& plan, const Devices& devices, Breaches& breaches) {
  std::int64_t scheduled = 0, on_devices = 0;
  for (ProgramId p{0}; p.index < std::ssize(plan.programs); ++p.index) {
    std::int64_t own = 0;
    for (const Step& s : plan.programs[p].steps)
      own += !plan.programs[p].schedule.empty() && is_of_micro_batch(s.phase) ? plan.micro_batches : 1;
    scheduled += plan.programs[p].schedule.empty() ? 0 : own;
    on_devices += own * std::ssize(devices[p]);
  }
  if (scheduled > most_issued) breaches.add("the schedules have ", scheduled, " steps together, expected at most ", most_issued);
  if (on_devices > most_pairs) breaches.add("the devices do ", on_devices, " steps together, expected at most ", most_pairs);
  return scheduled <= most_issued && on_devices <= most_pairs;
}

void check_whole(const Plan& plan, const Devices& devices, Breaches& breaches) {
  if (plan.version != plan_version) breaches.add("version ", plan.version, ", expected ", plan_version);
  if (plan.batch < 0 || plan.batch > most_rows) breaches.add("batch is ", plan.batch, ", expected 0 to ", most_rows);
  if (plan.micro_batches < 1 || plan.micro_batches > most_micro_batches || plan.batch % std::max<std::int64_t>(1, plan.micro_batches) != 0)
    breaches.add("a batch of ", plan.batch, " has ", plan.micro_batches, " micro-batches");
  for (const HostInput& i : plan.inputs) {
    if (const std::string reason = problem_of(i.type); !reason.empty()) breaches.add("input '", brief(i.name), "': ", reason);
    if (i.batched && (i.type.shape.rank() == 0 || i.type.shape[0] != plan.batch))
      breaches.add("input '", brief(i.name), "' of ", i.type, " has no batch of ", plan.batch, " along axis 0");
  }
  for (const HostOutput& o : plan.outputs) {
    if (const std::string reason = problem_of(o.type); !reason.empty()) breaches.add("output '", brief(o.name), "': ", reason);
    if (o.parts < 1 || o.parts > std::max<std::int64_t>(1, std::ssize(plan.devices)) * std::max<std::int64_t>(1, plan.micro_batches) ||
        (o.combine == Combine::rows && o.parts != 1))
      breaches.add("output '", brief(o.name), "' has ", o.parts, " parts, ",
                   o.combine == Combine::rows ? "expected one" : "expected one of each device and micro-batch at most");
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
    if (const std::int64_t rows = plan.batch / std::max<std::int64_t>(1, plan.micro_batches);
        d.slice_begin < 0 || d.slice_size < 0 || d.slice_begin > rows || d.slice_size > rows - d.slice_begin)
      breaches.add(d.device, ": works on ", d.slice_size, " rows from ", d.slice_begin, " of ", rows);
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
  bool sound = check_devices(plan, devices, breaches) && check_parts(plan, devices, breaches);
  if (!sound) breaches.raise(plan);
  check_whole(plan, devices, breaches);
  for (ProgramId p{0}; p.index < std::ssize(plan.programs); ++p.index) {
    if (!verify_structure(plan, p, devices[p], breaches)) {
      sound = false;
      continue;
    }
    verify_launches(plan, p, breaches);
  }
  if (!sound || !check_issued(plan, devices, breaches)) breaches.raise(plan);
  const bool scheduled = has_schedule(plan);
  const ExpandedPlan written_out = scheduled ? expanded(plan) : ExpandedPlan{};
  const Plan& flat = scheduled ? written_out.plan : plan;
  for (ProgramId p{0}; p.index < std::ssize(flat.programs); ++p.index) verify_memory(flat, p, breaches);
  verify_exchanges(flat, breaches);
  verify_host(flat, breaches);
  breaches.raise(plan);
}

}  // namespace tandem
