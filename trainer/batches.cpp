// Steps on batches that a caller brings.
#include <algorithm>

#include "planner/micro_batches.h"
#include "trainer/loss_measures.h"
#include "trainer/model.h"

namespace tandem {
namespace {

// A batch's tensors as pointers in the targets' order, checked.
std::vector<std::byte*> pointers(std::span<const Tensor> tensors, std::span<const FeedTarget> targets, std::int64_t& batch) {
  if (tensors.size() != targets.size()) fail(ExitCode::data, "a batch of ", tensors.size(), " tensors for ", targets.size(), " inputs");
  std::vector<std::byte*> list;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const TensorType& got = tensors[i].type();
    if (i == 0) batch = got.shape.rank() ? got.shape[0] : 0;
    TensorType want = targets[i].sample;
    want.shape.dims.insert(want.shape.dims.begin(), batch);
    if (got != want) fail(ExitCode::data, "'", targets[i].name, "' given ", got, ", expected ", want);
    list.push_back(const_cast<std::byte*>(tensors[i].bytes().data()));
  }
  return list;
}

// Rows as often as they stand in the micro-batches.
Tensor filled(const Tensor& rows, const MicroBatches& parts) {
  TensorType type = rows.type();
  const std::size_t each = rows.bytes().size() / static_cast<std::size_t>(type.shape[0]);
  type.shape[0] = parts.batch();
  Tensor all(type);
  auto to = all.write().begin();
  for (const std::int64_t place : places_of(parts))
    to = std::ranges::copy(rows.bytes().subspan(static_cast<std::size_t>(place) * each, each), to).out;
  return all;
}

}  // namespace

StepReport Model::train_on_batch(std::span<const Tensor> inputs, double rate) {
  CompiledModel& s = *compiled_;
  s.running();
  std::int64_t batch = 0;
  std::vector<std::byte*> list = pointers(inputs, s.targets, batch);
  std::vector<Tensor> more;
  const MicroBatches parts = micro_batches_of(batch, s.micro_batch());
  if (s.session->plan(0).micro_batches > 1 && parts.batch() > batch) {
    for (const Tensor& rows : inputs) more.push_back(filled(rows, parts));
    list = pointers(more, s.targets, batch);
    batch = inputs[0].shape()[0];
  }
  const std::size_t plan = s.plan_for({.mode = PlanMode::training, .batch = batch});
  ++s.step;
  s.initial = false;
  s.run(plan, list, rate);
  StepReport report = s.report(plan, rate);
  report.weights = s.weigh(list, batch, 0);
  return report;
}

std::vector<Tensor> Model::predict_on_batch(std::span<const Tensor> inputs, const std::vector<std::string>& wanted) {
  CompiledModel& s = *compiled_;
  s.running();
  std::int64_t batch = 0;
  std::vector<std::byte*> list = pointers(inputs, s.inputs(), batch);
  list.resize(s.targets.size());
  const std::size_t plan = s.plan_for({.mode = PlanMode::inference, .batch = batch, .outputs = wanted});
  s.run(plan, list, 0);
  std::vector<Tensor> outputs;
  for (std::size_t i = 0; i < s.runners[plan].storage.size(); ++i) {
    outputs.emplace_back(s.session->plan(plan).outputs[i].type);
    const auto to = outputs.back().write();
    std::copy_n(s.runners[plan].storage[i].begin(), to.size(), to.begin());
  }
  return outputs;
}

Evaluation Model::test_on_batch(std::span<const Tensor> inputs, const std::vector<std::string>& metrics) {
  CompiledModel& s = *compiled_;
  s.running();
  if (s.losses.empty()) s.source.losses_for(s.options);  // says why there is no loss
  std::int64_t batch = 0;
  const std::vector<std::byte*> list = pointers(inputs, s.targets, batch);
  const std::size_t plan = s.plan_for({.mode = PlanMode::inference, .batch = batch, .evaluation = evaluation_of(s.losses, metrics)});
  s.run(plan, list, 0);
  LossMeasures measures(s, metrics);
  measures.add(s.session->plan(plan), s.runners[plan], labels_in(s.losses, s.targets, list, batch));
  return measures.result();
}

}  // namespace tandem
