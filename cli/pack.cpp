// `tandem pack` and `tandem unpack`: what the runtime alone needs of a model (tandem/runtime.h), and the way back.
#include <array>
#include <filesystem>

#include "base/file.h"
#include "base/units.h"
#include "cli/chosen_devices.h"
#include "cli/command.h"
#include "cli/plan_job.h"
#include "options/data_flags.h"
#include "options/device_flags.h"
#include "options/loss_flags.h"
#include "options/optimizer_flags.h"
#include "options/train_flags.h"
#include "options/weight_flags.h"
#include "planner/plan/plan_file.h"
#include "runtime/safetensors.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr const char *plan_name = "model.plan", *weights_name = "weights.safetensors", *template_name = "template.onnx";

struct PackFlags : FlagGroup {
  Switch inference{*this, "inference", off, "a plan that predicts, not one that trains"};
  Flag<std::string> output{*this, "output", "DIR", "", "the folder that is made: model.plan, weights.safetensors and template.onnx", {.scope = FlagScope::place}};
  Flag<std::string> init{*this, "init", "NAME", "auto", train_flags.init.text};
  Flag<std::int64_t> seed{*this, "seed", "N", "1", train_flags.seed.text};
  Switch autotune{*this, "autotune", off, "time kernels and choose the fastest", {.scope = FlagScope::command}};
  Switch overwrite{*this, "overwrite", off, "replace what an earlier pack left in that folder", {.scope = FlagScope::call}};
};
constexpr PackFlags pack_flags;

struct UnpackFlags : FlagGroup {
  Flag<std::string> output{*this, "output", "FILE.onnx", "", "the model with the folder's weights", {.scope = FlagScope::place}};
  Flag<std::string> weights{*this, "weights", "FILE", "", "weights from elsewhere (default the folder's weights.safetensors)", {.scope = FlagScope::place}};
};
constexpr UnpackFlags unpack_flags;
constexpr Positional packed_folder{"folder"};

// What a plan and weights alone do not say.
void refuse_unpackable(const ModelOptions& o) {
  if (o.plan.optimizer.average) fail(ExitCode::usage, "--ema and --swa: averages of the weights are trained by the program alone");
  if (!o.teacher.empty()) fail(ExitCode::usage, "--teacher: a model with a teacher is trained by the program alone");
  if (!o.buckets.empty()) fail(ExitCode::usage, "--dim: a packed model has one size of each dimension");
  if (!o.states.empty())
    fail(ExitCode::usage, "the file's own training step has states already, which are not packed: --optimizer begins anew");
}

int pack(const Invocation& asked) {
  const Arguments a = with_devices(asked, 1, true);
  const Invocation call{a, asked.streams, asked.environment};
  a[model_file];
  a.require(pack_flags.output);
  const fs::path folder = a[pack_flags.output];
  if (fs::exists(folder / plan_name) && !a[pack_flags.overwrite])
    fail(ExitCode::usage, folder.string(), " holds a packed model already: --overwrite replaces it");
  const Purpose purpose = a[pack_flags.inference] ? Purpose::predict : Purpose::plan;
  PlanJob job = plan_job(call, purpose, known_device_kinds());
  ModelOptions& options = job.run.options;
  refuse_unpackable(options);
  job.backends.check(options.plan.devices, true);
  options.init = a[pack_flags.init];
  options.seed = static_cast<std::uint64_t>(a[pack_flags.seed]);
  const Plan plan = recorded_plan(a, purpose, job);
  for (const std::string& warning : plan.warnings) call.say("warning: " + warning);

  make_writable_folder(folder);
  write_atomically(folder / plan_name, serialize(plan));
  options.plan_file = folder / plan_name;  // it is read back, and its kernels are made
  job.model.compile(options, job.backends.all());
  for (const std::string& note : job.model.notes()) call.say("note: " + note);
  const std::vector<NamedTensor> weights = job.model.parameters();
  write_safetensors(folder / weights_name, {}, [&](const Session::Visit& visit) {
    for (const NamedTensor& t : weights) visit(t);
  });
  job.model.save(folder / template_name, true, {.overwrite = a[pack_flags.overwrite]});
  std::int64_t bytes = 0;
  for (const NamedTensor& t : weights) bytes += static_cast<std::int64_t>(t.tensor.bytes().size());
  if (call.json())
    call.print(Json::Object{{"folder", folder.string()}, {"plan", hash_of(plan)}, {"weights", weights.size()}, {"bytes", bytes}});
  else
    call.say(concat(folder.string(), ": ", plan_name, ", ", weights_name, " (", weights.size(), " tensors, ", text_of_bytes(bytes), "), ",
                    template_name));
  return 0;
}

int unpack(const Invocation& call) {
  const Arguments& a = call.arguments;
  const fs::path folder = a[packed_folder];
  a.require(unpack_flags.output);
  const std::string output = a[unpack_flags.output], given = a[unpack_flags.weights];
  check_writable_file(output);
  const ModelFile file = ModelFile::read(folder / template_name);
  const SafetensorsFile stored(given.empty() ? folder / weights_name : fs::path(given));
  ModelFile::WeightSource weights{{}, [&](const std::string& name) { return stored.read(name); }};
  for (const auto& [name, entry] : stored.entries())
    if (!name.starts_with(optimizer_state_prefix)) weights.weights.emplace_back(name, entry.type);
  file.write_from(weights, output);
  if (call.json())
    call.print(Json::Object{{"output", output}, {"weights", weights.weights.size()}});
  else
    call.say(concat(output, ": ", weights.weights.size(), " tensors"));
  return 0;
}

}  // namespace

Command pack_command() {
  return {
      .name = "pack",
      .help = "write what the runtime alone trains or runs: plan, weights and template",
      .positionals = {model_file},
      .usage = "MODEL.onnx --output DIR [options]",
      .examples =
          "  tandem pack models/lenet.onnx --batch-size 32 --lr 0.02 --momentum 0.9 --output lenet.packed\n"
          "  tandem pack trained.onnx --inference --batch-size 1 --output predictor\n"
          "  tandem unpack lenet.packed --output trained.onnx    # after libtandem_runtime has trained it\n",
      .options = {&pack_flags, &data_flags, &loss_flags, &target_flags, &optimizer_flags, &weight_flags, &tune_flags, &adapter_flags,
                  &device_flags, &placement_flags},
      .run = pack,
  };
}

Command unpack_command() {
  return {
      .name = "unpack",
      .help = "make an ONNX file again of a packed model and its trained weights",
      .positionals = {packed_folder},
      .usage = "DIR --output FILE.onnx [options]",
      .examples =
          "  tandem unpack lenet.packed --output trained.onnx\n"
          "  tandem unpack lenet.packed --weights epoch3.safetensors --output trained.onnx\n",
      .options = {&unpack_flags},
      .run = unpack,
  };
}

}  // namespace tandem
