#include <map>

#include "planner/plan/verify.h"

namespace tandem {
namespace {

// Nothing here trusts an index: a hostile file comes through here too.
class StructureVerifier {
 public:
  StructureVerifier(const Plan& plan, const DevicePlan& device, Breaches& breaches)
      : plan_(plan), device_(device), breaches_(device, breaches) {}

  Structure run() {
    if (!check_arenas()) return {};
    check_parameters();
    const bool whole = check_buffers() && check_steps();
    return {whole, std::move(roots_)};
  }

 private:
  bool sound() const { return breaches_.count() == 0; }
  const Buffer& at(BufferId id) const { return device_.buffers[static_cast<std::size_t>(id.index)]; }
  bool exists(BufferId id) const { return id.index >= 0 && id.index < static_cast<int>(device_.buffers.size()); }
  std::int64_t arena_bytes(ArenaKind k) const { return device_.arenas[static_cast<std::size_t>(k)].bytes; }

  bool check_arenas() {
    bool right = device_.arenas.size() == std::size(arena_kinds);
    for (std::size_t i = 0; right && i < std::size(arena_kinds); ++i) right = device_.arenas[i].kind == arena_kinds[i];
    if (!right) {
      breaches_.add("arenas are not parameters, optimizer, gradients, scratch, constants, staging");
      return false;
    }
    for (const Arena& a : device_.arenas) {
      if (a.bytes < 0 || a.bytes > std::int64_t{1} << 56 || a.bytes % plan_alignment != 0)
        breaches_.add("arena ", name_of(a.kind), " has ", a.bytes, " bytes, expected a multiple of ", plan_alignment);
      if (a.lower_bound < 0 || a.lower_bound > a.bytes)
        breaches_.add("arena ", name_of(a.kind), ": lower bound ", a.lower_bound, " is outside 0 to ", a.bytes);
    }
    return true;
  }

  bool check_buffers() {
    const int steps = static_cast<int>(device_.steps.size());
    for (int i = 0; i < static_cast<int>(device_.buffers.size()); ++i) {
      const Buffer& b = device_.buffers[static_cast<std::size_t>(i)];
      if (const std::string reason = problem_of(b.operand); !reason.empty()) {
        breaches_.add(breaches_.buffer(i), ": ", reason);
        continue;
      }
      if (b.offset < 0 || b.offset % plan_alignment != 0)
        breaches_.add(breaches_.buffer(i), " lies at ", b.offset, ", expected a multiple of ", plan_alignment);
      if (b.bytes < b.operand.bytes() || b.bytes % plan_alignment != 0)
        breaches_.add(breaches_.buffer(i), " has ", b.bytes, " bytes, expected a multiple of ", plan_alignment, " that holds ",
                      b.operand.bytes());
      else if (b.offset >= 0 && (b.offset > arena_bytes(b.arena) || b.bytes > arena_bytes(b.arena) - b.offset))
        breaches_.add(breaches_.buffer(i), " ends at ", b.offset, "+", b.bytes, ", past arena ", name_of(b.arena), "'s ",
                      arena_bytes(b.arena), " bytes");
      if (b.arena == ArenaKind::scratch && (b.first.index < 0 || b.last < b.first || b.last.index >= steps))
        breaches_.add(breaches_.buffer(i), " lives from step ", b.first.index, " to ", b.last.index, " of ", steps);
      if (b.alias.index < -1 || b.alias.index >= static_cast<int>(device_.buffers.size()) || b.alias.index == i)
        breaches_.add(breaches_.buffer(i), " shares buffer ", b.alias.index, ", which does not exist");
      if (b.constant) {
        const TensorType type{b.operand.dtype, b.operand.shape};
        if (b.constant->type() != type) breaches_.add(breaches_.buffer(i), " of ", type, " has a constant of ", b.constant->type());
        if (b.arena != ArenaKind::constants)
          breaches_.add(breaches_.buffer(i), " is a constant in arena ", name_of(b.arena), ", expected constants");
        if (b.operand.layout.opaque()) breaches_.add(breaches_.buffer(i), " is a constant with layout ", b.operand.layout);
      }
    }
    return find_roots();
  }

