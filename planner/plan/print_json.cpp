// A plan for programs: all of it, but for the values of constants. docs/plan-json.md describes it.
#include "base/json.h"

#include <algorithm>
#include <cmath>

#include "planner/plan/advice.h"
#include "planner/plan/modules.h"
#include "planner/plan/plan_file.h"
#include "planner/plan/print.h"
#include "planner/plan/process_memory.h"

namespace tandem {
namespace {

using Object = Json::Object;
constexpr int json_schema = 1;  // grows where a member goes or comes to mean something else

template <class Item, class F>
Json list(const std::vector<Item>& items, F&& value_of) {
  Json::Array array;
  for (const Item& item : items) array.push_back(value_of(item));
  return array;
}
template <class Id>
Json ids(const std::vector<Id>& v) {
  return list(v, [](Id id) { return Json(id.index); });
}

void append(Object& to, Object members) {
  to.insert(to.end(), std::make_move_iterator(members.begin()), std::make_move_iterator(members.end()));
}

Object type_of(const TensorType& type) {
  return {{"dtype", name_of(type.dtype)}, {"shape", type.shape.dims}};
}
Object operand_of(const Operand& operand) {
  Object o = type_of({operand.dtype, operand.shape});
  o.emplace_back("layout", operand.layout.tag());
  return o;
}

Json json_of(const Attributes& attributes) {
  Object o;
  for (const auto& [name, value] : attributes)
    o.emplace_back(name, std::visit(
                             []<class T>(const T& v) -> Json {
                               if constexpr (std::is_same_v<T, Tensor>)
                                 return to_string(v.type());
                               else
                                 return v;
                             },
                             value));
  return o;
}

Json json_of(const Buffer& b) {
  Object o{{"name", b.name}};
  append(o, operand_of(b.operand));
  append(o, {{"memory", name_of(b.memory)},
             {"arena", name_of(b.arena)},
             {"offset", b.offset},
             {"bytes", b.bytes},
             {"first", b.first.index},
             {"last", b.last.index}});
  if (!b.placement.empty()) o.emplace_back("placement", b.placement);
  if (b.alias.present()) o.emplace_back("alias", b.alias.index);
  if (b.in_slot) o.emplace_back("in_slot", true);
  if (b.constant) o.emplace_back("constant", true);
  return o;
}

struct MembersOfAction {
  PlanDetail detail;
  Object operator()(const SliceStep& s) const { return {{"host", s.host}}; }
  Object operator()(const ConcatStep& s) const { return {{"host", s.host}}; }
  Object operator()(const ExchangeStep& s) const { return {{"exchange", s.exchange.index}}; }
  Object operator()(const LaunchStep& s) const {
    Object o{{"op", s.op}, {"kernel", s.kernel}};
    if (detail == PlanDetail::whole && !s.attributes.empty()) o.emplace_back("attributes", json_of(s.attributes));
    return o;
  }
};

Json json_of(const Plan& plan, const DeviceProgram& program, const Step& s, PlanDetail detail) {
  Object o{{"kind", kind_of(plan, s)}};
  append(o, std::visit(MembersOfAction{detail}, s.what));
  if (s.as<LaunchStep>()) o.emplace_back("module", module_of(program, s));
  append(o, {{"inputs", ids(s.inputs)}, {"outputs", ids(s.outputs)}});
  if (s.workspace.present()) o.emplace_back("workspace", s.workspace.index);
  append(o, {{"stream", s.stream},
             {"waits", ids(s.waits)},
             {"origin", s.origin},
             {"flops", s.flops},
             {"bytes", s.bytes},
             {"seconds", s.seconds},
             {"measured", s.measured},
             {"phase", name_of(s.phase)},
             {"chunk", s.chunk}});
  return o;
}

Json json_of(const ScheduleEntry& e) {
  return Object{{"phase", name_of(e.phase)}, {"chunk", e.chunk}, {"micro_batch", e.micro_batch}, {"slot", e.slot}};
}

Json json_of(const Plan& plan, ProgramId id, PlanDetail detail) {
  const DeviceProgram& p = plan.programs[id];
  std::int64_t bound = 0;
  for (const Arena& a : p.arenas) bound += a.lower_bound;
  Object memory;
  for (const auto& [c, bytes] : p.memory) memory.emplace_back(name_of(c), bytes);
  std::vector<std::string> devices;
  for (const int d : plan.devices_of(id)) devices.push_back(to_string(plan.devices[at(d)].device));
  return Object{
      {"devices", devices},
      {"model", Object{{"name", p.model.name},
                       {"memory", p.model.memory},
                       {"flops", p.model.flops},
                       {"bandwidth", p.model.bandwidth},
                       {"launch_seconds", p.model.launch_seconds},
                       {"link_bandwidth", p.model.link_bandwidth},
                       {"threads", p.model.threads},
                       {"multiprocessors", p.model.multiprocessors}}},
      {"peak_bytes", p.peak_bytes()},
      {"lower_bound_bytes", bound},
      {"memory", std::move(memory)},
      {"arenas", list(p.arenas,
                      [](const Arena& a) -> Json {
                        return Object{{"kind", name_of(a.kind)}, {"bytes", a.bytes}, {"lower_bound", a.lower_bound}};
                      })},
      {"buffers", list(p.buffers, [](const Buffer& b) { return json_of(b); })},
      {"steps", list(p.steps, [&](const Step& s) { return json_of(plan, p, s, detail); })},
      {"schedule", list(p.schedule, [](const ScheduleEntry& e) { return json_of(e); })},
      {"slots", p.slots},
      {"slot_bytes", p.slot_bytes},
  };
}

Json json_of(const Plan& plan, const PlanDevice& d) {
  return Object{{"device", to_string(d.device)},
                {"program", d.program.index},
                {"weight", d.weight},
                {"slice_begin", d.slice_begin},
                {"slice_size", d.slice_size},
                {"peak_bytes", plan.programs[d.program].peak_bytes()}};
}

void append_role(Object& to, ValueRole role, const std::string& of) {
  if (role != ValueRole::plain) to.emplace_back("role", name_of(role));
  if (!of.empty()) to.emplace_back("of", of);
}

Json json_of(const HostInput& i) {
  Object o{{"name", i.name}};
  append(o, type_of(i.type));
  o.emplace_back("batched", i.batched);
  append_role(o, i.role, i.of);
  return o;
}

Json json_of(const HostOutput& output) {
  Object o{{"name", output.name}};
  append(o, type_of(output.type));
  o.emplace_back("combine", output.combine == Combine::rows ? "rows" : "sum");
  o.emplace_back("parts", output.parts);
  append_role(o, output.role, output.of);
  return o;
}

Json json_of(const ProgramRange& r) {
  Object o{{"axis", r.axis}, {"cut", r.cut}, {"unit", r.unit}, {"size", r.size}};
  if (r.outer > 1) append(o, {{"outer", r.outer}});
  if (!r.widths.empty()) append(o, {{"widths", list(r.widths, [](std::int64_t width) { return Json(width); })}});
  return o;
}

Json json_of(const ProgramPart& p) {
  Object o{{"program", p.program.index}, {"operand", operand_of(p.operand)}, {"offset", p.offset}};
  if (!p.is_whole()) append(o, {{"ranges", list(p.ranges, [](const ProgramRange& r) { return json_of(r); })}});
  return o;
}

Json json_of(const PlanParameter& p) {
  Object o{{"name", p.name}};
  append(o, type_of(p.type));
  append(o, {{"source", p.source.tag()},
             {"arena", name_of(p.arena)},
             {"trainable", p.trainable},
             {"parts", list(p.parts, [](const ProgramPart& part) { return json_of(part); })}});
  append_role(o, p.role, p.of);
  return o;
}

Json json_of(const Exchange& e, bool gradients) {
  return Object{{"name", e.name},         {"kind", name_of(e.kind)},   {"devices", e.devices},
                {"rows", e.rows},         {"elements", e.elements},    {"dtype", name_of(e.dtype)},
                {"values", e.values},     {"gradients", gradients},  {"seconds", e.seconds}};
}

Json json_of(const PlanTransfer& t) {
  return Object{{"kind", name_of(t.kind)}, {"value", t.value}, {"bytes", t.bytes},
                {"axis", t.axis},          {"node", t.node},   {"reason", t.reason}};
}

Json json_of(const StepBounds& bounds) {
  return Object{{"arithmetic", bounds.arithmetic},
                {"memory", bounds.memory},
                {"latency", bounds.latency},
                {"waiting", bounds.waiting},
                {"largest", bounds.largest()}};
}

Json json_of(const Advice& a) {
  return Object{{"option", a.option}, {"saves_seconds", a.saves_seconds}, {"saves_bytes", a.saves_bytes}, {"reason", a.reason}};
}

// Whole nanoseconds, which are a third of a double's text.
Json nanoseconds(const IdVector<StepId, double>& seconds) {
  Json::Array list;
  for (const double s : seconds) list.emplace_back(std::int64_t{std::llround(1e9 * s)});
  return list;
}

Json timeline_of(const TimedPlan& timed, const std::vector<int>& devices) {
  const auto first = at(devices[0]);
  const ProgramId p = timed.flat.plan.devices[first].program;
  const Timeline& line = timed.lines[first];
  Object o{{"devices", devices},
           {"program", p.index},
           {"seconds", line.seconds},
           {"steps", ids(timed.flat.step_of[p])},
           {"begins", nanoseconds(line.begins)},
           {"ends", nanoseconds(line.ends)}};
  const DeviceProgram& program = timed.flat.plan.programs[p];
  if (std::ranges::any_of(program.steps, [](const Step& s) { return s.micro_batch > 0; }))
    o.emplace_back("micro_batches", list(program.steps, [](const Step& s) { return Json(s.micro_batch); }));
  return o;
}

Json record_of(const PlanRecord& record, PlanDetail detail) {
  if (record == PlanRecord()) return {};
  Object backends;
  for (const auto& [name, by] : record.backends) backends.emplace_back(name, by);
  if (detail == PlanDetail::pictures) return Object{{"backends", std::move(backends)}};
  return Object{{"options", record.options}, {"model", record.model}, {"request", record.request}, {"backends", std::move(backends)},
                {"learning_rate", record.learning_rate}};
}

}  // namespace

Json json_value_of(const Plan& plan, PlanDetail detail) {
  const TimedPlan times = timed(plan);
  Json::Array programs, exchanges;
  const IdVector<ExchangeId, bool> gradients = carry_gradients(plan);
  for (ExchangeId e{0}; e.index < std::ssize(plan.exchanges); ++e.index) exchanges.push_back(json_of(plan.exchanges[e], gradients[e]));
  for (ProgramId p{0}; p.index < std::ssize(plan.programs); ++p.index) programs.push_back(json_of(plan, p, detail));
  const ProcessMemory process = process_memory(plan);
  Object json{
      {"schema", json_schema},
      {"version", plan.version},
      {"hash", hash_of(plan)},
      {"model", plan.model},
      {"mode", plan.mode == PlanMode::training ? "training" : "inference"},
      {"batch", plan.batch},
      {"micro_batches", plan.micro_batches},
      {"schedule", plan.schedule},
      {"loss", plan.loss},
      {"optimizer", plan.optimizer},
      {"recompute", plan.recompute},
      {"offload", plan.offload},
      {"precision", name_of(plan.precision)},
      {"seconds", plan.seconds},
      {"bounds", json_of(bounds_of(times.flat.plan, times.lines))},
      {"bubble", plan.schedule.empty() ? Json() : Json(bubble_of(times.flat.plan, times.lines))},
      {"advice", list(advice_for(plan, times), [](const Advice& a) { return json_of(a); })},
      {"options", Object{{"threads", plan.options.threads},
                         {"deterministic", plan.options.deterministic},
                         {"winograd", plan.options.winograd},
                         {"tf32", plan.options.tf32},
                         {"layout", plan.options.preference == LayoutPreference::blocked ? "blocked" : "channels_last"}}},
      {"inputs", list(plan.inputs, [](const HostInput& i) { return json_of(i); })},
      {"outputs", list(plan.outputs, [](const HostOutput& o) { return json_of(o); })},
      {"process", Object{{"bytes", process.total()},
                         {"arenas", process.arenas},
                         {"batches", process.batches},
                         {"copy", process.copy},
                         {"program", process.program}}},
  };
  if (detail == PlanDetail::whole)
    append(json, {{"cuts", list(plan.cuts, [](const AxisCut& cut) { return Json(cut.begins); })},
                  {"parameters", list(plan.parameters, [](const PlanParameter& p) { return json_of(p); })}});
  append(json, {{"exchanges", std::move(exchanges)},
                {"transfers", list(plan.transfers, [](const PlanTransfer& t) { return json_of(t); })},
                {"programs", std::move(programs)},
                {"devices", list(plan.devices, [&](const PlanDevice& d) { return json_of(plan, d); })},
                {"timelines", list(times.alike, [&](const std::vector<int>& d) { return timeline_of(times, d); })},
                {"warnings", plan.warnings},
                {"record", record_of(plan.record, detail)}});
  return json;
}

std::string json_of(const Plan& plan) { return json_value_of(plan, PlanDetail::whole).dump() + "\n"; }

}  // namespace tandem
