// A session's parameters and optimizer state, written to devices and read back, whole or in parts.
#include <algorithm>
#include <map>

#include "base/crc32c.h"
#include "base/spec.h"
#include "graph/index_runs.h"
#include "graph/tensor_chunks.h"
#include "runtime/moved_parameter.h"
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
  std::map<std::string_view, const Tensor*> set;
  for (std::size_t i = 0; i < values.size(); ++i) {
    state_->write(*targets[i], values[i].tensor);
    set[values[i].name] = &values[i].tensor;
  }
  for (const PlanParameter& p : state_->plans[0]->parameters)
    if (const auto of = set.find(p.of); role == ValueRole::plain && p.role == ValueRole::copy && of != set.end())
      state_->write(p, of->second->cast(p.type.dtype));
  for (const NamedTensor& v : values) v.tensor.release();
}

namespace {

// A parameter that all devices keep whole in one other order, where many small copies cost little: in memory of the host.
template <class State>
std::optional<MovedParameter> in_pieces(const State& state, const PlanParameter& p,
                                        const std::vector<std::optional<ParameterPart>>& parts) {
  const ParameterPart* first = nullptr;
  for (std::size_t d = 0; d < parts.size(); ++d) {
    if (!parts[d]) continue;
    if (state.name_of(static_cast<int>(d)).backend != "cpu" || !MovedParameter::possible(p, *parts[d])) return std::nullopt;
    if (first && first->operand != parts[d]->operand) return std::nullopt;
    first = &*parts[d];
  }
  return first ? std::optional(MovedParameter(p, *first)) : std::nullopt;
}

template <class State>
void write_pieces(State& state, const PlanParameter& p, const std::vector<std::optional<ParameterPart>>& parts, const MovedParameter& moved,
                  const Tensor& value) {
  std::vector<std::byte> rows, there;
  for (std::int64_t first = 0; first < moved.rows(); first += moved.rows_of_a_piece()) {
    const std::int64_t count = std::min(moved.rows_of_a_piece(), moved.rows() - first);
    rows.resize(static_cast<std::size_t>(count * moved.row_bytes()));
    there.resize(rows.size());
    value.read(rows, first * moved.row_bytes());
    moved.to_device_order(rows, there);
    state.on_devices([&](std::unique_ptr<DeviceRuntime>& device, std::size_t d) {
      if (parts[d])
        moved.each_run(first, count, [&](std::int64_t at, std::int64_t from, std::int64_t bytes) {
          device->write(p.arena, *parts[d], std::span(there).subspan(static_cast<std::size_t>(from), static_cast<std::size_t>(bytes)), at);
        });
    });
  }
}

}  // namespace

