#include "planner/explain.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/option.h"
#include "base/printable.h"
#include "base/suggest.h"
#include "base/units.h"
#include "graph/operator.h"
#include "planner/place/by_rules.h"
#include "planner/plan/page_table.h"
#include "planner/plan/print.h"

namespace tandem {
namespace {

template <class Parts>
std::string joined(const Parts& parts, std::string_view between = ", ") {
  std::string text;
  for (const auto& part : parts) text += concat(text.empty() ? "" : between, part);
  return text;
}

std::string text_of(const Operand& o) {
  return concat(o.dtype, o.shape, ':', o.layout.opaque() ? "opaque" : o.layout.tag());
}

// A program with who reads and writes each buffer's memory.
struct Program {
  const Plan& plan;
  ProgramId id;
  const DeviceProgram& program;
  double seconds = 0;                              // of its steps
  IdVector<BufferId, std::vector<StepId>> readers, writers;  // by buffer, those of its views with them

  Program(const Plan& p, ProgramId program_id) : plan(p), id(program_id), program(p.programs[program_id]) {
    readers.resize(program.buffers.size());
    writers.resize(program.buffers.size());
    for (StepId s{0}; s.index < std::ssize(program.steps); ++s.index) {
      const Step& step = program.steps[s];
      seconds += step.seconds;
      for (const BufferId b : step.inputs) note(readers, b, s);
      for (const BufferId b : step.outputs) note(writers, b, s);
    }
  }
  // Of views up to the memory: an update writes a parameter under another name.
  void note(IdVector<BufferId, std::vector<StepId>>& lists, BufferId b, StepId s) {
    for (; b.present(); b = program.buffers[b].alias)
      if (lists[b].empty() || lists[b].back() != s) lists[b].push_back(s);
  }
  BufferId root(BufferId b) const {
    while (program.buffers[b].alias.present()) b = program.buffers[b].alias;
    return b;
  }
  std::string devices() const { return names_of(plan, id); }
  std::string name(StepId s) const {
    const Step& step = program.steps[s];
    return concat("step ", s.index, " (", label_of(plan, step), step.origin.empty() ? "" : concat(" of ", step.origin.front()), ")");
  }
  std::string names(const std::vector<StepId>& steps) const {
    constexpr std::size_t most = 6;
    std::vector<std::string> list;
    for (std::size_t i = 0; i < std::min(most, steps.size()); ++i) list.push_back(name(steps[i]));
    return concat(joined(list), steps.size() > most ? concat(" and ", steps.size() - most, " more") : "");
  }
};

class Explainer {
 public:
  Explainer(const Plan& plan, const std::string& pattern, const ExplainContext& context)
      : plan_(plan), pattern_(pattern), context_(context) {
    for (ProgramId p{0}; p.index < std::ssize(plan.programs); ++p.index) programs_.emplace_back(plan, p);
  }

  std::vector<Explanation> run() {
    collect();
    for (const std::string& name : nodes_) list_.push_back(node(name));
    for (const PlanParameter& p : plan_.parameters)
      if (named(p.name)) list_.push_back(parameter(p));
    for (const std::string& name : values_) list_.push_back(value(name));
    if (list_.empty()) {
      const std::vector<std::string> known(known_.begin(), known_.end());
      const std::string near = nearest(pattern_, known);
      fail(ExitCode::usage, option("explain"), " '", pattern_, "': the plan of '", plan_.model,
           "' has no node, value or parameter of this name",
           near.empty() ? "" : concat(", did you mean '", near, "'?"));
    }
    return std::move(list_);
  }

 private:
  bool named(const std::string& name, const std::vector<std::string>& modules = {}) {
    known_.insert(name);
    return names(pattern_, name, modules);
  }

  // Names in the order of the steps, each once.
  void collect() {
    std::set<std::string> seen, parameters;
    for (const PlanParameter& p : plan_.parameters) parameters.insert(p.name);
    const auto add = [&](std::vector<std::string>& to, const std::string& name, const std::vector<std::string>& modules) {
      if (seen.insert(name).second && named(name, modules)) to.push_back(name);
    };
    for (const Program& p : programs_)
      for (const Step& s : p.program.steps)
        for (const std::string& name : s.origin) {
          const auto modules = context_.modules.find(name);
          add(nodes_, name, modules == context_.modules.end() ? std::vector<std::string>() : modules->second);
        }
    if (context_.notes) {
      known_.insert(context_.notes->names().begin(), context_.notes->names().end());
      for (const auto& [name, became] : context_.notes->nodes())
        if (seen.insert(name).second) nodes_.push_back(name);
    }
    seen.insert(parameters.begin(), parameters.end());
    for (const Program& p : programs_)
      for (const Buffer& b : p.program.buffers) add(values_, b.name, {});
  }

  // ---- nodes

