#include "planner/memory/assemble.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

namespace tandem {
namespace {

bool has_batch(const TensorType& t, std::int64_t samples) { return t.shape.rank() > 0 && t.shape[0] == samples; }

// As the slowest row of its members takes, by one device's links.
double seconds_direct(const Exchange& exchange, const std::vector<int>& numbers, const DeviceModel& device, bool fixed_order) {
  const double bytes = static_cast<double>(exchange.elements) * static_cast<double>(size_of(exchange.dtype));
  Interconnect links = device.links;
  if (links.levels.empty()) {
    if (device.link_bandwidth <= 0) return 0;
    links = {.levels = {{.name = "link", .bandwidth = device.link_bandwidth}}, .begin_seconds = device.launch_seconds};
  }
  double seconds = 0;
  for (std::size_t row = 0; row < at(exchange.rows); ++row) {
    std::vector<int> members;
    for (const int d : exchange.row(row)) members.push_back(numbers[at(d)]);
    seconds = std::max(seconds, exchange_seconds(links, exchange.kind, members, bytes, fixed_order));
  }
  return seconds;
}

// Devices of several kinds copy what they give to the host, and from there what they get: the links between devices are not used.
double seconds_by_host(const Exchange& exchange, const std::vector<int>& numbers, const DeviceModel& device, bool fixed_order) {
  const double bytes = static_cast<double>(exchange.elements) * static_cast<double>(size_of(exchange.dtype));
  const double copied = (is_in_place(exchange.kind) ? 2 : 1) * bytes / device.links.host_bandwidth;
  return device.links.levels.empty() ? std::max(copied, seconds_direct(exchange, numbers, device, fixed_order))
                                     : device.links.begin_seconds + copied;
}

auto all_of(const DeviceModel& m) {
  return std::tie(m.name, m.memory, m.flops, m.bandwidth, m.launch_seconds, m.link_bandwidth, m.threads, m.multiprocessors, m.sharing,
                  m.alignment, m.links);
}

// Devices that run one program of the plan.
struct Class {
  const Replica* first;
  std::vector<int> devices;
  ProgramId kept;  // what they run of the plan whose parameters this one shares
  bool has(const Replica& r, ProgramId keeps) const {
    return first->program == r.program && first->slice_size == r.slice_size && first->outputs == r.outputs &&
           first->schedule == r.schedule && first->only_keeps == r.only_keeps && first->spec.id.backend == r.spec.id.backend && first->stages_inputs == r.stages_inputs &&
           kept == keeps && all_of(first->model) == all_of(r.model);
  }
};

class PlanAssembler {
 public:
  PlanAssembler(Plan& plan, const std::vector<Replica>& replicas, const Plan* parameters_of) : plan_(plan), replicas_(replicas) {
    for (std::size_t d = 0; d < replicas.size(); ++d) {
      const Replica& r = replicas[d];
      const ProgramId kept = parameters_of ? parameters_of->devices[d].program : ProgramId{};
      const auto like = std::find_if(classes_.begin(), classes_.end(), [&](const Class& c) { return c.has(r, kept); });
      Class& own = like == classes_.end() ? classes_.emplace_back(Class{&r, {}, kept}) : *like;
      own.devices.push_back(static_cast<int>(d));
      plan_.devices.push_back({r.spec.id, {static_cast<int>(&own - classes_.data())}, r.spec.weight, r.slice_begin, r.slice_size});
    }
    for (const Class& c : classes_) leader_first_.push_back(&c);
    const auto more = [](const Class* a, const Class* b) { return a->first->slice_size < b->first->slice_size; };
    const auto leader = std::max_element(leader_first_.begin(), leader_first_.end(), more);
    std::rotate(leader_first_.begin(), leader, std::next(leader));
  }