  // roots_[i]: the buffer whose memory buffer i shares, itself where it has its own.
  bool find_roots() {
    const int n = static_cast<int>(device_.buffers.size());
    roots_.assign(static_cast<std::size_t>(n), -2);
    for (int i = 0; i < n && sound(); ++i) {
      std::vector<int> chain;
      int b = i;
      while (roots_[static_cast<std::size_t>(b)] == -2) {
        roots_[static_cast<std::size_t>(b)] = -1;  // on the chain
        chain.push_back(b);
        const int next = device_.buffers[static_cast<std::size_t>(b)].alias.index;
        if (next < 0) {
          roots_[static_cast<std::size_t>(b)] = b;
          break;
        }
        b = next;
      }
      if (roots_[static_cast<std::size_t>(b)] == -1) {
        breaches_.add(breaches_.buffer(i), " shares memory with itself");
        return false;
      }
      for (const int c : chain) roots_[static_cast<std::size_t>(c)] = roots_[static_cast<std::size_t>(b)];
    }
    for (int i = 0; i < n && sound(); ++i) {
      const Buffer& b = device_.buffers[static_cast<std::size_t>(i)];
      const Buffer& r = device_.buffers[static_cast<std::size_t>(roots_[static_cast<std::size_t>(i)])];
      if (b.arena != r.arena || b.offset < r.offset || b.offset + b.bytes > r.offset + r.bytes)
        breaches_.add(breaches_.buffer(i), " lies outside ", breaches_.buffer(roots_[static_cast<std::size_t>(i)]),
                      " whose memory it shares");
    }
    return sound();
  }

  bool check_steps() {
    for (std::size_t s = 0; s < device_.steps.size(); ++s) {
      const Step& step = device_.steps[s];
      const auto operand = [&](BufferId id, bool optional) {
        if (!exists(id) && !(optional && id.index == -1))
          breaches_.add(breaches_.step(s), " names buffer ", id.index, ", which does not exist");
      };
      for (const BufferId id : step.inputs) operand(id, step.kind == StepKind::launch);
      for (const BufferId id : step.outputs) operand(id, step.kind == StepKind::launch);
      operand(step.workspace, true);
      for (const auto* list : {&step.inputs, &step.outputs})
        for (const BufferId id : *list)
          if (exists(id) && at(id).arena == ArenaKind::staging)
            breaches_.add(breaches_.step(s), " names ", breaches_.buffer(id.index), " in arena staging, where the next batch may lie");
      if (step.stream < 0 || step.stream >= plan_streams)
        breaches_.add(breaches_.step(s), " runs on stream ", step.stream, ", expected 0 to ", plan_streams - 1);
      for (const StepId w : step.waits)
        if (w.index < 0 || w.index >= static_cast<int>(s))
          breaches_.add(breaches_.step(s), " waits for step ", w.index, ", which is not issued before it");
    }
    if (!sound()) return false;
    for (std::size_t s = 0; s < device_.steps.size(); ++s) check_kind(s);
    return sound();
  }

  void check_kind(std::size_t s) {
    const Step& step = device_.steps[s];
    const auto counts = [&](std::size_t inputs, std::size_t outputs) {
      if (step.inputs.size() == inputs && step.outputs.size() == outputs) return true;
      breaches_.add(breaches_.step(s), " has ", step.inputs.size(), " inputs and ", step.outputs.size(), " outputs, expected ", inputs,
                    " and ", outputs);
      return false;
    };
    switch (step.kind) {
      case StepKind::launch:
        if (step.op.empty() || step.kernel.empty()) breaches_.add(breaches_.step(s), " names no operator or no kernel");
        break;
      case StepKind::slice:
        if (!counts(0, 1)) break;
        if (step.host < 0 || step.host >= static_cast<int>(plan_.inputs.size())) {
          breaches_.add(breaches_.step(s), " reads input ", step.host, " of ", plan_.inputs.size());
          break;
        }
        {
          const HostInput& input = plan_.inputs[static_cast<std::size_t>(step.host)];
          check_host(s, input.name, input.type, input.batched, step.outputs[0]);
        }
        check_staging(s);
        break;
      case StepKind::concat:
        if (!counts(1, 0)) break;
        if (step.host < 0 || step.host >= static_cast<int>(plan_.outputs.size())) {
          breaches_.add(breaches_.step(s), " writes output ", step.host, " of ", plan_.outputs.size());
          break;
        }
        {
          const HostOutput& output = plan_.outputs[static_cast<std::size_t>(step.host)];
          check_host(s, output.name, output.type, output.combine == Combine::rows, step.inputs[0]);
        }
        break;
      case StepKind::all_reduce: {
        if (step.outputs.size() != 1 || step.inputs.size() > 1) {
          breaches_.add(breaches_.step(s), " has ", step.inputs.size(), " inputs and ", step.outputs.size(),
                        " outputs, expected one buffer in place");
          break;
        }
        if (step.bucket < 0 || step.bucket >= static_cast<int>(plan_.buckets.size())) {
          breaches_.add(breaches_.step(s), " names bucket ", step.bucket, " of ", plan_.buckets.size());
          break;
        }
        const Bucket& bucket = plan_.buckets[static_cast<std::size_t>(step.bucket)];
        const Buffer& b = at(step.outputs[0]);
        if (step.inputs.size() == 1 && (at(step.inputs[0]).arena != b.arena || at(step.inputs[0]).offset != b.offset))
          breaches_.add(breaches_.step(s), " reads another buffer than it writes");
        const std::int64_t held = b.bytes / static_cast<std::int64_t>(size_of(b.operand.dtype));
        if (bucket.dtype != b.operand.dtype || bucket.elements < 0 || bucket.elements > held)
          breaches_.add(breaches_.step(s), " sums ", bucket.elements, " ", bucket.dtype, " values in ",
                        breaches_.buffer(step.outputs[0].index), " of ", b.operand);
        break;
      }
    }
  }

