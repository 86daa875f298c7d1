#include <algorithm>

#include "graph/operator.h"
#include "planner/lowered_graph.h"
#include "planner/views.h"

namespace tandem {
namespace {

constexpr std::int64_t alignment = 64;
std::int64_t rounded(std::int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

class Selector {
 public:
  Selector(const Graph& graph, const std::map<std::string, ValueId>& reduced, const Backend& backend, const SelectOptions& options, Tuner& tuner)
      : graph_(graph), options_(options), tuner_(tuner), backend_(backend), forms_(graph.values.size()), follows_(graph.values.size()), cast_of_(graph.values.size()), gradient_(graph.values.size()) {
    for (const auto& [name, value] : reduced) gradient_[static_cast<std::size_t>(value.index)] = true;
    for (const Node& node : graph.nodes) note_update(node);
    for (const Node& node : graph.nodes) note_cast(node);
  }

  LoweredGraph run(const std::map<std::string, ValueId>& reduced) {
    for (const ValueId in : graph_.inputs) {
      const BufferId b = add_buffer(in, row_major(in), MemoryClass::inputs);
      program_.inputs.push_back({graph_[in].name, b});
    }
    for (const Node& node : graph_.nodes) {
      origin_ = &node.origin;
      if (node.op->name == "Reshape" && reshape(node)) continue;
      if (node.op->name == "Transpose" && transpose(node)) continue;
      if (node.op->name == "Cast" && cast_of_[static_cast<std::size_t>(node.outputs[0].index)].present()) continue;
      if (node.op->name == "AllReduce") {
        all_reduce(node);
        continue;
      }
      launch(node);
    }
    static const std::vector<std::string> none;
    origin_ = &none;
    for (const ValueId out : graph_.outputs) program_.outputs.push_back(form(out, row_major(out).layout));
    for (const auto& [name, value] : reduced) program_.reduced[name] = forms_[static_cast<std::size_t>(value.index)].at(0);
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      const Value& v = graph_.values[i];
      if (v.kind != ValueKind::parameter) continue;
      const ValueId id{static_cast<int>(i)};
      if (forms_[i].empty()) add_parameter(id, default_parameter_layout(id));
      program_.parameters.push_back({v.name, forms_[i][0], {v.type.dtype, v.template_shape}, v.source, v.trainable});
    }
    for (const Step& s : program_.steps) program_.seconds += s.seconds;
    if (!widened_.empty()) {
      std::string list;
      for (const auto& [op, count] : widened_) list += concat(list.empty() ? "" : ", ", count, " ", op);
      program_.warnings.push_back(concat("backend ", backend_.name(), " has no 16-bit kernel for these steps, which run in float32 between casts: ", list));
    }
    return std::move(program_);
  }

 private:
  const Operand& operand(BufferId b) const { return program_.buffers[static_cast<std::size_t>(b.index)].operand; }
  Operand row_major(ValueId v) const { return {graph_[v].type.dtype, graph_[v].type.shape, Layout::row_major(graph_[v].type.shape.rank())}; }
  std::vector<BufferId>& forms(ValueId v) { return forms_[static_cast<std::size_t>(v.index)]; }

  // Gradients want the layout of the parameter they update, states that of theirs.
  void note_update(const Node& node) {
    if (node.op->in_place.empty() || !node.attributes.has("tensors")) return;
    const auto tensors = static_cast<std::size_t>(node.attributes.integer("tensors"));
    const std::size_t stride = (node.inputs.size() - 1) / std::max<std::size_t>(1, tensors);
    for (std::size_t t = 0; t < tensors; ++t)
      for (std::size_t i = 1; i < stride; ++i) follows_[static_cast<std::size_t>(node.inputs[1 + t * stride + i].index)] = node.inputs[1 + t * stride];
  }

  // A parameter in 16 bits is cast where it is first read, into the layout that its reader wants; the parameter itself
  // takes that layout where nothing else has decided it. So casting moves no element.
  void note_cast(const Node& node) {
    if (node.op->name != "Cast" || graph_[node.inputs[0]].kind != ValueKind::parameter) return;
    if (std::find(graph_.outputs.begin(), graph_.outputs.end(), node.outputs[0]) != graph_.outputs.end()) return;
    if (!gradient_[static_cast<std::size_t>(node.outputs[0].index)]) cast_of_[static_cast<std::size_t>(node.outputs[0].index)] = node.inputs[0];
  }

  BufferId add_buffer(ValueId v, Operand operand, MemoryClass memory, BufferId alias = {}) {
    Buffer b{.name = graph_[v].name, .operand = std::move(operand), .memory = memory};
    b.bytes = rounded(b.operand.bytes());
    if (alias.present()) {
      const Buffer& root = program_.buffers[static_cast<std::size_t>(alias.index)];
      b.alias = alias;
      b.arena = root.arena;
      b.memory = root.memory;
    } else if (memory == MemoryClass::weights) {
      b.arena = ArenaKind::parameters;
    } else if (memory == MemoryClass::optimizer_state) {
      b.arena = ArenaKind::optimizer;
    } else if (memory == MemoryClass::gradients) {
      b.arena = ArenaKind::gradients;
    }
    program_.buffers.push_back(std::move(b));
    const BufferId id{static_cast<int>(program_.buffers.size()) - 1};
    forms(v).push_back(id);
    return id;
  }

  BufferId add_constant(ValueId v, const Layout& layout) {
    Operand o = row_major(v);
    o.layout = layout;
    const BufferId id = add_buffer(v, std::move(o), MemoryClass::weights);
    Buffer& b = program_.buffers[static_cast<std::size_t>(id.index)];
    b.arena = ArenaKind::constants;
    b.constant = graph_[v].data;
    return id;
  }

  Layout default_parameter_layout(ValueId v) const {
    if (const Operand* fixed = fixed_operand(v)) return fixed->layout;
    return Layout::row_major(graph_[v].type.shape.rank());
  }
  const Operand* fixed_operand(ValueId v) const {
    if (!options_.fixed) return nullptr;
    const auto it = options_.fixed->find(graph_[v].name);
    return it == options_.fixed->end() ? nullptr : &it->second;
  }
  BufferId add_parameter(ValueId v, const Layout& layout) {
    Operand o = row_major(v);
    o.layout = layout;
    return add_buffer(v, std::move(o), graph_[v].optimizer_state ? MemoryClass::optimizer_state : MemoryClass::weights);
  }

  // The layout a request names for a value: what it has, or any where nothing has decided it yet.
  Operand requested(ValueId v) {
    if (!v.present()) return {};
    if (!forms(v).empty()) return operand(forms(v)[0]);
    Operand o = row_major(v);
    const Value& value = graph_[v];
    if (const ValueId parameter = cast_of_[static_cast<std::size_t>(v.index)]; parameter.present()) {
      o.layout = requested(parameter).layout;
      return o;
    }
    if (value.kind == ValueKind::parameter) {
      if (const Operand* fixed = fixed_operand(v)) {
        if (fixed->shape != o.shape)
          fail("parameter '", value.name, "' is kept as ", fixed->shape, " by the plan this one shares parameters with, here it would be ", o.shape);
        o.layout = fixed->layout;
        return o;
      }
      const ValueId owner = follows_[static_cast<std::size_t>(v.index)];
      if (owner.present() && !forms(owner).empty()) {
        o.layout = operand(forms(owner)[0]).layout;
        return o;
      }
    }
    if (o.shape.rank() > 0) o.layout = Layout();
    return o;
  }

  // A buffer that holds the value in this layout: one there is, another name for the same memory, or a Reorder.
  BufferId form(ValueId v, const Layout& layout) {
    for (const BufferId b : forms(v))
      if (operand(b).layout == layout) return b;
    const Value& value = graph_[v];
    if (value.kind == ValueKind::constant) return add_constant(v, layout);
    if (const ValueId parameter = cast_of_[static_cast<std::size_t>(v.index)]; parameter.present() && forms(v).empty()) {
      const Layout as_kept = requested(parameter).layout.any() ? layout : requested(parameter).layout;
      Operand to = row_major(v);
      to.layout = as_kept;
      const BufferId from = form(parameter, as_kept);
      convert("Cast", from, add_buffer(v, to, MemoryClass::activations));
      if (as_kept == layout) return forms(v)[0];
    }
    if (forms(v).empty()) {
      if (value.kind != ValueKind::parameter) fail("planner: '", value.name, "' has no buffer");
      const BufferId b = add_parameter(v, requested(v).layout.any() ? layout : requested(v).layout);
      if (operand(b).layout == layout) return b;
    }
    const BufferId first = forms(v)[0];
    Operand to = operand(first);
    to.layout = layout;
    if (same_memory(operand(first).shape, operand(first).layout, to.shape, to.layout)) return add_buffer(v, to, MemoryClass::activations, first);
    return reorder(v, first, to);
  }

  BufferId reorder(ValueId v, BufferId from, const Operand& to) {
    const BufferId out = add_buffer(v, to, MemoryClass::activations);
    convert("Reorder", from, out);
    return out;
  }

  // A step that writes the elements of one buffer into another: a Reorder into another layout, or a Cast into another type.
  void convert(std::string_view op, BufferId from, BufferId to) {
    Attributes attributes;
    if (op == "Cast") attributes.set("to", static_cast<std::int64_t>(operand(to).dtype));
    const KernelRequest request{op, &attributes, {operand(from)}, {operand(to)}, options_.kernel};
    const KernelDescription* best = nullptr;
    Cost cost;
    for (const KernelDescription& d : tuner_.describe(request)) {
      if (d.inputs[0] != operand(from) || d.outputs[0] != operand(to)) continue;
      const Cost c = tuner_.cost(request, d, 0, *options_.device);
      if (!best || c.seconds < cost.seconds) best = &d, cost = c;
    }
    if (!best) fail("no kernel of backend ", backend_.name(), " makes ", operand(to), " of ", operand(from), " (", op, ")");
    const KernelDescription chosen = *best;
    Step step{.kind = StepKind::launch, .op = std::string(op), .kernel = chosen.kernel, .attributes = std::move(attributes), .inputs = {from}, .outputs = {to}, .origin = *origin_};
    finish(std::move(step), chosen, cost, 0);
  }
  double reorder_seconds(const Operand& from, const Operand& to) const {
    if (same_memory(from.shape, from.layout, to.shape, to.layout)) return 0;
    return estimate(0, static_cast<double>(from.bytes() + to.bytes()), 1, *options_.device);
  }

  void finish(Step step, const KernelDescription& d, Cost cost, double flops) {
    if (d.workspace > 0) {
      Buffer w{.name = concat(step.op, " workspace"), .operand = {DType::uint8, Shape{d.workspace}, Layout::row_major(1)}, .memory = MemoryClass::workspace};
      w.bytes = rounded(d.workspace);
      program_.buffers.push_back(std::move(w));
      step.workspace = {static_cast<int>(program_.buffers.size()) - 1};
    }
    step.flops = flops;
    for (const Operand& o : d.inputs) step.bytes += static_cast<double>(o.bytes());
    for (const Operand& o : d.outputs) step.bytes += static_cast<double>(o.bytes());
    step.seconds = cost.seconds;
    step.measured = cost.measured;
    program_.steps.push_back(std::move(step));
    program_.in_place.push_back(d.in_place);
  }

  bool has_form(ValueId v) const { return !forms_[static_cast<std::size_t>(v.index)].empty(); }

  bool reshape(const Node& node) {
    const ValueId x = node.inputs[0], y = node.outputs[0];
    if (gradient_[static_cast<std::size_t>(y.index)]) return false;
    if (graph_[x].kind == ValueKind::constant || !has_form(x)) form(x, Layout::row_major(graph_[x].type.shape.rank()));
    Operand to = row_major(y);
    for (const BufferId b : forms(x)) {
      const std::optional<Layout> layout = reshaped(operand(b).shape, operand(b).layout, to.shape);
      if (!layout) continue;
      to.layout = *layout;
      add_buffer(y, to, MemoryClass::activations, b);
      return true;
    }
    add_buffer(y, to, MemoryClass::activations, form(x, Layout::row_major(graph_[x].type.shape.rank())));
    return true;
  }

  bool transpose(const Node& node) {
    const ValueId x = node.inputs[0], y = node.outputs[0];
    if (gradient_[static_cast<std::size_t>(y.index)]) return false;
    if (graph_[x].kind == ValueKind::constant || !has_form(x)) form(x, Layout::row_major(graph_[x].type.shape.rank()));
    const BufferId b = forms(x)[0];
    Operand to = row_major(y);
    to.layout = transposed(operand(b).layout, node.attributes.ints("perm"));
    add_buffer(y, to, MemoryClass::activations, b);
    return true;
  }

  // In place on memory of its own; which bucket it is, assembling tells.
  void all_reduce(const Node& node) {
    const ValueId x = node.inputs[0], y = node.outputs[0];
    const BufferId from = form(x, Layout::row_major(graph_[x].type.shape.rank()));
    const BufferId copy = reorder(x, from, operand(from));
    forms(x).pop_back();  // the copy is y's
    const BufferId b = add_buffer(y, operand(copy), MemoryClass::gradients, copy);
    program_.steps.push_back({.kind = StepKind::all_reduce, .outputs = {b}, .stream = 1, .origin = node.origin});
    program_.in_place.emplace_back();
  }

  void launch(const Node& node) {
    KernelRequest request{node.op->name, &node.attributes, {}, {}, options_.kernel};
    for (const ValueId in : node.inputs) request.inputs.push_back(requested(in));
    for (const ValueId out : node.outputs) request.outputs.push_back(wanted_output(out));
    const double flops = flops_of(graph_, node);
    const std::vector<KernelDescription>* described = &tuner_.describe(request);
    const bool widened = described->empty() && widen(node, request);
    if (widened) described = &tuner_.describe(request);
    const std::vector<KernelDescription>& all = *described;
    if (all.empty()) {
      std::string operands;
      for (const Operand& o : request.inputs) operands += concat(' ', o);
      fail(node.op->name, " '", node.name, "' has no kernel in backend ", backend_.name(), " for", operands, " {", node.attributes, "}");
    }
    std::size_t best = 0;
    Cost best_cost;
    double best_total = 0;
    bool first = true;
    for (const std::size_t i : tuner_.promising(all, flops, *options_.device)) {
      const Cost cost = tuner_.cost(request, all[i], flops, *options_.device);
      double total = cost.seconds;
      for (std::size_t k = 0; k < request.inputs.size(); ++k) {
        const Operand &have = request.inputs[k], &want = all[i].inputs[k];
        if (!have.present() || have.layout.any() || have.layout == want.layout) continue;
        const auto& f = forms_[static_cast<std::size_t>(node.inputs[k].index)];
        if (std::none_of(f.begin(), f.end(), [&](BufferId b) { return operand(b).layout == want.layout; })) total += reorder_seconds(have, want);
      }
      for (std::size_t k = 0; k < request.outputs.size(); ++k)
        if (request.outputs[k].present() && !request.outputs[k].layout.any() && request.outputs[k].layout != all[i].outputs[k].layout)
          total += reorder_seconds(all[i].outputs[k], request.outputs[k]);
      if (first || total < best_total) best = i, best_total = total, best_cost = cost;
      first = false;
    }
    const KernelDescription chosen = all[best];

    Step step{.kind = StepKind::launch, .op = std::string(node.op->name), .kernel = chosen.kernel, .attributes = node.attributes, .origin = node.origin};
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      const ValueId in = node.inputs[k];
      step.inputs.push_back(in.present() ? form(in, chosen.inputs[k].layout) : BufferId{});
      if (widened && in.present() && operand(step.inputs.back()).dtype != chosen.inputs[k].dtype) step.inputs.back() = wide(in, step.inputs.back(), chosen.inputs[k]);
    }
    if (widened) ++widened_[step.op];
    std::vector<std::pair<BufferId, BufferId>> casts;  // of float32 results to what the graph has
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      const ValueId out = node.outputs[k];
      if (!out.present() || graph_[out].opaque || graph_[out].type.dtype == chosen.outputs[k].dtype) {
        step.outputs.push_back(output(node, k, chosen, request));
        continue;
      }
      Operand narrow = chosen.outputs[k];
      narrow.dtype = graph_[out].type.dtype;
      const BufferId named = add_buffer(out, narrow, MemoryClass::activations);
      step.outputs.push_back(unnamed(out, chosen.outputs[k]));
      casts.push_back({step.outputs.back(), named});
    }
    finish(std::move(step), chosen, best_cost, flops);
    for (const auto& [from, to] : casts) convert("Cast", from, to);
    for (const auto& [v, from, to] : after_) {
      const BufferId b = reorder(v, from, to);
      // The reordered form is the one that consumers and collectives take.
      auto& f = forms(v);
      std::swap(f.front(), *std::find(f.begin(), f.end(), b));
      if (gradient_[static_cast<std::size_t>(v.index)]) in_gradient_arena(b);
    }
    after_.clear();
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