  void list_inputs() {
    for (const Class* c : leader_first_)
      for (const LoweredInput& in : c->first->program->inputs) {
        if (std::any_of(plan_.inputs.begin(), plan_.inputs.end(), [&](const HostInput& h) { return in.feeds(h); })) continue;
        const Operand& o = c->first->program->buffers[in.buffer].operand;
        HostInput host{.name = in.name, .type = {o.dtype, o.shape}, .role = in.role, .of = in.of};
        // Rows of a micro-batch. What every device takes whole may be as long as the part of some: it is by rows where that is all.
        const bool all = c->first->slice_size == plan_.batch / plan_.micro_batches;
        host.batched = !in.is_state() && (!in.whole || all) && has_batch(host.type, c->first->slice_size);
        if (host.batched) host.type.shape[0] = plan_.batch;
        plan_.inputs.push_back(std::move(host));
      }
  }

  void list_outputs(const std::vector<HostOutput>& outputs, std::span<const std::int64_t> rows) {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      HostOutput host = outputs[i];
      host.combine = rows[i] > 0 ? Combine::rows : Combine::sum;
      host.parts = 0;
      for (const Class* c : leader_first_)
        for (std::size_t o = 0; o < c->first->program->outputs.size(); ++o) {
          if (c->first->output(o) != static_cast<int>(i)) continue;
          const Operand& operand = c->first->program->buffers[c->first->program->outputs[o]].operand;
          if (host.parts == 0) host.type = {operand.dtype, operand.shape};
          const bool once = !is_of_micro_batch(made_in(*c->first->program, c->first->program->outputs[o]).first);
          host.parts += static_cast<int>(std::ssize(c->devices) * (once ? 1 : plan_.micro_batches));
        }
      if (rows[i] > 0) {
        host.parts = 1;
        host.type.shape[0] = rows[i] * plan_.batch;
      }
      plan_.outputs.push_back(std::move(host));
    }
  }

  // Where each device stands among its links: by its own number, or in the list where they are of several kinds.
  std::vector<int> device_numbers() const {
    const auto kind = [&](const Replica& r) { return r.only_keeps || r.spec.id.backend == replicas_[0].spec.id.backend; };
    const bool alike = std::ranges::all_of(replicas_, kind);
    std::vector<int> numbers;
    for (const Replica& r : replicas_) numbers.push_back(alike ? r.spec.id.index : static_cast<int>(numbers.size()));
    return numbers;
  }

  void list_exchanges(bool deterministic) {
    const std::vector<int> numbers = device_numbers();
    std::vector<int> all;
    for (std::size_t d = 0; d < replicas_.size(); ++d)
      if (!replicas_[d].only_keeps) all.push_back(static_cast<int>(d));
    std::set<std::string> known;
    std::map<std::string, std::int64_t> elements;  // of the member that has all
    for (const Class* c : leader_first_)
      for (const Exchange& e : c->first->program->exchanges) elements[e.name] = std::max(elements[e.name], e.elements);
    for (const Class* c : leader_first_)
      for (const Exchange& e : c->first->program->exchanges) {
        if (!known.insert(e.name).second) continue;
        Exchange& exchange = plan_.exchanges.emplace_back(e);
        exchange.elements = elements[e.name];
        if (exchange.devices.empty()) exchange.devices = all;
        std::vector<bool> takes_part(classes_.size());
        for (const int d : exchange.devices) takes_part[at(plan_.devices[at(d)].program.index)] = true;
        std::set<std::string> kinds;
        for (std::size_t p = 0; p < classes_.size(); ++p)
          if (takes_part[p]) kinds.insert(classes_[p].first->spec.id.backend);
        const auto seconds_on = kinds.size() > 1 ? seconds_by_host : seconds_direct;
        for (std::size_t p = 0; p < classes_.size(); ++p) {
          const DeviceModel& model = classes_[p].first->model;
          if (takes_part[p]) exchange.seconds = std::max(exchange.seconds, seconds_on(exchange, numbers, model, deterministic));
        }
      }
  }

