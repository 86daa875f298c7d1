// From nodes to steps: for each node, in order, the kernel and the layouts that cost least, counting the conversions that
// they would need of operands as they lie.
#include <algorithm>

#include "graph/operator.h"
#include "graph/views.h"
#include "planner/lower/value_forms.h"

namespace tandem {
namespace {

class Selector {
 public:
  Selector(const Graph& graph, const Backend& backend, const SelectOptions& options, Tuner& tuner)
      : graph_(graph), options_(options), tuner_(tuner), backend_(backend), values_(graph, backend, options, tuner, program_) {}

  LoweredGraph run() {
    for (const ValueId in : graph_.inputs) {
      const BufferId b = values_.add(in, values_.row_major(in), MemoryClass::inputs);
      const Placement& placed = graph_[in].placement;
      const auto is_split = [](const Part& p) { return p.is_split(); };
      const bool whole = placed.group >= 0 && std::none_of(placed.parts.begin(), placed.parts.end(), is_split);
      program_.inputs.push_back({graph_[in].name, b, graph_[in].role, graph_[in].of, whole});
    }
    for (const Node& node : graph_.nodes) {
      const Phased phased(program_, node);
      values_.set_origin(node.origin);
      if (node.op->name == "Reshape" && reshape(node)) continue;
      if (node.op->name == "Transpose" && transpose(node)) continue;
      if (node.op->name == "Cast" && values_.cast_of(node.outputs[0]).present()) continue;
      if (node.op->moves == Moves::sum)
        all_reduce(node);
      else if (is_exchange(node))
        exchange(node);
      else
        launch(node);
    }
    static const std::vector<std::string> none;
    values_.set_origin(none);
    for (const ValueId out : graph_.outputs) program_.outputs.push_back(values_.form(out, values_.row_major(out).layout));
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      const Value& v = graph_.values[i];
      if (v.kind != ValueKind::parameter) continue;
      const ValueId id{static_cast<int>(i)};
      if (values_.of(id).empty()) values_.add_unused_parameter(id);
      program_.parameters.push_back({v.name, values_.of(id)[0], {v.type.dtype, v.template_shape}, v.source, v.trainable, v.role, v.of});
    }
    for (const Step& s : program_.steps) program_.seconds += s.seconds;
    for (const auto& [steps, why] : {std::pair{&widened_, "has no 16-bit kernel for these steps, which run in float32 between casts: "},
                                     std::pair{&faster_wide_, "runs these steps in less time in float32 between casts: "}}) {
      std::string list;
      for (const auto& [op, count] : *steps) list += concat(list.empty() ? "" : ", ", count, " ", op);
      if (!list.empty()) program_.warnings.push_back(concat("backend ", backend_.name(), ' ', why, list));
    }
    return std::move(program_);
  }

 private:
  // The steps of a node are of its phase.
  struct Phased {
    Phased(LoweredGraph& p, const Node& n) : program(p), node(n), first(p.steps.size()) {}
    ~Phased() {
      for (std::size_t s = first; s < program.steps.size(); ++s) {
        program.steps[s].phase = node.phase;
        program.steps[s].chunk = node.chunk;
      }
    }
    LoweredGraph& program;
    const Node& node;
    const std::size_t first;
  };

  bool reshape(const Node& node) {
    const ValueId x = node.inputs[0], y = node.outputs[0];
    if (values_.summed(y)) return false;
    Operand to = values_.row_major(y);
    values_.first(x);
    for (const BufferId b : values_.of(x)) {
      const std::optional<Layout> layout = reshaped(values_.operand(b).shape, values_.operand(b).layout, to.shape);
      if (!layout) continue;
      to.layout = *layout;
      values_.add(y, to, MemoryClass::activations, b);
      return true;
    }
    values_.add(y, to, MemoryClass::activations, values_.form(x, Layout::row_major(graph_[x].type.shape.rank())));
    return true;
  }

