#include "trainer/kept_plans.h"

#include <set>

#include "base/file.h"
#include "planner/lower/calibration.h"
#include "planner/plan/plan_file.h"

namespace tandem {
namespace {

constexpr std::string_view ending = ".plan";

// The file of a request. Another version of a library may not have a kernel any more: it is part of the name.
std::string name_of(Plan estimated, const CompileOptions& options, Backends backends) {
  std::set<std::string> names;
  for (const DeviceSpec& d : options.devices)
    if (names.insert(d.id.backend).second) estimated.warnings.push_back(find_backend(backends, d.id.backend).version());
  const char* const mode = options.mode == PlanMode::training ? "training-" : "inference-";
  return concat(mode, options.batch, '-', hash_of(estimated), ending);
}

}  // namespace

KeptPlans::KeptPlans(std::filesystem::path folder, bool resume) : folder_(std::move(folder)), resume_(resume) {
  if (!std::filesystem::exists(folder_)) return;
  remove_abandoned_files(folder_);
  if (resume_) return;
  std::vector<std::filesystem::path> old;
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    if (entry.path().extension() == ending) old.push_back(entry.path());
  std::error_code ignored;
  for (const auto& file : old) std::filesystem::remove(file, ignored);
}

Plan KeptPlans::compile(const GraphSource& source, const CompileOptions& options, Backends backends, const Plan* parameters_of,
                        const Plan* given) {
  if (folder_.empty()) {
    Plan plan = given ? *given : tandem::compile(source, options, backends, parameters_of);
    if (!given && !chooses_by_time(options)) use_calibrations(plan, backends, options.tuning.cache);
    return plan;
  }
  CompileOptions untimed = options;
  untimed.tuning.autotune = false;
  Plan plan = tandem::compile(source, untimed, backends, parameters_of);
  const std::string request = name_of(plan, options, backends);
  const std::filesystem::path file = folder_ / request;
  if (resume_ && std::filesystem::exists(file)) {
    try {
      plan = parse_plan(read_file(file, ExitCode::model));
      verify(plan);
      if (plan.made_from != fingerprint_of(plan, request))
        fail("is not the plan that was made from this model for these devices and options",
             plan.made_from == 0 ? ": it does not say what it was made from" : ": it was changed, or made from another");
    } catch (const Error& e) {
      fail(e.code(), file.string(), ": ", e.what(), " (without the file the run is planned anew)");
    }
    return plan;
  }
  made_ = made_ || !given;
  if (given) {
    plan = *given;
  } else if (chooses_by_time(options)) {
    CompileOptions timed = options;
    timed.passes.on_placement = {};  // it was told
    plan = tandem::compile(source, timed, backends, parameters_of);
  }
  if (!given && !chooses_by_time(options)) use_calibrations(plan, backends, options.tuning.cache);
  plan.made_from = fingerprint_of(plan, request);
  try {
    make_writable_folder(folder_);
    write_atomically(file, serialize(plan));
  } catch (const Error& e) {
    if (e.code() != ExitCode::io) throw;
    failure_ = e.what();
  }
  return plan;
}

}  // namespace tandem