  // Optimizer states, which come in the order of updates, in the order of what they belong to: however many devices there are.
  void order_states() {
    std::map<std::string, std::size_t> places;
    std::vector<std::size_t> slots;
    std::vector<PlanParameter> states;
    for (std::size_t p = 0; p < plan_.parameters.size(); ++p) {
      PlanParameter& parameter = plan_.parameters[p];
      if (parameter.role == ValueRole::plain) places.emplace(parameter.name, p);
      if (parameter.role != ValueRole::optimizer_state) continue;
      slots.push_back(p);
      states.push_back(std::move(parameter));
    }
    std::ranges::stable_sort(states, {}, [&](const PlanParameter& state) {
      const auto place = places.find(state.of);
      return place == places.end() ? plan_.parameters.size() : place->second;
    });
    for (std::size_t i = 0; i < slots.size(); ++i) plan_.parameters[slots[i]] = std::move(states[i]);
  }

  // On every device its parameters lie one behind the other, in the order of the plan's.
  void place_parameters() {
    std::map<ParameterKey, std::size_t> index;
    for (const Class* c : leader_first_)
      for (const LoweredParameter& p : c->first->program->parameters)
        if (index.emplace(p.key(), plan_.parameters.size()).second)
          plan_.parameters.push_back({p.name, p.type, p.source, c->first->program->buffers[p.buffer].arena, {}, p.trainable, p.role, p.of});
    order_states();
    for (std::size_t p = 0; p < plan_.parameters.size(); ++p) index[plan_.parameters[p].key()] = p;
    for (ProgramId id{0}; id.index < std::ssize(classes_); ++id.index) {
      const Replica& replica = *classes_[at(id.index)].first;
      std::vector<std::pair<const LoweredParameter*, const Buffer*>> own(plan_.parameters.size());
      const auto keep = [&](const LoweredGraph& program, bool parts) {
        for (const LoweredParameter& p : program.parameters)
          if (auto& kept = own[index.at(p.key())]; !kept.first && (parts || p.ranges.empty())) kept = {&p, &program.buffers[p.buffer]};
      };
      keep(*replica.program, true);
      // A device without samples keeps what the others keep whole: another batch may have some for it.
      if (replica.slice_size == 0 && !replica.only_keeps) keep(*leader_first_[0]->first->program, false);
      std::int64_t ends[std::size(arena_kinds)] = {};
      for (std::size_t p = 0; p < own.size(); ++p) {
        const auto& [parameter, buffer] = own[p];
        if (!parameter) continue;
        auto& end = ends[static_cast<std::size_t>(plan_.parameters[p].arena)];
        ProgramPart& part = plan_.parameters[p].parts.emplace_back(ProgramPart{id, buffer->operand, end, {}});
        for (const auto& [range, begins] : parameter->ranges) {
          const auto [cut, unit] = cut_of(begins);
          part.ranges.push_back({range.axis, cut, unit, range.size, range.outer, range.widths});
        }
        end += buffer->bytes;
      }
    }
  }

  void assemble_programs(const CompileOptions& options) {
    for (ProgramId id{0}; id.index < std::ssize(classes_); ++id.index)
      plan_.programs.add(assemble_program(plan_, id, *classes_[at(id.index)].first, options));
  }

  void keep_parameters_of(const Plan& other) {
    plan_.parameters = other.parameters;
    plan_.cuts = other.cuts;
    std::set<ParameterKey> known, own;
    for (PlanParameter& p : plan_.parameters) {
      known.insert(p.key());
      std::vector<ProgramPart> parts;
      for (ProgramId id{0}; id.index < std::ssize(classes_); ++id.index)
        if (const ProgramPart* kept = p.on(classes_[at(id.index)].kept)) parts.emplace_back(*kept).program = id;
      p.parts = std::move(parts);
    }
    for (const Class* c : leader_first_)
      for (const LoweredParameter& p : c->first->program->parameters) {
        if (!known.count(p.key())) fail("parameter '", p.name, "' is not in the plan this one shares parameters with");
        own.insert(p.key());
      }
    if (plan_.mode == PlanMode::inference) return;
    for (const PlanParameter& p : plan_.parameters)
      if (p.role == ValueRole::copy && !own.count(p.key()))
        fail("parameter '", p.name, "' of the plan this one shares parameters with would not follow '", p.of, "'");
  }

