#include "planner/memory/assemble.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "planner/plan/timeline.h"

namespace tandem {
namespace {

bool has_batch(const TensorType& t, std::int64_t samples) { return t.shape.rank() > 0 && t.shape[0] == samples; }

// A ring moves every byte of a sum twice over each link, less its own share; few bytes cost no less than a kernel does.
double seconds_of(const Exchange& exchange, const DeviceModel& device) {
  if (device.link_bandwidth <= 0) return 0;
  const double bytes = static_cast<double>(exchange.elements) * static_cast<double>(size_of(exchange.dtype));
  const double members = static_cast<double>(exchange.devices.size());
  double moved = bytes;
  if (is_in_place(exchange.kind)) moved = 2 * bytes * (members - 1) / members;
  if (exchange.kind == ExchangeKind::all_to_all) moved = bytes * (members - 1) / members / members;
  if (exchange.kind == ExchangeKind::reduce_scatter || exchange.kind == ExchangeKind::all_gather) moved = bytes * (members - 1) / members;
  return device.launch_seconds + moved / device.link_bandwidth;
}

class PlanAssembler {
 public:
  PlanAssembler(Plan& plan, const std::vector<Replica>& replicas) : plan_(plan), replicas_(replicas) {
    for (const Replica& r : replicas) leader_first_.push_back(&r);
    const auto more = [](const Replica* a, const Replica* b) { return a->slice_size < b->slice_size; };
    const auto leader = std::max_element(leader_first_.begin(), leader_first_.end(), more);
    std::rotate(leader_first_.begin(), leader, std::next(leader));
  }

  void list_inputs() {
    for (const Replica* r : leader_first_)
      for (const LoweredInput& in : r->program->inputs) {
        if (std::any_of(plan_.inputs.begin(), plan_.inputs.end(), [&](const HostInput& h) { return in.feeds(h); })) continue;
        const Operand& o = r->program->buffers[in.buffer].operand;
        HostInput host{.name = in.name, .type = {o.dtype, o.shape}, .role = in.role, .of = in.of};
        host.batched = !in.is_state() && !in.whole && has_batch(host.type, r->slice_size);
        if (host.batched) host.type.shape[0] = plan_.batch;
        plan_.inputs.push_back(std::move(host));
      }
  }

  void list_outputs(const std::vector<HostOutput>& outputs, std::span<const std::int64_t> rows) {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      HostOutput host = outputs[i];
      host.combine = rows[i] > 0 ? Combine::rows : Combine::sum;
      host.parts = 0;
      for (const Replica* r : leader_first_)
        for (std::size_t o = 0; o < r->program->outputs.size(); ++o) {
          if (r->output(o) != static_cast<int>(i)) continue;
          const Operand& operand = r->program->buffers[r->program->outputs[o]].operand;
          if (host.parts++ == 0) host.type = {operand.dtype, operand.shape};
        }
      if (rows[i] > 0) {
        host.parts = 1;
        host.type.shape[0] = rows[i] * plan_.batch;
      }
      plan_.outputs.push_back(std::move(host));
    }
  }

  void list_exchanges() {
    std::vector<int> all(replicas_.size());
    std::iota(all.begin(), all.end(), 0);
    for (const Replica* r : leader_first_)
      for (const Exchange& e : r->program->exchanges) {
        if (std::any_of(plan_.exchanges.begin(), plan_.exchanges.end(), [&](const Exchange& x) { return x.name == e.name; })) continue;
        Exchange& exchange = plan_.exchanges.emplace_back(e);
        if (exchange.devices.empty()) exchange.devices = all;
        for (const int d : exchange.devices)
          exchange.seconds = std::max(exchange.seconds, seconds_of(exchange, replicas_[static_cast<std::size_t>(d)].model));
      }
  }

  // On every device its parameters lie one behind the other, in the order of the plan's.
  void place_parameters() {
    std::map<ParameterKey, std::size_t> index;
    for (const Replica* r : leader_first_)
      for (const LoweredParameter& p : r->program->parameters)
        if (index.emplace(p.key(), plan_.parameters.size()).second)
          plan_.parameters.push_back({p.name, p.type, p.source, r->program->buffers[p.buffer].arena, {}, p.trainable, p.role, p.of});
    for (std::size_t d = 0; d < replicas_.size(); ++d) {
      std::vector<std::pair<const LoweredParameter*, const Buffer*>> own(plan_.parameters.size());
      const auto keep = [&](const LoweredGraph& program, bool parts) {
        for (const LoweredParameter& p : program.parameters)
          if (auto& kept = own[index.at(p.key())]; !kept.first && (parts || p.ranges.empty())) kept = {&p, &program.buffers[p.buffer]};
      };
      keep(*replicas_[d].program, true);
      // A device without samples keeps what the others keep whole: another batch may have some for it.
      if (replicas_[d].slice_size == 0) keep(*leader_first_[0]->program, false);
      std::int64_t ends[std::size(arena_kinds)] = {};
      for (std::size_t p = 0; p < own.size(); ++p) {
        const auto& [parameter, buffer] = own[p];
        if (!parameter) continue;
        auto& end = ends[static_cast<std::size_t>(plan_.parameters[p].arena)];
        plan_.parameters[p].parts.push_back({static_cast<int>(d), buffer->operand, end, parameter->ranges});
        end += buffer->bytes;
      }
    }
  }

  void keep_parameters_of(const Plan& other) {
    plan_.parameters = other.parameters;
    std::set<ParameterKey> known, own;
    for (const PlanParameter& p : plan_.parameters) known.insert(p.key());
    for (const Replica& r : replicas_)
      for (const LoweredParameter& p : r.program->parameters) {
        if (!known.count(p.key())) fail("parameter '", p.name, "' is not in the plan this one shares parameters with");
        own.insert(p.key());
      }
    if (plan_.mode == PlanMode::inference) return;
    for (const PlanParameter& p : plan_.parameters)
      if (p.role == ValueRole::copy && !own.count(p.key()))
        fail("parameter '", p.name, "' of the plan this one shares parameters with would not follow '", p.of, "'");
  }

 private:
  Plan& plan_;
  const std::vector<Replica>& replicas_;
  std::vector<const Replica*> leader_first_;  // the one with the most samples says in which order things stand
};

}  // namespace

void assemble(Plan& plan, const std::vector<Replica>& replicas, const std::vector<HostOutput>& outputs, std::span<const std::int64_t> rows,
              const CompileOptions& options, const Plan* parameters_of) {
  PlanAssembler assembler(plan, replicas);
  parameters_of ? assembler.keep_parameters_of(*parameters_of) : assembler.place_parameters();
  assembler.list_inputs();
  assembler.list_outputs(outputs, rows);
  assembler.list_exchanges();
  for (std::size_t d = 0; d < replicas.size(); ++d)
    plan.devices.push_back(assemble_device(plan, static_cast<int>(d), replicas[d], rows, options));
  for (const Timeline& t : timelines_of(plan)) plan.seconds = std::max(plan.seconds, t.seconds);
}

}  // namespace tandem
