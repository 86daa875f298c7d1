#include "cli/train_events.h"

#include <algorithm>

#include "planner/plan/plan_file.h"
#include "planner/plan/process_memory.h"

namespace tandem {

Json step_event(const StepReport& r) {
  Json::Object event{{"event", "step"},        {"step", r.step},
                      {"epoch", r.epoch},       {"loss", r.loss},
                      {"accuracy", r.accuracy}, {"learning_rate", r.learning_rate},
                      {"loss_scale", r.loss_scale},
                      {"seconds", r.seconds},   {"samples_per_second", static_cast<double>(r.samples) / r.seconds}};
  for (const auto& [name, value] : r.metrics) event.emplace_back(name, value);
  return event;
}

Json epoch_event(const EpochReport& r) {
  Json::Object event{{"event", "epoch"},
                      {"epoch", r.epoch},
                      {"step", r.step},
                      {"loss", r.loss},
                      {"accuracy", r.accuracy},
                      {"val_loss", r.val_loss},
                      {"val_accuracy", r.val_accuracy},
                      {"learning_rate", r.learning_rate},
                      {"seconds", r.seconds},
                      {"samples_per_second", r.samples_per_second}};
  for (const auto& [name, value] : r.metrics) event.emplace_back(name, value);
  return event;
}

Json plan_event(const Plan& plan, const std::vector<Choice>& choices) {
  std::int64_t bytes = 0;  // of the fullest device
  Json::Array devices;
  for (const PlanDevice& d : plan.devices) {
    const DeviceProgram& program = plan.programs[d.program];
    bytes = std::max(bytes, program.peak_bytes());
    devices.push_back(Json::Object{
        {"device", to_string(d.device)}, {"samples", d.slice_size}, {"peak_bytes", program.peak_bytes()}, {"steps", program.steps.size()}});
  }
  return Json::Object{{"event", "plan"},
                      {"model", plan.model},
                      {"batch_size", plan.batch},
                      {"precision", name_of(plan.precision)},
                      {"predicted_peak_bytes", bytes},
                      {"predicted_process_bytes", process_memory(plan).total()},
                      {"predicted_step_seconds", plan.seconds},
                      {"devices", std::move(devices)},
                      {"warnings", plan.warnings},
                      {"choices", json_of(choices)},
                      {"hash", hash_of(plan)}};
}

Json stopped_event(const History& history, const std::string& output) {
  return Json::Object{{"event", "stopped"}, {"step", history.steps}, {"output", output.empty() ? Json() : Json(output)}};
}

Json done_event(const Model& model, const History& history, const EpochReport& last, const Evaluation& test, const std::string& output) {
  return Json::Object{{"event", "done"},
                      {"step", history.steps},
                      {"epoch", last.epoch},
                      {"loss", last.loss},
                      {"accuracy", last.accuracy},
                      {"val_loss", last.val_loss},
                      {"val_accuracy", last.val_accuracy},
                      {"test_loss", test.loss},
                      {"test_accuracy", test.accuracy},
                      {"samples_per_second", history.samples_per_second},
                      {"waiting_share", history.waiting_share},
                      {"peak_bytes", model.allocated_bytes()},
                      {"predicted_peak_bytes", model.predicted_peak_bytes()},
                      {"output", output}};
}

}  // namespace tandem