  // Memory for one step's use of the value, which is none of its forms.
  BufferId unnamed(ValueId v, const Operand& operand) {
    const BufferId b = add_buffer(v, operand, MemoryClass::activations);
    forms(v).pop_back();
    return b;
  }

  BufferId wide(ValueId v, BufferId narrow, const Operand& to) {
    const BufferId b = unnamed(v, to);
    convert("Cast", narrow, b);
    return b;
  }

  Operand wanted_output(ValueId out) {
    if (!out.present()) return {};
    Operand o = row_major(out);
    o.layout = o.shape.rank() == 0 ? o.layout : Layout();
    if (graph_[out].opaque) return {DType::uint8, Shape{0}, Layout()};
    const ValueId owner = follows_[static_cast<std::size_t>(out.index)];
    if (owner.present()) {
      const Operand p = requested(owner);
      o.layout = p.layout;
    }
    return o;
  }

  void in_gradient_arena(BufferId b) {
    Buffer& buffer = program_.buffers[static_cast<std::size_t>(b.index)];
    buffer.arena = ArenaKind::gradients;
    buffer.memory = MemoryClass::gradients;
  }

  BufferId output(const Node& node, std::size_t k, const KernelDescription& d, const KernelRequest& request) {
    const ValueId out = node.outputs[k];
    if (!out.present()) return {};
    if (!node.op->in_place.empty()) {
      const std::size_t pattern = node.op->in_place.size();
      std::size_t in = 0;
      if (node.attributes.has("tensors")) {
        const auto tensors = static_cast<std::size_t>(std::max<std::int64_t>(1, node.attributes.integer("tensors")));
        const std::size_t per_out = node.outputs.size() / tensors, per_in = (node.inputs.size() - 1) / tensors;
        // Outputs are the parameter and its states; the gradient, second of the inputs, is only read.
        const std::size_t t = k / per_out, i = k % per_out;
        in = 1 + t * per_in + (i == 0 ? 0 : i + 1);
      } else {
        in = static_cast<std::size_t>(node.op->in_place[k % pattern]);
      }
      const BufferId kept = forms(node.inputs[in])[0];
      if (operand(kept) != d.outputs[k]) fail("kernel ", d.kernel, " updates '", graph_[node.inputs[in]].name, "' as ", d.outputs[k], ", it is kept as ", operand(kept));
      return add_buffer(out, d.outputs[k], MemoryClass::weights, kept);
    }
    const bool reduced = gradient_[static_cast<std::size_t>(out.index)];
    const Operand& want = request.outputs[k];
    const bool other = !graph_[out].opaque && !want.layout.any() && want.layout != d.outputs[k].layout;
    const bool is_gradient = reduced || follows_[static_cast<std::size_t>(out.index)].present();
    const BufferId b = add_buffer(out, d.outputs[k], is_gradient ? MemoryClass::gradients : MemoryClass::activations);
    Buffer& buffer = program_.buffers[static_cast<std::size_t>(b.index)];
    if (!reduced || other) buffer.arena = ArenaKind::scratch;
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
  std::vector<std::vector<BufferId>> forms_;  // by value; the first one is what requests name
  std::vector<ValueId> follows_;              // by value: the parameter whose layout it takes
  std::vector<ValueId> cast_of_;              // by value: the parameter that it is a Cast of
  std::vector<bool> gradient_;                // by value: it is summed over devices
  std::map<std::string, int> widened_;        // steps by operator that run in float32 for want of a 16-bit kernel
  std::vector<Reordered> after_;
  const std::vector<std::string>* origin_ = nullptr;
};

}  // namespace

LoweredGraph select_kernels(const Graph& graph, const std::map<std::string, ValueId>& reduced, const Backend& backend, const SelectOptions& options, Tuner& tuner) {
  return Selector(graph, reduced, backend, options, tuner).run(reduced);
}

}  // namespace tandem
