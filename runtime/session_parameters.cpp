// A session's parameters and optimizer state, written to devices and read back, whole or in parts.
#include <algorithm>
#include <map>

#include "base/crc32c.h"
#include "base/spec.h"
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

bool Session::State::lacks(const PlanParameter& p, int rank) const {
  if (!world) return false;
  const std::vector<ParameterPart> parts = plans[0]->parts_of(p);
  const auto here = [&](const ParameterPart& part) { return part.device / range.count == rank; };
  const bool whole = std::any_of(parts.begin(), parts.end(), [&](const ParameterPart& part) { return here(part) && part.is_whole(); });
  return !whole && !std::all_of(parts.begin(), parts.end(), here);
}

bool Session::State::lacks(const PlanParameter& p) const {
  for (int rank = 0; world && rank < world->ranks(); ++rank)
    if (lacks(p, rank)) return true;
  return false;
}

bool Session::lacks_parameters() const {
  const std::vector<PlanParameter>& all = state_->plans[0]->parameters;
  return std::any_of(all.begin(), all.end(), [&](const PlanParameter& p) { return state_->lacks(p); });
}

// Each part is given by the first device that has it.
std::vector<std::byte> Session::State::gather(const PlanParameter& p) {
  const std::vector<ParameterPart> parts = plans[0]->parts_of(p);
  std::vector<std::vector<std::byte>> bytes(devices.size());
  on_devices([&](std::unique_ptr<DeviceRuntime>& device, std::size_t d) {
    const std::optional<ParameterPart> own = part_of(p, d);
    if (!own) return;
    const auto first = std::find_if(parts.begin(), parts.end(), [&](const ParameterPart& part) { return part.same_ranges(*own); });
    if (first->device != own->device) return;
    bytes[d].resize(static_cast<std::size_t>(own->operand.bytes()));
    device->read(p.arena, *own, bytes[d]);
  });
  std::vector<std::byte> whole(static_cast<std::size_t>(p.type.shape.elements()) * size_of(p.type.dtype));
  for (std::size_t d = 0; d < bytes.size(); ++d) {
    if (!bytes[d].empty()) put_part(p, *part_of(p, d), bytes[d], whole);
    std::vector<std::byte>().swap(bytes[d]);
  }
  world->gather(whole);
  return whole;
}

void Session::gather_parameters() {
  for (const PlanParameter& p : state_->plans[0]->parameters)
    if (state_->lacks(p)) state_->gathered[p.key()] = state_->gather(p);
}

namespace {

// Rank 0 asks for a parameter by its number in the plan; an empty word ends it.
template <class State>
void answer(State& s) {
  for (std::string asked = s.world->broadcast(""); !asked.empty(); asked = s.world->broadcast(""))
    s.gather(s.plans[0]->parameters.at(static_cast<std::size_t>(parse_integer(asked, "the number of a parameter"))));
}

}  // namespace

void Session::together(const std::function<void()>& work) {
  State& s = *state_;
  const auto lacking = [&](const PlanParameter& p) { return s.lacks(p, 0); };
  const bool first = !s.world || s.world->rank() == 0;
  if (s.asking || std::none_of(s.plans[0]->parameters.begin(), s.plans[0]->parameters.end(), lacking)) {
    if (first) work();
    return;
  }
  if (!first) return answer(s);
  s.asking = true;
  const auto end = [&] {
    s.asking = false;
    s.world->broadcast("");
  };
  try {
    work();
  } catch (const Error& e) {
    if (e.code() != ExitCode::communication) end();
    s.asking = false;
    throw;
  } catch (...) {
    end();
    throw;
  }
  end();
}

Tensor Session::State::read(const PlanParameter& p, std::size_t from) {
  if (from >= devices.size()) fail(ExitCode::usage, "session: device ", from, " of ", devices.size());
  Tensor value(p.type);
  const std::span<std::byte> whole = value.write();
  if (const auto kept = gathered.find(p.key()); kept != gathered.end()) {
    std::copy(kept->second.begin(), kept->second.end(), whole.begin());
    return value;
  }
  if (asking && lacks(p, 0)) {
    world->broadcast(std::to_string(&p - plans[0]->parameters.data()));
    const std::vector<std::byte> bytes = gather(p);
    std::copy(bytes.begin(), bytes.end(), whole.begin());
    return value;
  }
  const std::vector<std::size_t> holders = this->holders(p, from);
  std::vector<std::vector<std::byte>> bytes(devices.size());
  for (const std::size_t d : holders)
    if (const ParameterPart part = *part_of(p, d); !lies_as_template(p, part))
      bytes[d].resize(static_cast<std::size_t>(part.operand.bytes()));
  on_devices([&](std::unique_ptr<DeviceRuntime>& device, std::size_t d) {
    if (std::find(holders.begin(), holders.end(), d) == holders.end()) return;
    const ParameterPart part = *part_of(p, d);
    device->read(p.arena, part, lies_as_template(p, part) ? whole : std::span(bytes[d]));
  });
  for (const std::size_t d : holders) {
    if (!bytes[d].empty()) put_part(p, *part_of(p, d), bytes[d], whole);
    std::vector<std::byte>().swap(bytes[d]);
  }
  return value;
}

Tensor Session::parameter(const std::string& name, ValueRole role, int device) const {
  const auto it = state_->parameters.find({role, name});
  if (it == state_->parameters.end()) fail("the plan has no ", role == ValueRole::plain ? "parameter" : name_of(role), " '", name, "'");
  return state_->read(*it->second, static_cast<std::size_t>(device));
}

namespace {

template <class State>
void read_parameters(State& state, ValueRole role, std::size_t from, const Session::Visit& visit) {
  for (const PlanParameter& p : state.plans[0]->parameters)
    if (p.role == role) visit({p.name, state.read(p, from)});
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
