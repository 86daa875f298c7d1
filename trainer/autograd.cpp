#include "trainer/autograd.h"

#include <algorithm>

#include "base/suggest.h"
#include "graph/operator.h"
#include "planner/loss/external_loss.h"
#include "planner/passes/freeze.h"
#include "trainer/compiled_model.h"

namespace tandem {
namespace {

constexpr std::string_view gradient_prefix = "gradient/";

bool asks_for_training(const Node& node) { return node.attributes.integer("training_mode", 0) != 0; }

bool is_frozen(const Graph& graph, const Node& node, const AutogradOptions& o) {
  if (node.op->name != "BatchNormalization" || asks_for_training(node)) return false;
  return o.mode != AutogradMode::train || std::ranges::find(o.frozen, graph[node.inputs[3]].name) != o.frozen.end();
}

// As the mode has it. Where the template itself asks for training, it stays so.
void settle(Graph& graph, const AutogradOptions& o) {
  for (Value& v : graph.values)
    if (v.kind == ValueKind::parameter && v.role == ValueRole::plain)
      v.trainable = std::ranges::find(*o.parameters, v.name) != o.parameters->end();
  for (Node& node : graph.nodes) {
    if (is_frozen(graph, node, o)) node.attributes.set("frozen", std::int64_t{1});
    if (node.op->name == "Dropout" && o.mode != AutogradMode::train && !asks_for_training(node)) node.attributes.set("ratio", 0.0F);
  }
}

// The host's sum of what the devices give, or what each gives alike.
Tensor sum_of(const HostOutput& output, std::span<const std::byte> given, bool alike) {
  Tensor sum(output.type);
  if (alike) given = given.first(static_cast<std::size_t>(sum.byte_size()));
  visit_number(sum.dtype(), [&]<class T>() {
    const auto to = sum.write<T>();
    const T* part = reinterpret_cast<const T*>(given.data());
    for (std::size_t k = 0; k < given.size() / sizeof(T); ++k) to[k % to.size()] = static_cast<T>(to[k % to.size()] + part[k]);
  });
  return sum;
}

}  // namespace

struct Autograd::State {
  std::vector<const Backend*> backends;
  Plan plan;  // of both passes
  std::uint64_t seed = 1;
  std::vector<std::string> statistics, trained, outputs;  // names
  std::vector<std::string> alike;  // outputs that no sample is in: every device gives the same
  std::unique_ptr<Session> session;
  std::vector<NamedTensor> first;  // values
  bool ready = false;              // for the backward pass
  StepState step;

  void open() {
    session = std::make_unique<Session>(plan, backends);
    session->set_parameters(first);
  }

  static const std::string& name_of(const HostInput& input) { return input.role == ValueRole::gradient ? input.of : input.name; }

  void check_names(ValueRole role, std::span<const NamedTensor> values) const {
    for (const NamedTensor& value : values) {
      const auto takes = [&](const HostInput& input) { return input.role == role && name_of(input) == value.name; };
      if (std::ranges::any_of(plan.inputs, takes)) continue;
      std::vector<std::string> names;
      for (const HostInput& input : plan.inputs)
        if (input.role == role) names.push_back(name_of(input));
      const char* const what = role == ValueRole::gradient ? "no gradient is taken of an output '" : "the model has no input '";
      fail(ExitCode::data, what, value.name, "'", suggestion(value.name, names));
    }
  }

  // The outputs that this part gives, in the plan's order.
  std::vector<NamedTensor> run(std::size_t part, ValueRole input_role, std::span<const NamedTensor> values) {
    check_names(input_role, values);
    std::vector<const std::byte*> fed;
    std::vector<Tensor> zeros;
    zeros.reserve(plan.inputs.size());
    for (const HostInput& input : plan.inputs) {
      const std::string& name = name_of(input);
      const auto given = std::ranges::find(values, name, &NamedTensor::name);
      fed.push_back(nullptr);
      if (input.role != input_role) continue;
      if (given == values.end() && input_role != ValueRole::gradient)
        fail(ExitCode::data, "the batch has no values for the model's input '", name, "' ", input.type);
      if (given != values.end() && given->tensor.type() != input.type)
        fail(ExitCode::data, input_role == ValueRole::gradient ? "the gradient of output '" : "input '", name, "': expected ", input.type,
             ", got ", given->tensor.type());
      fed.back() = (given == values.end() ? zeros.emplace_back(input.type) : given->tensor).bytes().data();
    }
    std::vector<Tensor> whole(plan.outputs.size());
    std::vector<std::vector<std::byte>> parts(plan.outputs.size());
    std::vector<std::byte*> outputs(plan.outputs.size(), nullptr);
    const auto gives = [&](const HostOutput& out) { return (out.role == ValueRole::plain) == (input_role == ValueRole::plain); };
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const HostOutput& out = plan.outputs[i];
      if (!gives(out)) continue;
      if (out.parts > 1) parts[i].resize(static_cast<std::size_t>(out.bytes()));
      else whole[i] = Tensor(out.type);
      outputs[i] = out.parts > 1 ? parts[i].data() : whole[i].write().data();
    }
    session->run(part, fed, outputs, step);
    std::vector<NamedTensor> list;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const HostOutput& out = plan.outputs[i];
      if (!gives(out)) continue;
      list.push_back({out.role == ValueRole::plain ? out.name : out.of.substr(gradient_prefix.size()),
                      out.parts > 1 ? sum_of(out, parts[i], std::ranges::find(alike, out.name) != alike.end()) : std::move(whole[i])});
    }
    return list;
  }
};