  bool transpose(const Node& node) {
    const ValueId x = node.inputs[0], y = node.outputs[0];
    if (values_.summed(y)) return false;
    const BufferId b = values_.first(x);
    Operand to = values_.row_major(y);
    to.layout = transposed(values_.operand(b).layout, node.attributes.ints("perm"));
    values_.add(y, to, MemoryClass::activations, b);
    return true;
  }

  static ExchangeKind kind_of(const Node& node) {
    switch (node.op->moves) {
      case Moves::sum: return node.attributes.has("max") ? ExchangeKind::all_max : ExchangeKind::all_reduce;
      case Moves::gather: return node.attributes.has("swap") ? ExchangeKind::all_to_all : ExchangeKind::all_gather;
      case Moves::scatter: return ExchangeKind::reduce_scatter;
      default: return ExchangeKind::send;
    }
  }

  // Whole rows of what lies row by row; the compute stream waits for it.
  void exchange(const Node& node) {
    Exchange e = named(node);
    std::vector<BufferId> in, out;
    const std::size_t first = program_.steps.size();
    for (const ValueId v : node.inputs) in.push_back(values_.form(v, values_.row_major(v).layout));
    for (std::size_t s = first; s < program_.steps.size(); ++s) program_.turned_seconds += program_.steps[s].seconds;
    for (const ValueId v : node.outputs)
      if (v.present()) out.push_back(values_.add(v, values_.row_major(v), MemoryClass::activations));
    for (const auto* list : {&in, &out})
      for (const BufferId b : *list) {
        e.dtype = values_.operand(b).dtype;
        e.elements = std::max(e.elements, values_.operand(b).shape.elements());
      }
    program_.steps.push_back({.what = ExchangeStep{program_.exchanges.add(std::move(e))},
                              .inputs = std::move(in),
                              .outputs = std::move(out),
                              .origin = node.origin});
    program_.in_place.emplace_back();
  }

  // As the cut has named it and its members; else it is a bucket of all devices.
  Exchange named(const Node& node) const {
    Exchange e{.kind = kind_of(node), .name = node.attributes.text("exchange", concat("bucket ", program_.exchanges.size()))};
    for (const std::int64_t d : node.attributes.ints("devices", {})) e.devices.push_back(static_cast<int>(d));
    e.rows = static_cast<int>(node.attributes.integer("rows", 1));
    return e;
  }

  // In place, in a bucket of all that the node sums. Activations live as long as they are read, weights' gradients till the update.
  void all_reduce(const Node& node) {
    Exchange bucket = named(node);
    bucket.dtype = graph_[node.inputs[0]].type.dtype;
    std::vector<BufferId> parts;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      parts.push_back(part_of_sum(node.inputs[i], node.outputs[i]));
      const Value& whole = graph_[node.outputs[i]];
      bucket.values.push_back(whole.of.empty() ? whole.name : whole.of);
    }
    const auto is_gradient = [&](ValueId v) { return !graph_[v].of.empty() || values_.follows(v).present(); };
    const auto memory = std::ranges::any_of(node.outputs, is_gradient) ? MemoryClass::gradients : MemoryClass::activations;
    const BufferId all = values_.gather(bucket, parts, memory);
    for (std::size_t i = 0; i < parts.size(); ++i) values_.add(node.outputs[i], values_.operand(parts[i]), memory, parts[i]);
    const ExchangeStep sum{program_.exchanges.add(std::move(bucket))};
    program_.steps.push_back({.what = sum, .outputs = {all}, .stream = communication_stream, .origin = node.origin});
    program_.in_place.emplace_back();
  }

  // The memory in which a value is summed: its own, or a copy where others read it, too.
  BufferId part_of_sum(ValueId part, ValueId whole) {
    if (values_.summed(part)) return values_.of(part).at(0);
    const ValueId owner = values_.follows(whole);
    const Layout layout = owner.present() ? values_.requested(owner).layout : values_.row_major(part).layout;
    const BufferId from = values_.form(part, layout.any() ? values_.row_major(part).layout : layout);
    const BufferId copy = values_.reorder(part, from, values_.operand(from));
    values_.of(part).pop_back();  // it is the sum's
    return copy;
  }

