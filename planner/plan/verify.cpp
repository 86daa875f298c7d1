// What must hold of a plan before it runs.
#include "planner/plan/verify.h"

#include <algorithm>
#include <map>
#include <set>

namespace tandem {
namespace {

void check_parameter(const PlanParameter& p, Breaches& breaches) {
  const std::string where = concat("parameter '", brief(p.name), "'");
  if (const std::string reason = problem_of(p.type); !reason.empty()) return breaches.add(where, ": ", reason);
  if (const std::string reason = problem_of(p.operand); !reason.empty()) return breaches.add(where, ": ", reason);
  if (p.operand.layout.opaque()) return breaches.add(where, ": layout ", p.operand.layout, " cannot be exported");
  if (p.arena != ArenaKind::parameters && p.arena != ArenaKind::optimizer) breaches.add(where, " lies in arena ", name_of(p.arena));
  if (p.type.dtype != p.operand.dtype || p.type.shape.elements() != p.operand.shape.elements())
    return breaches.add(where, " of ", p.type, " is kept as ", p.operand);
  if (p.source.any()) return;
  const std::string reason = problem_of(Operand{p.operand.dtype, p.operand.shape, p.source});
  if (!reason.empty() || !p.source.plain()) breaches.add(where, ": source layout ", p.source, " does not fit ", p.operand.shape);
}

void check_collectives(const Plan& plan, Breaches& breaches) {
  struct Reduction {
    int bucket, stream;
    bool operator==(const Reduction&) const = default;
  };
  std::vector<Reduction> wanted;
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    std::vector<Reduction> got;
    for (const Step& step : plan.devices[d].steps)
      if (step.kind == StepKind::all_reduce) got.push_back({step.bucket, step.stream});
    if (d == 0) {
      wanted = std::move(got);
    } else if (got != wanted) {
      const auto at = std::mismatch(got.begin(), got.end(), wanted.begin(), wanted.end()).first - got.begin();
      breaches.add(plan.devices[d].device, ": all-reduces differ from ", plan.devices[0].device, "'s from number ", at, " on (", got.size(),
                   " and ", wanted.size(), " of them)");
    }
  }
  std::set<int> seen;
  for (const Reduction& r : wanted)
    if (!seen.insert(r.bucket).second) breaches.add("bucket ", r.bucket, " is reduced twice");
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
    if (o.combine == Combine::rows && (o.type.shape.rank() == 0 || o.type.shape[0] % std::max<std::int64_t>(1, plan.batch) != 0))
      breaches.add("output '", brief(o.name), "' of ", o.type, " has no batch of ", plan.batch, " along axis 0");
  }
  std::map<std::string_view, const PlanParameter*> names;
  for (const PlanParameter& p : plan.parameters) {
    check_parameter(p, breaches);
    if (!names.emplace(p.name, &p).second) breaches.add("there are two parameters '", brief(p.name), "'");
  }
  for (const PlanParameter& p : plan.parameters) {
    if (p.copy_of.empty()) continue;
    const auto of = names.find(p.copy_of);
    if (of == names.end() || !of->second->copy_of.empty() || of->second->type.shape != p.type.shape || !is_16_bit(p.type.dtype))
      breaches.add("parameter '", brief(p.name), "' of ", p.type, " is no copy in 16 bits of a parameter '", brief(p.copy_of), "'");
  }
  std::int64_t rows = 0;
  for (const DevicePlan& d : plan.devices) {
    if (d.slice_size < 0 || d.slice_size > plan.batch || d.slice_begin != rows)
      breaches.add(d.device, ": slice of ", d.slice_size, " rows at ", d.slice_begin, " of ", plan.batch, ", expected to begin at ", rows);
    rows += std::clamp<std::int64_t>(d.slice_size, 0, most_rows);
  }
  if (rows != plan.batch) breaches.add("slices hold ", rows, " rows, the batch ", plan.batch);
}

}  // namespace

std::string brief(const std::string& name) {
  return name.size() <= 80 ? name : name.substr(0, 77) + "...";
}

std::string DeviceBreaches::buffer(int index) const {
  return concat("buffer ", index, " '", brief(device_.buffers[static_cast<std::size_t>(index)].name), "'");
}

std::string DeviceBreaches::step(std::size_t index) const {
  const Step& s = device_.steps[index];
  return concat("step ", index, " (", s.kind == StepKind::launch ? brief(s.op) : std::string(name_of(s.kind)), ")");
}

void Breaches::raise(const Plan& plan) const {
  if (count_ == 0) return;
  const std::string rest = count_ > shown ? concat("\n  and ", count_ - shown, " more") : std::string();
  fail(ExitCode::model, "plan of '", plan.model, "' breaks ", count_, count_ == 1 ? " rule:" : " rules:", text_, rest);
}

void verify(const Plan& plan) {
  Breaches breaches;
  check_whole(plan, breaches);
  for (const DevicePlan& device : plan.devices) {
    const Structure structure = verify_structure(plan, device, breaches);
    if (!structure.sound) continue;
    verify_launches(device, breaches);
    verify_memory(plan, device, structure.roots, breaches);
  }
  check_collectives(plan, breaches);
  breaches.raise(plan);
}

}  // namespace tandem