Autograd::Autograd(const ModelTemplate& source, const AutogradOptions& asked, Backends on) : state_(std::make_unique<State>()) {
  AutogradOptions o = asked;
  const bool both = o.mode != AutogradMode::predict;
  o.model.plan.mode = both ? PlanMode::training : PlanMode::inference;
  o.model.plan.loss = {.name = std::string(both ? external_loss : LossOptions().name)};
  if (asked.parameters) o.model.plan.trained = {};
  o.model.plan.given_bytes.clear();
  CompileOptions plan = source.plan_options(o.model);
  const GraphSource as_it_is = source.plain_graphs(o.model);
  if (!asked.parameters) {
    o.parameters.emplace();
    for (const Value& v : as_it_is(plan.batch).values)
      if (v.kind == ValueKind::parameter && v.trainable && !is_frozen(v.name, plan)) o.parameters->push_back(v.name);
  }
  plan.keep_gradients = *o.parameters;
  plan.keep_gradients.insert(plan.keep_gradients.end(), o.inputs.begin(), o.inputs.end());
  const GraphSource graphs = [settled = o, plain = as_it_is](std::int64_t batch) {
    Graph graph = plain(batch);
    settle(graph, settled);
    return graph;
  };
  State& s = *state_;
  s.backends.assign(on.begin(), on.end());
  s.seed = o.model.seed;
  const Graph graph = graphs(plan.batch);
  for (const std::string& name : o.inputs)
    if (const auto in = graph.find(name); !in || graph[*in].kind != ValueKind::input || !is_float(graph[*in].type.dtype))
      fail(ExitCode::usage, "gradient of input '", name, "': model '", graph.name, "' has no input of floats of that name");
  s.plan = tandem::compile(graphs, plan, s.backends);
  s.first = first_values(source.file(), graph, o.model, on).values;
  const auto planned = [&](const std::string& name) {
    return std::ranges::any_of(s.plan.parameters, [&](const PlanParameter& p) { return p.role == ValueRole::plain && p.name == name; });
  };
  std::erase_if(s.first, [&](const NamedTensor& t) { return !planned(t.name); });
  for (const HostOutput& out : s.plan.outputs) {
    if (out.role == ValueRole::plain) s.outputs.push_back(out.name);
    else if (const std::string name = out.of.substr(gradient_prefix.size()); planned(name)) s.trained.push_back(name);
  }
  for (const GraphOutput& out : graph.outputs)
    if (!graph[out].depends_on_batch) s.alike.push_back(graph[out].name);
  for (const Node& node : graph.nodes)
    if (node.op->name == "BatchNormalization" && !is_frozen(graph, node, o))
      for (const std::size_t i : {std::size_t{3}, std::size_t{4}})
        if (const Value& v = graph[node.inputs[i]]; v.kind == ValueKind::parameter) s.statistics.push_back(v.name);
  s.open();
}

Autograd::Autograd(std::unique_ptr<State> state) : state_(std::move(state)) {}
Autograd::~Autograd() = default;
Autograd::Autograd(Autograd&&) noexcept = default;

Autograd Autograd::again() const {
  auto other = std::make_unique<State>();
  other->backends = state_->backends;
  other->plan = state_->plan;
  other->seed = state_->seed;
  other->statistics = state_->statistics;
  other->trained = state_->trained;
  other->outputs = state_->outputs;
  other->alike = state_->alike;
  other->first = state_->first;
  other->open();
  return Autograd(std::move(other));
}

const Plan& Autograd::plan() const { return state_->plan; }
const std::vector<std::string>& Autograd::trained() const { return state_->trained; }
const std::vector<std::string>& Autograd::outputs() const { return state_->outputs; }

void Autograd::set_parameters(std::span<const NamedTensor> values) {
  state_->ready = false;
  state_->session->set_parameters(values);
}

Tensor Autograd::parameter(const std::string& name) const { return state_->session->parameter(name); }

std::vector<NamedTensor> Autograd::statistics() const {
  std::vector<NamedTensor> list;
  for (const std::string& name : state_->statistics) list.push_back({name, state_->session->parameter(name)});
  return list;
}

std::vector<NamedTensor> Autograd::forward(std::span<const NamedTensor> inputs, std::int64_t step) {
  State& s = *state_;
  s.ready = false;
  s.step = {.step = step, .seed = s.seed};
  std::vector<NamedTensor> outputs = s.run(0, ValueRole::plain, inputs);
  s.ready = true;
  return outputs;
}

std::vector<NamedTensor> Autograd::backward(std::span<const NamedTensor> gradients) {
  State& s = *state_;
  if (s.plan.mode != PlanMode::training) fail(ExitCode::usage, "the model is planned for its forward pass alone");
  if (!s.ready) fail(ExitCode::usage, "a backward pass needs the values of a forward pass, and none came right before");
  s.ready = false;
  return s.run(1, ValueRole::gradient, gradients);
}

}  // namespace tandem
