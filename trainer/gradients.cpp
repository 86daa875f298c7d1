// Gradients of the weights, as values.
#include <algorithm>

#include "base/option.h"
#include "planner/compile.h"
#include "trainer/compiled_model.h"
#include "trainer/model.h"

namespace tandem {

// Of its own, for a step moves statistics and states, too.
Session& CompiledModel::gradient_session(std::int64_t batch) {
  std::unique_ptr<Session>& session = gradient_sessions[batch];
  if (session) return *session;
  CompileOptions o = source.plan_options(options);
  o.batch = batch;
  o.parallel.micro_batches = 1;
  o.given_bytes.clear();
  if (o.keep_gradients.empty())
    for (const Graph graph = source.graphs(options)(batch); const Value& v : graph.values)
      if (v.kind == ValueKind::parameter && v.role == ValueRole::plain) o.keep_gradients.push_back(v.name);
  session = std::make_unique<Session>(tandem::compile(source.graphs(options), o, backends), backends);
  return *session;
}

std::vector<NamedTensor> Model::gradients(std::span<const Tensor> inputs) {
  CompiledModel& s = *compiled_;
  if (s.running().plan(0).mode != PlanMode::training)
    fail(ExitCode::usage, "model '", s.source.file().name(), "' is compiled for inference: it has no gradients");
  if (s.options.world) fail(ExitCode::usage, "gradients are given in one process alone, this model trains in several");
  Session& session = s.gradient_session(inputs.empty() || inputs[0].shape().rank() == 0 ? 0 : inputs[0].shape()[0]);
  for (const ValueRole role : {ValueRole::plain, ValueRole::teacher}) session.set_parameters(s.session->parameters_as(role), role);
  const Plan& plan = session.plan(0);
  std::vector<const std::byte*> fed;
  for (const HostInput& input : plan.inputs) {
    const auto target = std::find_if(s.targets.begin(), s.targets.end(), [&](const FeedTarget& t) { return feeds(t, input); });
    const auto at = static_cast<std::size_t>(target - s.targets.begin());
    if (target != s.targets.end() && (at >= inputs.size() || inputs[at].type() != input.type))
      fail(ExitCode::data, "'", input.name, "': expected ", input.type, at < inputs.size() ? concat(", got ", inputs[at].type()) : "");
    fed.push_back(target == s.targets.end() ? nullptr : inputs[at].bytes().data());
  }
  std::vector<std::vector<std::byte>> storage;
  std::vector<std::byte*> outputs;
  for (const HostOutput& out : plan.outputs) storage.emplace_back(static_cast<std::size_t>(out.bytes()));
  for (auto& bytes : storage) outputs.push_back(bytes.data());
  session.run(0, fed, outputs, s.step_state(0));
  constexpr std::string_view prefix = "gradient/";
  std::vector<NamedTensor> list;
  for (std::size_t i = 0; i < storage.size(); ++i) {
    if (plan.outputs[i].role != ValueRole::metric || !plan.outputs[i].of.starts_with(prefix)) continue;
    Tensor sum(plan.outputs[i].type);
    visit_float(sum.dtype(), [&]<class T>() {
      const auto to = sum.write<T>();
      const T* part = reinterpret_cast<const T*>(storage[i].data());
      for (std::size_t k = 0; k < storage[i].size() / sizeof(T); ++k) to[k % to.size()] += part[k];
    });
    list.push_back({plan.outputs[i].of.substr(prefix.size()), std::move(sum)});
  }
  return list;
}

}  // namespace tandem
