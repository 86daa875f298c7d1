#include "cli/train_outputs.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/space.h"
#include "cli/run_place.h"
#include "options/train_flags.h"

namespace tandem {
namespace {

// A folder of other things is not a run's: not even --overwrite would write among them.
void check_run_folder(const std::filesystem::path& folder) {
  std::string other;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name == "last.checkpoint" || name == run_lock_name || (name == "config.json" && is_run_config(entry.path().string()))) return;
    if (!name.starts_with('.') && (other.empty() || name < other)) other = name;
  }
  if (!other.empty())
    fail(ExitCode::usage, "--run-dir ", folder.string(), ": the folder holds ", other,
         " and no run of tandem: give a new or an empty folder");
}

}  // namespace

RunLock check_outputs(const Invocation& call, World* world, bool dry) {
  const Arguments& a = call.arguments;
  const World::Busy busy(world);
  for (const std::string& file : {a[output_flags.output], a[output_flags.also_training_graph], a[record_flags.profile]})
    if (!file.empty()) (dry ? check_could_write_file : check_writable_file)(file);
  const std::filesystem::path run = a[record_flags.run_dir];
  if (run.empty()) {
    if (a[record_flags.resume])
      fail(ExitCode::usage, "--resume needs --run-dir, the folder of the run to go on with (tandem runs lists them)");
    if (a[output_flags.keep] == KeptWeights::best)
      fail(ExitCode::usage, "--keep best needs a run folder, where the best checkpoint is kept: give --run-dir another than none");
    return {};
  }
  (dry ? check_could_make_folder : make_writable_folder)(run);
  if (std::filesystem::exists(run)) check_run_folder(run);
  RunLock lock = dry && !std::filesystem::exists(run / run_lock_name)
                     ? RunLock()
                     : RunLock(run, [&](const std::string& text) { call.say("note: " + text); });
  if (!a[record_flags.resume] && !a[record_flags.overwrite] && holds_checkpoint(run))
    fail(ExitCode::usage, run.string(), " holds a run: --resume goes on with it, --overwrite starts anew");
  return lock;
}

SaveOptions save_options(const Arguments& a) {
  return {.keep_external_layout = a[output_flags.keep_external_layout], .overwrite = a[record_flags.overwrite]};
}

namespace {

struct LoraExport {
  bool merged = false, inputs = false, adapter = false;
};
LoraExport lora_export(const Arguments& a, const Model& model) {
  LoraExport e;
  for (const std::string& what : a[output_flags.lora_export]) {
    bool* const asked = what == "merged" ? &e.merged : what == "inputs" ? &e.inputs : what == "adapter" ? &e.adapter : nullptr;
    if (!asked) fail(ExitCode::usage, "--lora-export ", what, ": expected merged, inputs or adapter, or several separated by commas");
    *asked = true;
  }
  if (model.file().adapters().empty()) {
    if (e.inputs || e.adapter)
      fail(ExitCode::usage, "--lora-export says how adapters are written, and the model has none: --lora adds them");
    return {.merged = true};
  }
  e.adapter = e.adapter || e.inputs;  // without them that model is the base
  if (e.adapter && !e.merged && !e.inputs && !model.file().head().empty())
    fail(ExitCode::usage, "--lora-export adapter writes the adapters alone, and the new head would be lost: name merged or inputs besides");
  return e;
}

std::filesystem::path inputs_path(const std::filesystem::path& path, const LoraExport& e) {
  return e.merged ? path_beside(path, ".inputs" + path.extension().string()) : path;
}
std::filesystem::path adapter_path(const std::filesystem::path& path) { return path_beside(path, adapter_extension); }

// The models that are going to be written.
std::vector<WrittenLater> models_to_write(const Arguments& a, const Model& model) {
  const LoraExport e = lora_export(a, model);
  const std::filesystem::path output = a[output_flags.output];
  SaveOptions options = save_options(a);
  std::vector<WrittenLater> files;
  if (e.merged) files.push_back({"the trained model", output, model.file().check_write(output, options)});
  options.adapters_as_inputs = true;
  if (e.inputs) files.push_back({"the trained model", inputs_path(output, e), model.file().check_write(inputs_path(output, e), options)});
  return files;
}

}  // namespace

std::vector<std::string> save_outputs(const Arguments& a, const Model& model, const std::filesystem::path& path, SaveOptions options) {
  const LoraExport e = lora_export(a, model);
  std::vector<std::string> written;
  const auto note = [&](const std::filesystem::path& file) { written.push_back(file.string()); };
  if (e.merged) model.save(path, a[output_flags.metadata], options), note(path);
  options.adapters_as_inputs = true;
  if (e.inputs) model.save(inputs_path(path, e), a[output_flags.metadata], options), note(inputs_path(path, e));
  if (e.adapter) model.save_adapter(adapter_path(path)), note(adapter_path(path));
  return written;
}

void check_export(const Arguments& a, const Model& model) {
  if (lora_export(a, model).adapter)
    (a[output_flags.dry_run] ? check_could_write_file : check_writable_file)(adapter_path(a[output_flags.output]).string());
  check_space(models_to_write(a, model));
}

void check_room(const Arguments& a, const Model& model, const Plan& plan) {
  if (a[output_flags.output].empty()) return;
  std::vector<WrittenLater> files = models_to_write(a, model);
  if (const std::filesystem::path run = a[record_flags.run_dir]; !run.empty()) {
    WrittenLater checkpoints{"a checkpoint", run / "last.checkpoint", 0};
    for (const PlanParameter& p : plan.parameters)
      if (p.role == ValueRole::plain || p.role == ValueRole::optimizer_state)
        checkpoints.bytes += bytes_of(p.type);
    checkpoints.files += static_cast<int>(std::min<std::int64_t>(a[record_flags.keep_checkpoints], 1000));
    if (a[train_flags.epochs] > 1 || a[record_flags.checkpoint_steps] > 0 || !a[record_flags.checkpoint_every].empty())
      for (const char* name : {"last.checkpoint", "previous.checkpoint"}) checkpoints.files += !std::filesystem::exists(run / name);
    files.push_back(checkpoints);
  }
  check_space(files);
}

void check_training_info(const Arguments& a, const Model& model, double rate) {
  if (a[output_flags.keep] == KeptWeights::best)
    fail(ExitCode::usage, "--export-training-info: the optimizer's states are those of the last weights: not with --keep best");
  SaveOptions options = save_options(a);
  options.training = model.training_step(rate);
  model.file().check_write(a[output_flags.output], options);
}

void write_training_graph(const Invocation& call, const std::string& path, const std::string& graph) {
  try {
    write_atomically(path, graph);
  } catch (const Error& e) {
    if (e.code() != ExitCode::io) throw;
    call.warn(concat(e.what(), "; the run goes on without it"));
  }
}

}  // namespace tandem