  // A buffer that holds this device's part of a host tensor.
  void check_host(std::size_t s, const std::string& host, const TensorType& type, bool rows, BufferId id) {
    const Buffer& b = at(id);
    Shape wanted = type.shape;
    if (rows && wanted.rank() > 0) wanted[0] = wanted[0] / std::max<std::int64_t>(1, plan_.batch) * device_.slice_size;
    if (b.operand.dtype != type.dtype || b.operand.shape != wanted || !b.operand.layout.is_row_major())
      breaches_.add(breaches_.step(s), ": ", breaches_.buffer(id.index), " is ", b.operand, ", but '", brief(host), "' has ",
                    TensorType{type.dtype, wanted}, " here, row-major");
  }

  // A batch that comes ahead of its step may lie only where no step writes.
  void check_staging(std::size_t s) {
    const Step& step = device_.steps[s];
    if (!step.workspace.present()) return;
    const Buffer &to = at(step.outputs[0]), &staging = at(step.workspace);
    if (staging.arena != ArenaKind::staging || staging.bytes < to.operand.bytes() || step.stream != 0)
      breaches_.add(breaches_.step(s), " of ", to.operand.bytes(), " bytes on stream ", step.stream, " comes by way of ",
                    breaches_.buffer(step.workspace.index), " of ", staging.bytes, " bytes in arena ", name_of(staging.arena),
                    ", expected as many in arena staging, and stream 0");
  }

  void check_parameters() {
    std::map<std::pair<ArenaKind, std::int64_t>, std::pair<std::int64_t, const PlanParameter*>> placed;
    for (const PlanParameter& p : plan_.parameters) {
      if (!problem_of(p.operand).empty()) continue;  // said once for the whole plan
      if (p.offset < 0 || p.offset % plan_alignment != 0 || p.offset > arena_bytes(p.arena) ||
          p.operand.bytes() > arena_bytes(p.arena) - p.offset) {
        breaches_.add("parameter '", brief(p.name), "' lies at ", p.offset, "+", p.operand.bytes(), ", outside arena ", name_of(p.arena),
                      "'s ", arena_bytes(p.arena), " bytes");
        continue;
      }
      if (p.operand.bytes() == 0) continue;
      const auto [it, fresh] = placed.try_emplace({p.arena, p.offset}, p.operand.bytes(), &p);
      const auto clash = [&](const PlanParameter& other) {
        breaches_.add("parameter '", brief(p.name), "' overlaps parameter '", brief(other.name), "'");
      };
      if (!fresh) {
        clash(*it->second.second);
        continue;
      }
      const auto after = std::next(it);
      if (after != placed.end() && after->first.first == p.arena && after->first.second < p.offset + p.operand.bytes())
        clash(*after->second.second);
      if (it != placed.begin()) {
        const auto before = std::prev(it);
        if (before->first.first == p.arena && before->first.second + before->second.first > p.offset) clash(*before->second.second);
      }
    }
  }

  const Plan& plan_;
  const DevicePlan& device_;
  DeviceBreaches breaches_;
  std::vector<int> roots_;
};

}  // namespace

Structure verify_structure(const Plan& plan, const DevicePlan& device, Breaches& breaches) {
  return StructureVerifier(plan, device, breaches).run();
}

}  // namespace tandem
