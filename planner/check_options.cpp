#include "planner/check_options.h"

#include <algorithm>

#include "graph/pattern.h"
#include "graph/suggest.h"
#include "planner/labels.h"
#include "planner/optimizer.h"
#include "planner/rewrite.h"

namespace tandem {

void check_options(const GraphSource& source, const CompileOptions& o, Backends backends) {
  if (o.devices.empty()) fail(ExitCode::usage, "a plan needs at least one device");
  if (o.batch < 1) fail(ExitCode::usage, "batch size must be at least 1, got ", o.batch);
  for (const DeviceSpec& d : o.devices)
    if (const std::string reason = find_backend(backends, d.id.backend).declines(o.precision); !reason.empty())
      fail(ExitCode::device, "precision ", o.precision, " on device ", d.id, ": ", reason);
  check_loss(o.loss);
  if (o.mode != PlanMode::training) return;
  update_rule(o.optimizer);
  loss_scaling_of(o);
  if (!o.freeze.empty() || !o.unfreeze.empty()) check_patterns(source(1), o);
}

void check_patterns(const Graph& model, const CompileOptions& o) {
  for (const auto& [option, patterns] : {std::pair{"freeze", &o.freeze}, {"unfreeze", &o.unfreeze}})
    for (const std::string& pattern : *patterns) {
      std::vector<std::string> names = o.tensors;
      for (const Value& v : model.values)
        if (v.kind == ValueKind::parameter || v.kind == ValueKind::constant) names.push_back(v.name);
      if (std::any_of(names.begin(), names.end(), [&](const std::string& name) { return matches_any(name, {pattern}); })) continue;
      const std::string near = nearest(pattern, names);
      fail(ExitCode::usage, "--", option, " '", pattern, "': model '", model.name, "' has no parameter of that name",
           near.empty() ? std::string() : concat(", did you mean '", near, "'?"));
    }
}

}  // namespace tandem
