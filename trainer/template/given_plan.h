// A plan that was made before, in place of planning (ModelOptions::plan_file), and what a plan says of how it was made.
#pragma once
#include <optional>
#include <string>

#include "planner/loss/labels.h"
#include "trainer/template/forms.h"
#include "trainer/template/model_template.h"

namespace tandem {

// The plan of o.plan_file; none where o names no file. Fails as parse_plan does, naming the file.
std::optional<Plan> given_plan(const ModelOptions& o);

// The options as a plan has them where they leave it open: one that takes numbers is given none of its inputs as bytes.
ModelOptions followed(ModelOptions o, const Plan& plan);

// What a plan of this key says of what it was made of; its options are o.record.
PlanRecord record_of(const ModelTemplate& model, const ModelOptions& o, const PlanKey& key, const Losses& losses, Backends backends);

// Why a plan cannot be run for these options here, of this process's devices: what differs, with both sides; empty: it can. A plan that
// has no record cannot.
struct Misfit {
  ExitCode code = ExitCode::usage;
  std::string text;
};
std::optional<Misfit> misfit_of(const Plan& plan, const ModelTemplate& model, const ModelOptions& o, const PlanKey& key,
                                const Losses& losses, Backends backends);

// The plan, where it can be run. Fails with the misfit where it cannot; with o.replan: none, and `why` says what does not fit.
std::optional<Plan> fitting(std::optional<Plan> plan, const ModelTemplate& model, const ModelOptions& o, const PlanKey& key,
                            const Losses& losses, Backends backends, std::string& why);

}  // namespace tandem