  Explanation node(const std::string& name) {
    Explanation e{"node", name, {}};
    became(e, name);
    for (const Program& p : programs_)
      for (StepId s{0}; s.index < std::ssize(p.program.steps); ++s.index)
        if (std::ranges::find(p.program.steps[s].origin, name) != p.program.steps[s].origin.end()) step(e, p, s);
    not_fused(e, name);
    for (const PlanTransfer& t : plan_.transfers)
      if (t.node == name) e.facts.push_back({"transfer", text_of_transfer(t)});
    return e;
  }

  void became(Explanation& e, const std::string& name) {
    if (!context_.notes) return;
    const auto it = context_.notes->nodes().find(name);
    if (it == context_.notes->nodes().end()) return;
    for (const PassNotes::Became& b : it->second)
      e.facts.push_back({b.pass, concat(b.operators.empty() ? "no operator of its own any more" : joined(b.operators),
                                        b.why.empty() ? "" : concat(" (", b.why, ")"))});
    const bool has_steps = std::ranges::any_of(programs_, [&](const Program& p) {
      return std::ranges::any_of(p.program.steps, [&](const Step& s) { return std::ranges::find(s.origin, name) != s.origin.end(); });
    });
    if (!has_steps)
      e.facts.push_back({"steps", it->second.back().operators.empty()
                                      ? "none: it was computed, joined with another or dropped while the plan was made"
                                      : "none: its result is its operand's memory, seen in another shape or order"});
  }

  // What another pass made one kernel of later is left out.
  void not_fused(Explanation& e, const std::string& name) const {
    if (!context_.notes) return;
    for (const PassNotes::Missed& m : context_.notes->missed()) {
      const auto is_of_all = [&](const Step& s) {
        return std::ranges::all_of(m.nodes, [&](const std::string& n) { return std::ranges::find(s.origin, n) != s.origin.end(); });
      };
      if (m.nodes.contains(name) &&
          std::ranges::none_of(programs_, [&](const Program& p) { return std::ranges::any_of(p.program.steps, is_of_all); }))
        e.facts.push_back({"not fused", concat(m.pair, ": ", m.why, " (", m.pass, ")")});
    }
  }

  void step(Explanation& e, const Program& p, StepId s) {
    const Step& step = p.program.steps[s];
    const auto add = [&](std::string what, std::string text) {
      if (!text.empty()) e.facts.push_back({"  " + std::move(what), std::move(text)});
    };
    const auto* launch = step.as<LaunchStep>();
    e.facts.push_back({concat("step ", s.index), concat(label_of(plan_, step), " on ", p.devices(), ", ", time_of(p, step))});
    if (step.origin.size() > 1) add("one kernel of", joined(step.origin));
    if (launch) {
      add("kernel", launch->kernel);
      add("others", alternatives(p, step, *launch));
    }
    if (std::ranges::any_of(step.outputs, [&](BufferId b) { return b.present() && p.program.buffers[b].name.ends_with(" (again)"); }))
      add("recompute", "computed again for the backward pass, so that its result need not be kept");
    for (const BufferId b : step.inputs)
      if (b.present()) add("reads", concat(p.program.buffers[b].name, ' ', place_of(p, b)));
    for (const BufferId b : step.outputs)
      if (b.present())
        add("writes", concat(p.program.buffers[b].name, ' ', place_of(p, b), ", ", life_of(p, b),
                             p.readers[b].empty() ? "" : concat(", read by ", p.names(p.readers[b]))));
    if (step.workspace.present()) add("workspace", text_of_bytes(p.program.buffers[step.workspace].bytes));
    if (const auto* exchange = step.as<ExchangeStep>()) add("exchange", text_of_exchange(plan_.exchanges[exchange->exchange]));
    if (!step.waits.empty()) add("waits for", p.names(step.waits));
  }

  std::string time_of(const Program& p, const Step& step) const {
    std::string text = concat(text_of_seconds(step.seconds), step.measured ? " measured" : " estimated");
    if (p.seconds > 0) text += fmt::format(", {:.1f}% of the steps' time", 100 * step.seconds / p.seconds);
    if (step.flops > 0) text += concat(", ", text_of_count(step.flops), "FLOP");
    if (step.bytes > 0) text += concat(", ", text_of_bytes(static_cast<std::int64_t>(step.bytes)), " moved");
    return text;
  }

