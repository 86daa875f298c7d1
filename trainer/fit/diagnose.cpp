#include "trainer/fit/diagnose.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "graph/tensor_chunks.h"
#include "planner/micro_batches.h"
#include "planner/watch.h"

namespace tandem {
namespace {

// What one slice's step gives for each watch: 0 or not, least, largest.
std::vector<double> look(const GraphSource& source, const CompileOptions& o, Backends backends, const StepMaterial& step,
                         std::int64_t begin) {
  Session session(compile(source, o, backends), backends);
  const Plan& plan = session.plan();
  for (const auto& [role, values] : {std::pair{ValueRole::plain, &step.weights}, {ValueRole::teacher, &step.teacher}}) {
    std::vector<NamedTensor> held;
    for (const NamedTensor& w : *values) {
      const ParameterKey key{role, w.name};
      if (std::any_of(plan.parameters.begin(), plan.parameters.end(), [&](const PlanParameter& p) { return p.key() == key; }))
        held.push_back(w);
    }
    session.set_parameters(held, role);
  }
  std::vector<const std::byte*> inputs;
  for (const HostInput& in : plan.inputs) {
    const auto given = std::find_if(step.inputs.begin(), step.inputs.end(), [&](const auto& i) { return feeds(i.first, in); });
    const auto bytes = bytes_of(in.type);
    inputs.push_back(given == step.inputs.end() ? nullptr : given->second + (in.batched ? bytes / o.batch * begin : 0));
  }
  std::vector<std::vector<std::byte>> storage;
  std::vector<std::byte*> outputs;
  for (const HostOutput& out : plan.outputs) storage.emplace_back(size_of(out.type.dtype));
  for (auto& s : storage) outputs.push_back(s.data());
  session.run(0, inputs, outputs, step.state);
  std::vector<double> seen;
  for (std::size_t i = 0; i < storage.size(); ++i)
    visit_float(plan.outputs[i].type.dtype,
                [&]<class T>() { seen.push_back(static_cast<double>(*reinterpret_cast<const T*>(storage[i].data()))); });
  return seen;
}

std::string sentence(const std::vector<Watch>& watches, const std::vector<double>& seen, std::size_t bad) {
  const auto least = [&](std::size_t i) { return seen[3 * i + 1]; };
  const auto most = [&](std::size_t i) { return seen[3 * i + 2]; };
  const char* what = std::isinf(most(bad)) || std::isinf(least(bad)) ? "inf" : "nan";
  const Watch& w = watches[bad];
  if (w.operands.empty()) return concat(w.made_by, " holds ", what);
  std::string from;
  for (const std::size_t i : w.operands)
    from += fmt::format("{}'{}' ({:.4g} to {:.4g})", from.empty() ? "" : ", ", watches[i].value, least(i), most(i));
  return concat(w.made_by, " made ", what, " from ", from);
}

}  // namespace

std::string find_not_finite(const GraphSource& source, std::span<const Labels> losses, const CompileOptions& options, Backends backends,
                            const StepMaterial& step) {
  std::vector<double> weights;
  for (const DeviceSpec& d : options.devices) weights.push_back(d.weight);
  std::int64_t begin = 0;
  const MicroBatches parts = micro_batches_of(step.batch, options.batch / options.parallel.micro_batches);
  std::vector<std::pair<std::int64_t, std::int64_t>> slices;  // the first row, and how many
  for (const std::int64_t own : own_rows(parts)) {
    for (const std::int64_t samples : slice_sizes(own, weights)) slices.emplace_back(begin, samples), begin += samples;
    begin += parts.rows - own;
  }
  for (const auto& [first, samples] : slices) {
    if (samples == 0) continue;
    CompileOptions o = options;
    o.batch = step.batch;
    o.parallel.micro_batches = 1;
    const auto watched = [&](std::int64_t n) { return watch(source(n), losses, o, n); };
    CompileOptions inference;
    inference.mode = PlanMode::inference;
    inference.batch = samples;
    inference.devices = {options.devices[0]};
    inference.kernel = options.kernel;
    inference.given_bytes = options.given_bytes;
    const std::vector<double> seen = look([&](std::int64_t n) { return watched(n).graph; }, inference, backends, step, first);
    const std::vector<Watch> watches = watched(samples).watches;
    for (std::size_t i = 0; i < watches.size(); ++i)
      if (!(seen[3 * i] == 0)) return sentence(watches, seen, i);
  }
  return "";
}

std::string lost_parameter(const Session& session) {
  std::string lost;
  session.each_streamed(ValueRole::plain, [&](const NamedTensor& p) {
    if (p.tensor.dtype() != DType::float32 && p.tensor.dtype() != DType::float64) return;
    bool finite = true;
    each_chunk(p.tensor, [&](std::span<const std::byte> bytes, std::int64_t) {
      visit_float(p.tensor.dtype(), [&]<class T>() {
        const std::span<const T> values(reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T));
        finite = finite && std::all_of(values.begin(), values.end(), [](T v) { return std::isfinite(v); });
      });
    });
    if (!finite && lost.empty()) lost = p.name;
  });
  return lost;
}

}  // namespace tandem
