#include "trainer/file_measure.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "planner/compile.h"
#include "trainer/template/initialize.h"

namespace tandem {
namespace {

// Where files are run: the host, where it is a device, else this process's first one.
DeviceSpec device_of(const CompiledModel& s) {
  if (std::any_of(s.backends.begin(), s.backends.end(), [](const Backend* b) { return b->name() == "cpu"; })) return {.id = {"cpu", 0}};
  return {.id = s.options.plan
                    .devices[static_cast<std::size_t>(devices_of(s.options.world, static_cast<int>(s.options.plan.devices.size())).first)]
                    .id};
}

Session& session_of(const CompiledModel& s, const GraphFile& file, std::int64_t samples) {
  auto& kept = s.file_sessions[{file.path(), samples}];
  if (kept.session) return *kept.session;
  ModelOptions inference = s.options;
  inference.plan.mode = PlanMode::inference;
  const GraphSource source = [&, model = s.source.graphs(inference)](std::int64_t batch) {
    return file.graph(model(batch), batch, dims_of(s.options));
  };
  const Graph graph = source(samples);
  CompileOptions o{.mode = PlanMode::inference, .batch = samples, .devices = {device_of(s)}};
  o.kernel = s.options.plan.kernel;
  kept.session = std::make_unique<Session>(compile(source, o, s.backends), s.backends);
  std::vector<NamedTensor> values;
  for (NamedTensor& v : initialize(graph, "keep", 1).values)
    if (const auto& held = kept.session->plan().parameters; std::any_of(held.begin(), held.end(), [&](const PlanParameter& p) {
          return p.key() == ParameterKey{ValueRole::plain, v.name};
        }))
      values.push_back(std::move(v));
  kept.session->set_parameters(values);
  const Value& result = graph[graph.outputs[0]];
  kept.by_sample = result.type.shape.rank() > 0 && result.batch.leading(result.type.shape[0], samples);
  return *kept.session;
}

// The first rows of what is on the host, in another type.
Tensor rows_of(const TensorType& have, const std::byte* bytes, const TensorType& wanted) {
  Shape shape = have.shape;
  if (wanted.shape.rank() > 0 && shape.rank() > 0) shape[0] = wanted.shape[0];
  Tensor t(TensorType{have.dtype, shape});
  const auto to = t.write();
  std::memcpy(to.data(), bytes, to.size());
  return (have.dtype == wanted.dtype ? t : t.cast(wanted.dtype)).reshaped(wanted.shape);
}

}  // namespace

FileMeasure::FileMeasure(const CompiledModel& state, GraphFile file, std::optional<TensorType> labels)
    : s_(state), file_(std::move(file)), labels_(std::move(labels)) {
  if (const FileInput* const input = file_.of(FileInput::Of::labels); input && !labels_)
    fail(ExitCode::usage, file_.path(), ": its input '", input->name, "' is the labels, and the loss ", s_.options.plan.loss.name,
         " takes none");
}

bool FileMeasure::reads_inputs() const {
  const std::vector<ModelInput> own = s_.source.file().inputs();
  return std::any_of(file_.inputs().begin(), file_.inputs().end(), [&](const FileInput& i) {
    return std::any_of(own.begin(), own.end(), [&](const ModelInput& m) { return m.name == i.value; });
  });
}

Tensor FileMeasure::given(const FileInput& input, const TensorType& wanted, const Plan& plan, const Runner& runner,
                          const BatchLabels& batch, const std::byte* labels) const {
  if (input.of == FileInput::Of::weights) {
    Tensor t(TensorType{DType::float32, Shape{batch.size}});
    const auto to = t.write<float>();
    batch.weights ? (void)std::copy_n(batch.weights, to.size(), to.begin()) : std::fill(to.begin(), to.end(), 1.0F);
    return t.cast(wanted.dtype).reshaped(wanted.shape);
  }
  if (input.of == FileInput::Of::labels) {
    TensorType have = *labels_;
    have.shape.dims.insert(have.shape.dims.begin(), batch.size);
    if (have.shape.elements() != wanted.shape.elements())
      fail(ExitCode::usage, file_.path(), ": its input '", input.name, "' is ", wanted, " for ", batch.size, " samples, the labels are ",
           have);
    return rows_of(have, labels, wanted);
  }
  for (std::size_t i = 0; i < plan.outputs.size(); ++i) {
    const HostOutput& out = plan.outputs[i];
    if (out.role != ValueRole::plain || out.name != input.value) continue;
    if (out.combine != Combine::rows && out.parts > 1)
      fail(ExitCode::usage, file_.path(), ": '", out.name, "' ", out.type,
           " does not hold its samples along axis 0, and is not measured on several devices");
    return rows_of(out.type, runner.storage[i].data(), wanted);
  }
  for (std::size_t t = 0; t < batch.targets.size(); ++t) {
    if (batch.targets[t].label || batch.targets[t].name != input.value) continue;
    TensorType have = batch.targets[t].sample;
    have.shape.dims.insert(have.shape.dims.begin(), batch.size);
    return rows_of(have, batch.inputs[t], wanted);
  }
  fail(ExitCode::usage, file_.path(), ": '", input.value, "', which its input '", input.name,
       "' is, is no output of the model: a metric reads outputs and inputs");
}

void FileMeasure::add(const Plan& plan, const Runner& runner, const BatchLabels& batch, const std::byte* labels) {
  Session& session = session_of(s_, file_, batch.size);
  const Plan& own = session.plan();
  std::vector<Tensor> tensors;
  std::vector<const std::byte*> inputs;
  std::vector<std::optional<TensorType>> fed;
  for (const HostInput& in : own.inputs) {
    const auto input = std::find_if(file_.inputs().begin(), file_.inputs().end(),
                                    [&](const FileInput& i) { return in.role == ValueRole::plain && i.name == in.name; });
    tensors.push_back(input == file_.inputs().end() ? Tensor() : given(*input, in.type, plan, runner, batch, labels));
    inputs.push_back(input == file_.inputs().end() ? nullptr : tensors.back().bytes().data());
  }
  std::vector<std::vector<std::byte>> storage;
  std::vector<std::byte*> outputs;
  for (const HostOutput& out : own.outputs) storage.emplace_back(static_cast<std::size_t>(out.bytes()));
  for (auto& bytes : storage) outputs.push_back(bytes.data());
  session.run(0, inputs, outputs, {});
  const TensorType& type = own.outputs[0].type;
  const bool by_sample = s_.file_sessions.at({file_.path(), batch.size}).by_sample;
  const bool weighs = batch.weights && !(by_sample && file_.of(FileInput::Of::weights));
  const std::int64_t all = type.shape.elements(), each = by_sample ? all / std::max<std::int64_t>(1, batch.size) : all;
  if (!by_sample && all != 1)
    fail(ExitCode::usage, file_.path(), ": gives ", type, " for ", batch.size,
         " samples, expected one number, or rows of numbers for each sample");
  double weight_of_batch = 0, sum = 0;
  for (std::int64_t n = 0; n < batch.size; ++n) weight_of_batch += weighs ? static_cast<double>(batch.weights[n]) : 1.0;
  visit_float(type.dtype, [&]<class T>() {
    const T* values = reinterpret_cast<const T*>(storage[0].data());
    if (!by_sample) sum = static_cast<double>(values[0]) * weight_of_batch;
    for (std::int64_t i = 0; by_sample && i < all; ++i)
      sum += static_cast<double>(values[i]) / static_cast<double>(each) * (weighs ? static_cast<double>(batch.weights[i / each]) : 1.0);
  });
  sum_ += sum;
  weight_ += weight_of_batch;
}

}  // namespace tandem