 private:
  // The way in which an axis is cut, which is added where it is new, and its unit.
  std::pair<int, std::int64_t> cut_of(std::vector<std::int64_t> begins) {
    std::int64_t unit = 0;
    for (const std::int64_t begin : begins) unit = std::gcd(unit, begin);
    for (std::int64_t& begin : begins) begin /= std::max<std::int64_t>(1, unit);
    const auto [cut, fresh] = cuts_.try_emplace(begins, static_cast<int>(plan_.cuts.size()));
    if (fresh) plan_.cuts.push_back({std::move(begins)});
    return {cut->second, unit};
  }

  Plan& plan_;
  const std::vector<Replica>& replicas_;
  std::vector<Class> classes_;              // by program
  std::vector<const Class*> leader_first_;  // the one with the most samples says in which order things stand
  std::map<std::vector<std::int64_t>, int> cuts_;
};

}  // namespace

double seconds_to_send(std::int64_t bytes, const DeviceModel& from, const DeviceModel& to, bool same_kind) {
  const Exchange send{.kind = ExchangeKind::send, .name = {}, .devices = {0, 1}, .elements = bytes, .dtype = DType::uint8};
  const auto seconds = same_kind ? seconds_direct : seconds_by_host;
  return std::max(seconds(send, {0, 1}, from, false), seconds(send, {0, 1}, to, false));
}

StageSchedule stage_schedule(const CompileOptions& o, const std::optional<PlacementRequest>& placement, int device) {
  int stage = 0, chunks = 1;
  const int stages = placement ? std::max(1, placement->stages) : 1;
  if (stages > 1) {
    const auto own = std::ranges::find_if(placement->groups, [&](const DeviceGroup& g) { return g.position_of(device) >= 0; });
    stage = static_cast<int>(own - placement->groups.begin());
    chunks = static_cast<int>(placement->groups.size()) / stages;
  }
  StageSchedule s{.entries = schedule_of(o.parallel.schedule.kind, stage, stages, chunks, static_cast<int>(o.parallel.micro_batches))};
  std::vector<int> first;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    first.push_back(s.slots);
    s.slots += slots_of(s.entries, chunk);
  }
  for (ScheduleEntry& e : s.entries) e.slot += first[at(e.chunk)];
  return s;
}

std::pair<Phase, int> made_in(const LoweredGraph& program, BufferId output) {
  const BufferId root = root_of(program.buffers, output);
  std::pair<Phase, int> place{Phase::prepare, 0};
  for (const LoweredInput& in : program.inputs)
    if (in.buffer == root) place.first = in.role == ValueRole::gradient ? Phase::backward : Phase::forward;
  for (const Step& s : program.steps)
    for (const BufferId out : s.outputs)
      if (out.present() && root_of(program.buffers, out) == root) place = {s.phase, s.chunk};
  return place;
}

void assemble(Plan& plan, const std::vector<Replica>& replicas, const std::vector<HostOutput>& outputs, std::span<const std::int64_t> rows,
              const CompileOptions& options, const Plan* parameters_of) {
  PlanAssembler assembler(plan, replicas, parameters_of);
  parameters_of ? assembler.keep_parameters_of(*parameters_of) : assembler.place_parameters();
  assembler.list_inputs();
  assembler.list_outputs(outputs, rows);
  assembler.list_exchanges(options.kernel.deterministic);
  assembler.assemble_programs(options);
}

}  // namespace tandem
