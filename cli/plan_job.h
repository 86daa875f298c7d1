// What plan and pack start from: a model and what its plan is made by.
#pragma once
#include "cli/command.h"
#include "trainer/prepare.h"

namespace tandem {

struct PlanJob {
  Model model;
  BackendSet backends;
  Prepared run;
};

// `call`: with its devices (with_devices). `kinds`: what devices there may be besides this machine's. Notes are said.
PlanJob plan_job(const Invocation& call, Purpose purpose, const std::vector<DeviceKind>& kinds);

// The plan with its record.
Plan recorded_plan(const Arguments& call, Purpose purpose, PlanJob& job);

}  // namespace tandem