  // Other kernels that could do the same from operands as they lie, with their own times.
  std::string alternatives(const Program& p, const Step& step, const LaunchStep& launch) {
    const std::vector<int> devices = plan_.devices_of(p.id);
    const DeviceId& device = plan_.devices[at(devices[0])].device;
    const auto backend = std::ranges::find_if(context_.backends, [&](const Backend* b) { return b->name() == device.backend; });
    if (backend == context_.backends.end()) return "";
    std::unique_ptr<Tuner>& tuner = tuners_[device.backend];
    if (!tuner)
      tuner = std::make_unique<Tuner>(**backend, context_.tuning.autotune && !plan_.options.deterministic, context_.tuning.cache, false,
                                      std::function<void()>(), machine_is_quiet, context_.tuning.without);
    KernelRequest request{.op = launch.op, .attributes = &launch.attributes, .options = plan_.options};
    for (const BufferId b : step.inputs) request.inputs.push_back(b.present() ? p.program.buffers[b].operand : Operand{});
    for (const BufferId b : step.outputs) {
      Operand o = b.present() ? p.program.buffers[b].operand : Operand{};
      if (o.present() && !o.layout.opaque()) o.layout = {};
      request.outputs.push_back(std::move(o));
    }
    if (p.program.model.threads > 0) request.options.threads = p.program.model.threads;
    request.options.multiprocessors = p.program.model.multiprocessors;
    request.options.device = device.index;
    std::map<std::string, Cost> others;  // the shortest of each name
    try {
      const std::vector<KernelDescription>& all = tuner->describe(request);
      for (const std::size_t i : tuner->promising(all, step.flops, p.program.model)) {
        if (all[i].kernel == launch.kernel) continue;
        const Cost cost = tuner->cost(request, all[i], step.flops, p.program.model);
        const auto [it, fresh] = others.emplace(all[i].kernel, cost);
        if (!fresh && cost.seconds < it->second.seconds) it->second = cost;
      }
      if (others.empty())
        return all.size() > 1 ? "none that is estimated near it" : "none: the backend has no other kernel of this operator";
    } catch (const Error&) {
      return "";
    }
    std::vector<std::string> list;
    for (const auto& [kernel, cost] : others)
      list.push_back(concat(kernel, ' ', text_of_seconds(cost.seconds), cost.measured ? " measured" : " estimated"));
    return joined(list);
  }

  // ---- values

  std::string place_of(const Program& p, BufferId b) const {
    const Buffer& buffer = p.program.buffers[b];
    return concat(text_of(buffer.operand), buffer.placement.empty() ? "" : concat(' ', buffer.placement), ", in ", name_of(buffer.arena),
                  " at ", buffer.offset, buffer.in_slot ? " of a slot" : "");
  }

  std::string life_of(const Program& p, BufferId b) const {
    const Buffer& memory = p.program.buffers[p.root(b)];
    if (memory.arena != ArenaKind::scratch) return "kept";
    return concat(text_of_bytes(memory.bytes), " alive in steps ", memory.first.index, "-", memory.last.index);
  }

  Explanation value(const std::string& name) {
    Explanation e{"value", name, {}};
    for (const HostInput& input : plan_.inputs)
      if (input.name == name) e.facts.push_back({"given as", concat(input.type, input.batched ? ", sliced by samples" : ", whole")});
    for (const HostOutput& output : plan_.outputs)
      if (output.name == name)
        e.facts.push_back({"given back", concat(output.type, output.combine == Combine::rows ? ", rows joined" : ", summed")});
    for (const Program& p : programs_)
      for (BufferId b{0}; b.index < std::ssize(p.program.buffers); ++b.index)
        if (p.program.buffers[b].name == name) buffer(e, p, b);
    const auto copies = copies_of(name);
    if (!copies.empty()) e.facts.push_back({"copies", joined(copies)});
    moves(e, name);
    return e;
  }

  void buffer(Explanation& e, const Program& p, BufferId b) {
    const Buffer& buffer = p.program.buffers[b];
    const auto add = [&](std::string what, std::string text) {
      if (!text.empty()) e.facts.push_back({"  " + std::move(what), std::move(text)});
    };
    e.facts.push_back(
        {concat("on ", p.devices()), concat(place_of(p, b), ", ", text_of_bytes(buffer.bytes), " of ", name_of(buffer.memory))});
    if (buffer.alias.present()) add("memory of", p.program.buffers[p.root(b)].name);
    add("alive", p.program.buffers[p.root(b)].arena == ArenaKind::scratch
                     ? concat("from ", p.name(p.program.buffers[p.root(b)].first), " to ", p.name(p.program.buffers[p.root(b)].last))
                     : "the whole time");
    add("written by", p.names(p.writers[b]));
    add("read by", p.names(p.readers[b]));
  }

  // What is computed again, or comes back from another device.
  std::set<std::string> copies_of(const std::string& name) const {
    std::set<std::string> copies;
    for (const Program& p : programs_)
      for (const Buffer& b : p.program.buffers)
        if (b.name == name + " (again)" || b.name == name + " (back)")
          copies.insert(concat("'", b.name, "': ", b.name.ends_with("(again)") ? "it is computed again for the backward pass"
                                                                               : "another device keeps it until the backward pass"));
    return copies;
  }

