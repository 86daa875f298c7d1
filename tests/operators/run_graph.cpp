#include "tests/operators/run_graph.h"

#include "runtime/step_kernel.h"

namespace tandem::test {
namespace {

CompileOptions one_device(PlanMode mode, LayoutPreference layout) {
  CompileOptions o;
  o.mode = mode;
  o.batch = 1;
  o.layout = layout;
  return o;
}

}  // namespace

void GraphRun::compile(const Graph& graph, CompileOptions options) {
  options.devices = {{{backend_->name(), 0}}};
  session_ = std::make_unique<Session>(tandem::compile([&](std::int64_t) { return graph; }, options, backends_), backends_);
  check_kernels(session_->plan(), backends_);  // once more, now that a library's caches hold them all
  std::vector<NamedTensor> values;
  for (const PlanParameter& p : session_->plan().parameters)
    for (const Value& v : graph.values)
      if (v.kind == ValueKind::parameter && v.name == p.name && v.data) values.push_back({v.name, *v.data});
  session_->set_parameters(values);
}

GraphRun::GraphRun(const Graph& graph, LayoutPreference layout) { compile(graph, one_device(PlanMode::inference, layout)); }

GraphRun::GraphRun(const Graph& graph, const std::vector<std::string>& gradients) {
  CompileOptions o = one_device(PlanMode::training, LayoutPreference::blocked);
  o.loss.name = "output";
  o.keep_gradients = gradients;
  compile(graph, o);
}

std::vector<NamedTensor> GraphRun::run(const std::vector<NamedTensor>& inputs) {
  std::vector<const std::byte*> in;
  for (const HostInput& host : plan().inputs) {
    const std::byte* bytes = nullptr;
    for (const NamedTensor& t : inputs) {
      if (t.name != host.name || host.role == ValueRole::step_state) continue;
      if (t.tensor.type() != host.type) fail("input '", t.name, "' is ", t.tensor.type(), ", the plan takes ", host.type);
      bytes = t.tensor.bytes().data();
    }
    if (!bytes && host.role != ValueRole::step_state && host.type.shape.elements() > 0) fail("input '", host.name, "' has no value");
    in.push_back(bytes);
  }
  std::vector<NamedTensor> results;
  std::vector<std::byte*> out;
  for (const HostOutput& host : plan().outputs) results.push_back({host.name, Tensor(host.type)});
  for (NamedTensor& r : results) out.push_back(r.tensor.write().data());
  session_->run(0, in, out, {.learning_rate = 0, .step = 1, .seed = 1});
  return results;
}

}  // namespace tandem::test
