#include "cli/run_options.h"

#include "cli/rank_flags.h"
#include "options/device_flags.h"
#include "options/model_options.h"

namespace tandem {
namespace {

// That share the devices; of a dry run those that there will be.
int ranks_of(const Arguments& a, const World* world) {
  return world ? world->ranks() : static_cast<int>(a[rank_flags.processes].value_or(1));
}

RunOptions with_messages(RunOptions o, const Invocation& call, World* world) {
  if (call.arguments[device_flags.log_placement]) o.model.plan.passes.on_placement = [&call](const std::string& line) { call.note(line); };
  o.model.world = world;
  o.on_note = [&call](const std::string& text) { call.say("note: " + text); };
  o.on_warning = [&call](const std::string& text) { call.warn(text); };
  return o;
}

}  // namespace

RunOptions run_options(const Invocation& call, Purpose purpose, World* world) {
  return with_messages(run_options(call.arguments, purpose, ranks_of(call.arguments, world)), call, world);
}

RunOptions training_options(const Invocation& call, const Model& model, World* world) {
  RunOptions o = training_options(call.arguments, model, Purpose::train, ranks_of(call.arguments, world));
  o.fit.run_dir_held = true;
  return with_messages(std::move(o), call, world);
}

}  // namespace tandem