// Values of a source go to the devices piece by piece, where nothing has to be cut.
void Session::State::write(const PlanParameter& p, const Tensor& value) {
  std::vector<std::optional<ParameterPart>> parts;
  for (std::size_t d = 0; d < devices.size(); ++d) parts.push_back(part_of(p, d));
  if (std::ranges::none_of(parts, [](const auto& part) { return part.has_value(); })) return;  // other processes' devices have it
  const bool moved = std::ranges::any_of(parts, [&](const auto& part) { return part && !lies_as_template(p, *part); });
  if (const std::optional<MovedParameter> pieces = moved ? in_pieces(*this, p, parts) : std::nullopt)
    return write_pieces(*this, p, parts, *pieces, value);
  if (moved && !lacks(p, world ? world->rank() : 0)) value.bytes();  // all of it is wanted: read once, not range by range
  const CutParameter cut(p, parts, value);
  if (!moved)
    return each_chunk(value, [&](std::span<const std::byte> chunk, std::int64_t at) {
      on_devices([&](std::unique_ptr<DeviceRuntime>& device, std::size_t d) {
        if (parts[d]) device->write(p.arena, *parts[d], chunk, at);
      });
    });
  on_devices([&](std::unique_ptr<DeviceRuntime>& device, std::size_t d) {
    if (parts[d]) device->write(p.arena, *parts[d], cut.bytes_of(*parts[d]));
  });
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

void Session::gather_parameters(std::span<const ParameterKey> keys) {
  for (const ParameterKey& key : keys)
    if (const auto it = state_->parameters.find(key); it != state_->parameters.end() && state_->lacks(*it->second))
      state_->gathered[key] = state_->gather(*it->second);
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

namespace {

// What the device at hand keeps of a parameter, all of it and as the template does.
template <class State>
class DeviceValues final : public TensorSource {
 public:
  DeviceValues(State& state, const PlanParameter& parameter, std::size_t device) : state_(state), parameter_(parameter), device_(device) {}
  void read(std::span<std::byte> to, std::int64_t offset) const override {
    state_.on_devices([&](std::unique_ptr<DeviceRuntime>& device, std::size_t d) {
      if (d == device_) device->read(parameter_.arena, *state_.part_of(parameter_, d), to, offset);
    });
  }

 private:
  State& state_;
  const PlanParameter& parameter_;
  const std::size_t device_;
};

// The same, in another order of axes.
template <class State>
class MovedValues final : public TensorSource {
 public:
  MovedValues(State& state, const PlanParameter& parameter, std::size_t device, MovedParameter moved)
      : state_(state), parameter_(parameter), device_(device), moved_(std::move(moved)) {}

  void read(std::span<std::byte> to, std::int64_t offset) const override {
    const std::int64_t row = moved_.row_bytes(), end = offset + std::ssize(to);
    for (std::int64_t at = offset; at < end;) {
      const std::int64_t first = at / row, count = std::min((end + row - 1) / row - first, moved_.rows_of_a_piece());
      const std::vector<std::byte> piece = rows(first, count);
      const std::int64_t bytes = std::min(end, (first + count) * row) - at;
      std::copy_n(piece.begin() + (at - first * row), bytes, to.begin() + (at - offset));
      at += bytes;
    }
  }

 private:
  std::vector<std::byte> rows(std::int64_t first, std::int64_t count) const {
    std::vector<std::byte> there(static_cast<std::size_t>(count * moved_.row_bytes())), here(there.size());
    state_.on_devices([&](std::unique_ptr<DeviceRuntime>& device, std::size_t d) {
      if (d == device_)
        moved_.each_run(first, count, [&](std::int64_t at, std::int64_t to, std::int64_t bytes) {
          const auto run = std::span(there).subspan(static_cast<std::size_t>(to), static_cast<std::size_t>(bytes));
          device->read(parameter_.arena, *state_.part_of(parameter_, d), run, at);
        });
    });
    moved_.to_template_order(there, here);
    return here;
  }

  State& state_;
  const PlanParameter& parameter_;
  const std::size_t device_;
  const MovedParameter moved_;
};

}  // namespace

Tensor Session::State::streamed(const PlanParameter& p) {
  if (gathered.contains(p.key()) || (asking && lacks(p, 0))) return read(p, 0);
  const std::vector<std::size_t> from = holders(p, 0);
  if (from.size() != 1) return read(p, 0);
  const ParameterPart part = *part_of(p, from[0]);
  if (lies_as_template(p, part)) return {p.type, std::make_shared<DeviceValues<State>>(*this, p, from[0])};
  if (name_of(static_cast<int>(from[0])).backend != "cpu" || !MovedParameter::possible(p, part)) return read(p, 0);
  return {p.type, std::make_shared<MovedValues<State>>(*this, p, from[0], MovedParameter(p, part))};
}

Tensor Session::streamed(const std::string& name, ValueRole role) const {
  const auto it = state_->parameters.find({role, name});
  if (it == state_->parameters.end()) fail("the plan has no ", role == ValueRole::plain ? "parameter" : name_of(role), " '", name, "'");
  return state_->streamed(*it->second);
}

void Session::each_streamed(ValueRole role, const Visit& visit) const {
  for (const PlanParameter& p : state_->plans[0]->parameters)
    if (p.role == role) visit({p.name, state_->streamed(p)});
}

Tensor Session::parameter(const std::string& name, ValueRole role, int device) const {
  const auto it = state_->parameters.find({role, name});
  if (it == state_->parameters.end()) fail("the plan has no ", role == ValueRole::plain ? "parameter" : name_of(role), " '", name, "'");
  return state_->read(*it->second, static_cast<std::size_t>(device));
}

Tensor Session::part(const PlanParameter& p, const ParameterPart& part) const {
  if (part.is_whole()) return state_->streamed(p);
  std::vector<std::byte> kept(static_cast<std::size_t>(part.operand.bytes()));
  state_->on_devices([&](std::unique_ptr<DeviceRuntime>& device, std::size_t d) {
    if (state_->range.first + static_cast<int>(d) == part.device) device->read(p.arena, part, kept);
  });
  Tensor value({p.type.dtype, shape_of(p.type.shape, runs_of(p.type.shape, part.ranges))});
  std::ranges::copy(in_template_order(p, part, kept), value.write().begin());
  return value;
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