  void launch(const Node& node) {
    const std::string_view op = node.op->runs_as.empty() ? node.op->name : node.op->runs_as;
    KernelRequest request{op, &node.attributes, {}, {}, options_.kernel};
    for (const ValueId in : node.inputs) request.inputs.push_back(values_.requested(in));
    for (const ValueId out : node.outputs) request.outputs.push_back(wanted_output(out));
    const double flops = flops_of(graph_, node);
    const Choice choice = chosen(node, request, flops);
    const KernelDescription& chosen = choice.kernel;

    Step step{.what = LaunchStep{std::string(op), chosen.kernel, node.attributes}, .origin = node.origin};
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      const ValueId in = node.inputs[k];
      step.inputs.push_back(in.present() ? values_.form(in, chosen.inputs[k].layout) : BufferId{});
      if (choice.widened && in.present() && values_.operand(step.inputs.back()).dtype != chosen.inputs[k].dtype)
        step.inputs.back() = wide(in, step.inputs.back(), chosen.inputs[k]);
    }
    std::vector<std::pair<BufferId, BufferId>> casts;  // of float32 results to what the graph has
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      const ValueId out = node.outputs[k];
      if (!out.present() || graph_[out].opaque || graph_[out].type.dtype == chosen.outputs[k].dtype) {
        step.outputs.push_back(output(node, k, chosen, request));
        continue;
      }
      Operand narrow = chosen.outputs[k];
      narrow.dtype = graph_[out].type.dtype;
      const BufferId named = values_.add(out, narrow, MemoryClass::activations);
      step.outputs.push_back(values_.unnamed(out, chosen.outputs[k]));
      casts.push_back({step.outputs.back(), named});
    }
    values_.launch(std::move(step), chosen, choice.cost, flops);
    for (const auto& [from, to] : casts) values_.convert("Cast", from, to);
    for (const auto& [v, from, to] : after_) {
      const BufferId b = values_.reorder(v, from, to);
      // The reordered form is the one that consumers and collectives take.
      auto& f = values_.of(v);
      std::swap(f.front(), *std::find(f.begin(), f.end(), b));
    }
    after_.clear();
  }

  // A kernel for a node, its own time, and that with the reorders which it asks for.
  struct Choice {
    KernelDescription kernel;
    Cost cost;
    double total = 0;
    bool widened = false;  // the request's operands are float32
  };

  // As a program before this one has chosen, else the cheapest. The request becomes that of the choice.
  Choice chosen(const Node& node, KernelRequest& request, double flops) {
    std::string key;
    if (options_.chosen) {
      key = concat(node.op->name, " '", node.name, "' {", node.attributes, '}');
      for (const auto* operands : {&request.inputs, &request.outputs})
        for (const Operand& o : *operands) key += concat(' ', o.dtype, o.shape);
      key += concat(" #", ++met_[key]);
      if (const auto before = options_.chosen->find(key); before != options_.chosen->end())
        if (std::optional<Choice> same = as_before(node, request, flops, before->second)) return *std::move(same);
    }
    Choice choice = best(node, request, flops);
    const KernelDescription& d = choice.kernel;
    if (options_.chosen) options_.chosen->try_emplace(std::move(key), ChosenKernel{d.kernel, d.inputs, d.outputs, choice.widened});
    return choice;
  }

  // Absent where this device has no such kernel.
  std::optional<Choice> as_before(const Node& node, KernelRequest& request, double flops, const ChosenKernel& before) {
    KernelRequest wanted = request;
    if (before.widened && !widen(node, wanted)) return std::nullopt;
    for (const KernelDescription& d : tuner_.describe(wanted)) {
      if (d.kernel != before.kernel || d.inputs != before.inputs || d.outputs != before.outputs) continue;
      Choice same{d, tuner_.cost(wanted, d, flops, *options_.device), 0, before.widened};
      request = std::move(wanted);
      return same;
    }
    return std::nullopt;
  }

  Choice best(const Node& node, KernelRequest& request, double flops) {
    std::optional<Choice> choice = cheapest(node, request, flops);
    if (KernelRequest wide = request; worth_widening(choice, flops) && widen(node, wide))
      if (std::optional<Choice> other = cheapest(node, wide, flops);
          other && (!choice || other->total + cast_seconds(request, other->kernel) < choice->total)) {
        ++(choice ? faster_wide_ : widened_)[std::string(node.op->name)];
        choice = std::move(other);
        choice->widened = true;
        request = std::move(wide);
      }
    if (choice) return *std::move(choice);
    std::string operands;
    for (const Operand& o : request.inputs) operands += concat(' ', o);
    fail(node.op->name, " '", node.name, "' has no kernel in backend ", backend_.name(), " for", operands, " {", node.attributes, "}");
  }

  std::optional<Choice> cheapest(const Node& node, const KernelRequest& request, double flops) {
    const std::vector<KernelDescription>& all = tuner_.describe(request);
    std::optional<Choice> best;
    for (const std::size_t i : tuner_.promising(all, flops, *options_.device)) {
      const Cost cost = tuner_.cost(request, all[i], flops, *options_.device);
      double total = cost.seconds;
      for (std::size_t k = 0; k < request.inputs.size(); ++k) {
        const Operand &have = request.inputs[k], &want = all[i].inputs[k];
        if (!have.present() || have.layout.any() || have.layout == want.layout) continue;
        if (!values_.lies(node.inputs[k], want.layout))
          total += values_.reorder_seconds(have, want);
      }
      for (std::size_t k = 0; k < request.outputs.size(); ++k)
        if (request.outputs[k].present() && !request.outputs[k].layout.any() && request.outputs[k].layout != all[i].outputs[k].layout)
          total += values_.reorder_seconds(all[i].outputs[k], request.outputs[k]);
      if (!best || total < best->total) best = Choice{all[i], cost, total};
    }
    return best;
  }

  // Where there is no 16-bit kernel; and where the best one was timed, and is slower than float32's ought to be at what is bound by
  // arithmetic: a processor may have 16-bit products that are slower than its others.
  bool worth_widening(const std::optional<Choice>& narrow, double flops) const {
    if (!narrow) return true;
    constexpr double share = 0.8;  // of the peak, which a good kernel reaches
    double bytes = 0;
    for (const auto* operands : {&narrow->kernel.inputs, &narrow->kernel.outputs})
      for (const Operand& o : *operands) bytes += static_cast<double>(o.bytes());
    const double arithmetic = flops / (share * options_.device->flops), memory = bytes / options_.device->bandwidth;
    return narrow->cost.measured && arithmetic > memory && narrow->cost.seconds > arithmetic;
  }

  double cast_seconds(const KernelRequest& narrow, const KernelDescription& wide) {
    double seconds = 0;
    const auto add = [&](const std::vector<Operand>& have, const std::vector<Operand>& want) {
      for (std::size_t k = 0; k < have.size(); ++k)
        if (have[k].present() && have[k].dtype != want[k].dtype && !want[k].layout.opaque())
          seconds += values_.cast_seconds({have[k].dtype, want[k].shape, want[k].layout}, want[k].dtype);
    };
    add(narrow.inputs, wide.inputs);
    add(narrow.outputs, wide.outputs);
    return seconds;
  }

  // The request with float32 for all 16-bit operands: what a backend without a 16-bit kernel can run between casts.
  // Parameters are not touched: an update has to write them as they are.
  bool widen(const Node& node, KernelRequest& request) const {
    if (!node.op->in_place.empty()) return false;
    bool any = false;
    for (std::vector<Operand>* operands : {&request.inputs, &request.outputs})
      for (Operand& o : *operands)
        if (is_16_bit(o.dtype)) {
          o.dtype = DType::float32;
          any = true;
        }
    return any;
  }

  // The next steps share it (a gradient goes into two); for a later one it is made again, rather than kept.
  BufferId wide(ValueId v, BufferId narrow, const Operand& to) {
    constexpr std::size_t near = 8;  // steps
    if (const auto it = wide_.find(narrow);
        it != wide_.end() && values_.operand(it->second.buffer) == to && program_.steps.size() - it->second.step <= near)
      return it->second.buffer;
    const BufferId b = values_.unnamed(v, to);
    values_.convert("Cast", narrow, b);
    wide_[narrow] = {b, program_.steps.size()};
    return b;
  }

  Operand wanted_output(ValueId out) {
    if (!out.present()) return {};
    Operand o = values_.row_major(out);
    o.layout = o.shape.rank() == 0 ? o.layout : Layout();
    if (graph_[out].opaque) return {DType::uint8, Shape{0}, Layout()};
    if (const ValueId parts = values_.scattered(out); parts.present() && o.shape.rank() > 0) o.layout = values_.whole_layout(parts);
    const ValueId owner = values_.follows(out);
    if (owner.present()) {
      const Operand p = values_.requested(owner);
      o.layout = p.layout;
    }
    return o;
  }

  BufferId output(const Node& node, std::size_t k, const KernelDescription& d, const KernelRequest& request) {
    const ValueId out = node.outputs[k];
    if (!out.present()) return {};
    if (const std::vector<ValueId> updated = updated_by(node); !updated.empty()) {
      const BufferId kept = values_.of(updated[k])[0];
      if (values_.operand(kept) != d.outputs[k])
        fail("kernel ", d.kernel, " updates '", graph_[updated[k]].name, "' as ", d.outputs[k], ", it is kept as ", values_.operand(kept));
      return values_.add(out, d.outputs[k], MemoryClass::weights, kept);
    }
    if (node.op->accumulates) {
      const BufferId sum = values_.of(node.inputs[0]).at(0);
      if (values_.operand(sum) != d.outputs[k] || std::ranges::find(d.in_place, std::pair(static_cast<int>(k), 0)) == d.in_place.end())
        fail("kernel ", d.kernel, " does not add to '", graph_[node.inputs[0]].name, "' in its memory");
      values_.of(out).push_back(sum);
      return sum;
    }
    const bool summed = values_.summed(out);
    const Operand& want = request.outputs[k];
    const bool other = !graph_[out].opaque && !values_.scattered(out).present() && !want.layout.any() && want.layout != d.outputs[k].layout;
    const bool is_gradient = summed || values_.follows(out).present();
    const BufferId b = values_.add(out, d.outputs[k], is_gradient ? MemoryClass::gradients : MemoryClass::activations);
    Buffer& buffer = program_.buffers[b];
    if (!summed || other) buffer.arena = ArenaKind::scratch;
    if (other) after_.push_back({out, b, want});
    return b;
  }

  struct Reordered {
    ValueId value;
    BufferId from;
    Operand to;
  };
  const Graph& graph_;
  const SelectOptions& options_;
  Tuner& tuner_;
  const Backend& backend_;
  LoweredGraph program_;
  ValueForms values_;
  std::map<std::string, int> met_;          // requests of one key
  std::map<std::string, int> widened_;      // steps by operator that run in float32 for want of a 16-bit kernel,
  std::map<std::string, int> faster_wide_;  // and because they take less time so
  struct Wide {
    BufferId buffer;
    std::size_t step = 0;
  };
  std::map<BufferId, Wide> wide_;           // 16-bit buffers that were widened
  std::vector<Reordered> after_;        // outputs of the step at hand that others want in another layout
};

}  // namespace

LoweredGraph select_kernels(const Graph& graph, const Backend& backend, const SelectOptions& options, Tuner& tuner) {
  return Selector(graph, backend, options, tuner).run();
}

}  // namespace tandem