  void moves(Explanation& e, const std::string& name) const {
    for (const PlanTransfer& t : plan_.transfers)
      if (t.value == name) e.facts.push_back({"transfer", text_of_transfer(t)});
    for (const Exchange& x : plan_.exchanges)
      if (std::ranges::find(x.values, name) != x.values.end()) e.facts.push_back({"exchange", text_of_exchange(x)});
  }

  static std::string text_of_transfer(const PlanTransfer& t) {
    return concat(name_of(t.kind), " of ", t.value, t.node.empty() ? "" : concat(" for ", t.node), ", ", text_of_bytes(t.bytes),
                  t.axis.empty() ? ", between groups" : concat(" along ", t.axis), t.reason.empty() ? "" : concat(": ", t.reason));
  }

  std::string text_of_exchange(const Exchange& x) const {
    std::vector<DeviceId> devices;
    for (const int d : x.row(0)) devices.push_back(plan_.devices[at(d)].device);
    return concat(x.name, ", ", name_of(x.kind), " among ", names_of(devices), x.rows > 1 ? concat(" and ", x.rows - 1, " rows more") : "",
                  ", ", text_of_bytes(x.elements * static_cast<std::int64_t>(size_of(x.dtype))), ", ", text_of_seconds(x.seconds));
  }

  // ---- parameters

  Explanation parameter(const PlanParameter& p) {
    Explanation e{p.role == ValueRole::plain ? "parameter" : std::string(name_of(p.role)), p.name, {}};
    const auto add = [&](std::string what, std::string text) { e.facts.push_back({std::move(what), std::move(text)}); };
    add("type", to_string(p.type));
    if (!p.of.empty()) add("of", p.of);
    if (plan_.mode == PlanMode::training && p.role == ValueRole::plain) add("trained", p.trainable ? "yes" : "no");
    for (const ProgramPart& part : p.parts) {
      std::vector<std::string> cuts;
      for (const ProgramRange& r : part.ranges) cuts.push_back(concat("axis ", r.axis, " in parts of ", r.size));
      add(concat("on ", names_of(plan_, part.program)),
          concat(text_of(part.operand), ", ", cuts.empty() ? "whole" : joined(cuts), ", in ", name_of(p.arena), " at ", part.offset, ", ",
                 text_of_bytes(part.operand.bytes())));
    }
    for (const Program& program : programs_)
      for (BufferId b{0}; b.index < std::ssize(program.program.buffers); ++b.index) {
        const Buffer& buffer = program.program.buffers[b];
        if (buffer.name != p.name || (program.readers[b].empty() && program.writers[b].empty())) continue;
        const bool one = programs_.size() == 1;
        if (!program.readers[b].empty()) add(one ? "read by" : concat("read on ", program.devices()), program.names(program.readers[b]));
        if (!program.writers[b].empty())
          add(one ? "updated by" : concat("updated on ", program.devices()), program.names(program.writers[b]));
      }
    moves(e, p.name);
    return e;
  }

  const Plan& plan_;
  const std::string& pattern_;
  const ExplainContext& context_;
  std::vector<Program> programs_;
  std::map<std::string, std::unique_ptr<Tuner>> tuners_;  // by backend
  std::vector<std::string> nodes_, values_;
  std::set<std::string> known_;
  std::vector<Explanation> list_;
};

}  // namespace

std::vector<Explanation> explain(const Plan& plan, const std::string& pattern, const ExplainContext& context) {
  return Explainer(plan, pattern, context).run();
}

std::string text_of(const std::vector<Explanation>& explanations) {
  constexpr std::size_t most = 30;
  std::string out;
  for (std::size_t i = 0; i < std::min(most, explanations.size()); ++i) {
    const Explanation& e = explanations[i];
    out += concat(out.empty() ? "" : "\n", e.kind, ' ', e.name, "\n");
    std::size_t width = 0;
    for (const Explanation::Fact& f : e.facts) width = std::max(width, f.what.size());
    for (const Explanation::Fact& f : e.facts)
      out += wrapped(concat("  ", f.what, std::string(width + 2 - f.what.size(), ' ')), f.text) + "\n";
  }
  if (explanations.size() > most)
    out += concat("\nand ", explanations.size() - most, " more: ", option("explain"), " of a narrower pattern, or as JSON\n");
  return printable(out, Lines::kept);
}

Json json_of(const std::vector<Explanation>& explanations) {
  Json::Array list;
  for (const Explanation& e : explanations) {
    Json::Array facts;
    for (const Explanation::Fact& f : e.facts) {
      const std::size_t begin = f.what.find_first_not_of(' ');
      facts.push_back(Json::Object{{"what", f.what.substr(begin)}, {"text", f.text}});
    }
    list.push_back(Json::Object{{"kind", e.kind}, {"name", e.name}, {"facts", std::move(facts)}});
  }
  return list;
}

}  // namespace tandem
