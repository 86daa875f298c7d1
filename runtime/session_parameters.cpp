// A session's parameters and optimizer state, written to devices and read back, whole or in parts.
#include <algorithm>
#include <map>

#include "base/crc32c.h"
#include "runtime/parameter_parts.h"
#include "runtime/session_state.h"

namespace tandem {

void Session::set_parameters(std::span<const NamedTensor> values, ValueRole role) {
  state_->gathered.clear();
  std::vector<const PlanParameter*> targets;
  for (const NamedTensor& v : values) {
    const auto it = state_->parameters.find({role, v.name});
    if (it == state_->parameters.end()) fail("the plan has no ", role == ValueRole::plain ? "parameter" : name_of(role), " '", v.name, "'");
    if (role == ValueRole::copy) fail("parameter '", v.name, "' follows '", it->second->of, "' and cannot be set");
    if (v.tensor.type() != it->second->type) fail("parameter '", v.name, "' is ", it->second->type, ", got ", v.tensor.type());
    targets.push_back(it->second);
  }
  const auto write = [&](const PlanParameter& parameter, const Tensor& value) {
    std::vector<std::optional<ParameterPart>> parts;
    for (std::size_t d = 0; d < state_->devices.size(); ++d) parts.push_back(state_->part_of(parameter, d));
    const CutParameter cut(parameter, parts, value.bytes());
    state_->on_devices([&](std::unique_ptr<DeviceRuntime>& device, std::size_t d) {
      if (parts[d]) device->write(parameter.arena, *parts[d], cut.bytes_of(*parts[d]));
    });
  };
  std::map<std::string_view, const Tensor*> set;
  for (std::size_t i = 0; i < values.size(); ++i) {
    write(*targets[i], values[i].tensor);
    set[values[i].name] = &values[i].tensor;
  }
  for (const PlanParameter& p : state_->plans[0]->parameters)
    if (const auto of = set.find(p.of); role == ValueRole::plain && p.role == ValueRole::copy && of != set.end())
      write(p, of->second->cast(p.type.dtype));
}

std::vector<std::size_t> Session::State::holders(const PlanParameter& p, std::size_t asked) const {
  std::vector<std::size_t> all;
  for (std::size_t d = 0; d < devices.size(); ++d)
    if (part_of(p, d)) all.push_back(d);
  const auto whole = [&](std::size_t d) { return part_of(p, d) && part_of(p, d)->is_whole(); };
  if (whole(asked)) return {asked};
  if (const auto one = std::find_if(all.begin(), all.end(), whole); one != all.end()) return {*one};
  if (all.size() != plans[0]->parts_of(p).size())
    fail(ExitCode::device, "parameter '", p.name, "' is on devices of another process, and was not gathered since the last step");
  return all;
}

bool Session::State::lacks(const PlanParameter& p) const {
  if (!world) return false;
  const std::vector<ParameterPart> parts = plans[0]->parts_of(p);
  for (int rank = 0; rank < world->ranks(); ++rank) {
    const auto here = [&](const ParameterPart& part) { return part.device / range.count == rank; };
    const bool whole = std::any_of(parts.begin(), parts.end(), [&](const ParameterPart& part) { return here(part) && part.is_whole(); });
    if (!whole && !std::all_of(parts.begin(), parts.end(), here)) return true;
  }
  return false;
}

bool Session::lacks_parameters() const {
  const std::vector<PlanParameter>& all = state_->plans[0]->parameters;
  return std::any_of(all.begin(), all.end(), [&](const PlanParameter& p) { return state_->lacks(p); });
}

// Each part is given by the first device that has it.
void Session::gather_parameters() {
  State& s = *state_;
  for (const PlanParameter& p : s.plans[0]->parameters) {
    if (!s.lacks(p)) continue;
    const std::vector<ParameterPart> parts = s.plans[0]->parts_of(p);
    std::vector<std::vector<std::byte>> bytes(s.devices.size());
    s.on_devices([&](std::unique_ptr<DeviceRuntime>& device, std::size_t d) {
      const std::optional<ParameterPart> own = s.part_of(p, d);
      if (!own) return;
      const auto first = std::find_if(parts.begin(), parts.end(), [&](const ParameterPart& part) { return part.same_ranges(*own); });
      if (first->device != own->device) return;
      bytes[d].resize(static_cast<std::size_t>(own->operand.bytes()));
      device->read(p.arena, *own, bytes[d]);
    });
    std::vector<std::byte> whole(static_cast<std::size_t>(p.type.shape.elements()) * size_of(p.type.dtype));
    for (std::size_t d = 0; d < bytes.size(); ++d)
      if (!bytes[d].empty()) put_part(p, *s.part_of(p, d), bytes[d], whole);
    s.world->gather(whole);
    s.gathered[p.key()] = std::move(whole);
  }
}

namespace {

template <class State>
void read_parameters(State& state, ValueRole role, std::size_t from, const Session::Visit& visit) {
  const Plan& plan = *state.plans[0];
  if (from >= state.devices.size()) fail(ExitCode::usage, "session: device ", from, " of ", state.devices.size());
  for (const PlanParameter& p : plan.parameters) {
    if (p.role != role) continue;
    if (const auto whole = state.gathered.find(p.key()); whole != state.gathered.end()) {
      NamedTensor value{p.name, Tensor(p.type)};
      std::copy(whole->second.begin(), whole->second.end(), value.tensor.write().begin());
      visit(value);
      continue;
    }
    const std::vector<std::size_t> holders = state.holders(p, from);
    std::vector<std::vector<std::byte>> bytes(state.devices.size());
    for (const std::size_t d : holders) bytes[d].resize(static_cast<std::size_t>(state.part_of(p, d)->operand.bytes()));
    state.on_devices([&](std::unique_ptr<DeviceRuntime>& device, std::size_t d) {
      if (std::find(holders.begin(), holders.end(), d) != holders.end()) device->read(p.arena, *state.part_of(p, d), bytes[d]);
    });
    NamedTensor value{p.name, Tensor(p.type)};
    const std::span<std::byte> whole = value.tensor.write();
    for (const std::size_t d : holders) put_part(p, *state.part_of(p, d), bytes[d], whole);
    visit(value);
  }
}

}  // namespace

void Session::each_parameter(const Visit& visit, int device) const {
  read_parameters(*state_, ValueRole::plain, static_cast<std::size_t>(device), visit);
}
void Session::each_optimizer_state(const Visit& visit, int device) const {
  read_parameters(*state_, ValueRole::optimizer_state, static_cast<std::size_t>(device), visit);
}
std::vector<NamedTensor> Session::parameters_as(ValueRole role, int device) const {
  std::vector<NamedTensor> values;
  read_parameters(*state_, role, static_cast<std::size_t>(device), [&](const NamedTensor& v) { values.push_back(v); });
  return values;
}
std::vector<NamedTensor> Session::parameters(int device) const { return parameters_as(ValueRole::plain, device); }
std::vector<NamedTensor> Session::optimizer_state(int device) const { return parameters_as(ValueRole::optimizer_state, device); }

std::vector<std::vector<std::uint32_t>> Session::parameter_checksums() const {
  const std::vector<PlanParameter>& parameters = state_->plans[0]->parameters;
  std::vector<std::vector<std::uint32_t>> sums(state_->devices.size(), std::vector<std::uint32_t>(parameters.size()));
  state_->on_devices([&](std::unique_ptr<DeviceRuntime>& device, std::size_t d) {
    std::vector<std::byte> bytes;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      const std::optional<ParameterPart> part = state_->part_of(parameters[p], d);
      if (!part || parameters[p].arena != ArenaKind::parameters) continue;
      bytes.resize(static_cast<std::size_t>(part->operand.bytes()));
      device->read(ArenaKind::parameters, *part, bytes);
      sums[d][p] = crc32c(0, bytes);
    }
  });
  return sums;
}

}  // namespace tandem
