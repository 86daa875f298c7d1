#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "base/spec.h"
#include "base/units.h"
#include "cli/backends.h"
#include "cli/chosen_devices.h"
#include "cli/command.h"
#include "cli/plan_job.h"
#include "cli/run_options.h"
#include "cli/what_if.h"
#include "options/data_flags.h"
#include "options/device_flags.h"
#include "options/loss_flags.h"
#include "options/model_options.h"
#include "options/optimizer_flags.h"
#include "options/tune_options.h"
#include "options/weight_flags.h"
#include "planner/explain.h"
#include "planner/plan/diff.h"
#include "planner/plan/plan_file.h"
#include "planner/plan/plan_formats.h"
#include "planner/plan/print.h"
#include "runtime/step_kernel.h"

namespace tandem {
namespace {

struct PlanFlags : FlagGroup {
  Switch training{*this, "training", off, "plan a training step (the default)"};
  Switch inference{*this, "inference", off, "plan inference, as predict runs it"};
  Switch evaluation{*this, "evaluation", off, "plan what evaluate runs on --data: inference with loss and metrics"};
  Flag<std::string> format{*this, "format", "NAME", "text", "text, summary, json, dot, mermaid or svg (placement by module), html (a page of pictures and tables), perfetto (a trace of the planned step), onnx (the training graph, for a viewer; with --inference the model for one batch, with weights) or plan (binary)"};
  Flag<std::string> output{*this, "output", "FILE", "", "write there instead of to stdout", {.scope = FlagScope::place}};
  Flag<std::string> diff{*this, "diff", "FILE.plan", "", "show what differs between this plan and that of FILE.plan, as text, json or html; exit code 1 where anything does"};
  Flag<std::string> explain{*this, "explain", "NAME", "", "say of the nodes, modules, values and parameters of this name (or pattern, as --place takes it) where and why they are: devices, kernels and others that could do it, passes, memory, who reads and writes them, what moves; as text or json"};
  Switch annotate{*this, "annotate", off, "with --format onnx: write the model itself, with its placement as a device configuration (ONNX IR 11), instead of the training graph"};
  Flag<std::string> check{*this, "check", "FILE", "", "verify a plan file, and make its kernels where its devices are here"};
  Switch autotune{*this, "autotune", off, "time kernels; needs the devices", {.scope = FlagScope::command}};
  Switch verify_passes{*this, "verify-passes", off, "check what each of the planner's passes promises of the graph it leaves"};
  Flag<std::string> cluster{*this, "cluster", "FILE", "", "descriptions of devices, beside those of `tandem devices --known` or in their place: peaks, memory, links; JSON as `tandem devices --known --json` prints it"};
  Flag<std::string> what_if{*this, "what-if", "KEY=VALUES", "", "a table of estimates instead of a plan: devices=1..64, batch=256|512 (of all devices; 32/device: of each), precision=fp32|bf16, link=12|50 (GB/s of the outermost links), price=2.5 (of a device's hour); with --output FILE.svg or .png a chart, too"};
  Flag<std::string> dump_passes{*this, "dump-passes", "DIR", "", "write the graph there as it comes and as each pass leaves it, as text"};
};
constexpr PlanFlags plan_flags;

// One file a pass, in a folder for each size of slice: DIR/8-samples/03-simplify.txt. Beside them passes.txt: how long each took, and what
// it is for.
void dump_passes(CompileOptions& o, const std::filesystem::path& folder) {
  make_writable_folder(folder);
  o.passes.after = [folder, list = std::string()](const PassResult& r) mutable {
    const std::filesystem::path slice = folder / concat(r.samples, "-samples");
    make_writable_folder(slice);
    write_atomically(slice / concat(r.number < 10 ? "0" : "", r.number, '-', r.name, ".txt"), print(r.graph));
    if (r.number == 0) list.clear();
    list += fmt::format("{:02}  {:>10.3f} ms  {:<28}  {}\n", r.number, r.seconds * 1e3, r.name, r.why);
    write_atomically(slice / "passes.txt", list);
  };
}

int check(const Invocation& call, const std::string& path) {
  const Plan plan = read_plan(path);
  std::vector<DeviceSpec> devices;
  for (const PlanDevice& d : plan.devices) devices.push_back({.id = d.device});
  const BackendSet backends = BackendSet::load(devices);
  std::vector<std::string> left;
  try {
    left = check_kernels(plan, backends.all());
  } catch (const Error& e) {
    fail(e.code(), path, ": ", e.what(), ": a plan of another build or machine is to be made again");
  }
  for (const std::string& line : left) call.say("note: " + line);
  if (call.json())
    call.print(
        Json::Object{{"file", path}, {"ok", true}, {"model", plan.model}, {"devices", plan.devices.size()}, {"hash", hash_of(plan)}});
  else
    call.write(concat(path, ": ok, ", plan.model, ", batch ", plan.batch, ' ', counted_devices(plan), ", ", hash_of(plan), "\n"));
  return 0;
}

// Each of the smaller sizes has a plan of its own.
std::string text_of_buckets(const Model& model, const ModelOptions& options, Backends backends) {
  const auto& [name, sizes] = *options.buckets.begin();
  std::string text = concat("the plan shown is that of ", name, '=', sizes.back());
  for (std::size_t b = 0; b + 1 < sizes.size(); ++b) {
    ModelOptions smaller = options;
    smaller.buckets.clear();
    smaller.plan.passes.on_placement = {};
    for (const auto& [dim, all] : options.buckets) smaller.dims[dim] = all[b];
    std::int64_t most = 0;
    for (const DeviceProgram& program : model.source().make_plan(smaller, backends).programs)
      most = std::max(most, program.peak_bytes());
    text += concat("; ", name, '=', sizes[b], " takes ", text_of_bytes(most), " of the fullest device");
  }
  return text;
}

// The known kinds of devices, and a file's before them.
std::vector<DeviceKind> kinds_with(const std::string& file) {
  std::vector<DeviceKind> kinds = known_device_kinds();
  if (file.empty()) return kinds;
  constexpr std::int64_t most = 16 << 20;  // bytes
  std::vector<DeviceKind> own;
  try {
    own = read_device_kinds(Json::parse(read_regular(file, most, ExitCode::usage)), file);
  } catch (const Error& e) {
    fail(e.code(), std::string_view(e.what()).starts_with(file) ? "" : concat(file, ": "), e.what());
  }
  std::erase_if(kinds, [&](const DeviceKind& kind) { return find_device_kind(own, kind.name) != nullptr; });
  kinds.insert(kinds.begin(), own.begin(), own.end());
  return kinds;
}

// The model with the placement that it was planned with.
int annotate(const Invocation& call, const Model& model, const ModelOptions& options, const BackendSet& backends) {
  const std::string file = call.arguments[plan_flags.output];
  const DeviceConfiguration c = model.source().configuration_of(model.source().make_plan(options, backends.all()), options);
  model.source().file().write(file, {}, {.configuration = c});
  call.say(concat("device configuration '", c.name, "' of ", c.devices, c.devices == 1 ? " device: " : " devices: ", c.tensors.size(),
                  " tensors and ", c.nodes.size(), " nodes are placed"));
  return 0;
}

// What --format names; none: onnx, which no plan but the model gives.
const PlanFormat* format_of(const std::string& name) {
  if (const PlanFormat* const found = find_plan_format(name)) return found;
  std::vector<std::string> names{"onnx"};
  for (const PlanFormat& f : plan_formats()) names.emplace_back(f.name);
  if (name != "onnx") fail(ExitCode::usage, "--format: unknown format '", name, "'", suggestion(name, names));
  return nullptr;
}

std::string format_name(const Invocation& call) { return call.json() ? "json" : call.arguments[plan_flags.format]; }

// Fails (usage) where --format names none of the forms of what is asked for.
void check_format(const Invocation& call) {
  const std::string format = format_name(call);
  const bool diff = !call.arguments[plan_flags.diff].empty(), explain = !call.arguments[plan_flags.explain].empty();
  if (diff && explain) fail(ExitCode::usage, plan_flags.diff.flag(), " and ", plan_flags.explain.flag(), " exclude each other");
  if (diff && !find_diff_format(format)) fail(ExitCode::usage, "--format ", format, ": --diff gives text, json or html");
  if (explain && format != "text" && format != "json") fail(ExitCode::usage, "--format ", format, ": --explain gives text or json");
  if (!diff && !explain) format_of(format);
}

void check_files(const Invocation& call) {
  const std::string format = format_name(call), output = call.arguments[plan_flags.output], other = call.arguments[plan_flags.diff];
  if (!other.empty() && !is_plan_file(other)) read_plan(other);  // fails with the reason
  if (!output.empty())
    check_writable_file(output);
  else if (call.streams.out_terminal && (format == "plan" || format == "onnx"))
    fail(ExitCode::usage, "--format ", format, " is binary and not written to a terminal: give --output FILE or redirect stdout to one");
}

void write_output(const Invocation& call, const std::string& text) {
  const std::string format = format_name(call);
  if (const std::string output = call.arguments[plan_flags.output]; !output.empty())
    write_atomically(output, text);
  else if (format == "plan" || format == "onnx")
    call.write_bytes(text);
  else
    call.write(text.empty() || text.back() == '\n' ? text : text + "\n");
}

// Those that formats do not show themselves.
void tell_warnings(const Invocation& call, const Plan& plan) {
  const std::string format = format_name(call);
  if (format == "text" || format == "summary") return;
  for (const std::string& warning : plan.warnings) call.say("warning: " + warning);
}

// The plan in the form asked for, what --explain asks of it, or how that of --diff differs from it. Returns the exit code.
int show(const Invocation& call, const Plan& plan, const std::string& name, const ExplainContext& context) {
  const Arguments& a = call.arguments;
  const std::string format = format_name(call);
  if (const std::string pattern = a[plan_flags.explain]; !pattern.empty()) {
    const std::vector<Explanation> list = explain(plan, pattern, context);
    write_output(call, format == "json" ? json_of(list).dump() : text_of(list));
    return 0;
  }
  if (const std::string file = a[plan_flags.diff]; !file.empty()) {
    const Plan other = read_plan(file);
    const PlanDiff diff = diff_of(plan, other);
    write_output(call, find_diff_format(format)->write({name, plan}, {file, other}, diff));
    return diff.equal ? 0 : 1;
  }
  write_output(call, format_of(format)->write(plan));
  return 0;
}

// A plan that was made before, printed: nothing is planned, so options that decide plans mean nothing.
int print_file(const Invocation& call, const std::string& path) {
  const FlagRow* const wanted[] = {&plan_flags.format, &plan_flags.output,  &plan_flags.diff,    &plan_flags.explain,
                                   &common_flags.json, &common_flags.quiet, &common_flags.config};
  for (const FlagRow* row : call.arguments.given())
    if (std::ranges::find(wanted, row) == std::end(wanted))
      fail(ExitCode::usage, row->flag(), ": ", path, " is a plan already, shown as it is; --format and --output say how and where");
  check_format(call);
  if (format_name(call) == "onnx")
    fail(ExitCode::usage, "--format onnx: ", path, " is a plan, and the graph is that of a model: give the model");
  check_files(call);
  const Plan plan = read_plan(path);
  tell_warnings(call, plan);
  std::vector<DeviceSpec> devices;
  for (const PlanDevice& d : plan.devices) devices.push_back({.id = d.device});
  const BackendSet backends = call.arguments[plan_flags.explain].empty() ? BackendSet() : BackendSet::load(devices);
  return show(call, plan, path, {.backends = backends.all()});
}

Purpose purpose_of(const Arguments& a) {
  const Switch* const chosen[] = {&plan_flags.training, &plan_flags.inference, &plan_flags.evaluation};
  if (std::ranges::count_if(chosen, [&](const Switch* s) { return a[*s]; }) > 1)
    fail(ExitCode::usage, "--training, --inference and --evaluation exclude each other");
  return a[plan_flags.inference] ? Purpose::predict : a[plan_flags.evaluation] ? Purpose::evaluate : Purpose::plan;
}

int run(const Invocation& asked_call) {
  if (const std::string file = asked_call.arguments[plan_flags.check]; !file.empty()) return check(asked_call, file);
  if (const std::string& file = asked_call.arguments[model_file]; is_plan_file(file)) return print_file(asked_call, file);
  const Arguments a = with_devices(asked_call, 1, true);
  const Invocation call{a, asked_call.streams, asked_call.environment};
  const Purpose purpose = purpose_of(a);
  const std::string format = format_name(call);
  check_format(call);
  if (a[plan_flags.annotate] && (format != "onnx" || a[plan_flags.output].empty()))
    fail(ExitCode::usage, "--annotate needs --format onnx and --output FILE: it writes the model");
  for (const FlagRow* const flag : {static_cast<const FlagRow*>(&tune_flags.head), static_cast<const FlagRow*>(&tune_flags.lora),
                                    static_cast<const FlagRow*>(&adapter_flags.adapter)})
    if (a[plan_flags.annotate] && a.given(*flag))
      fail(ExitCode::usage, "--annotate writes the weights of the file, which has none for --", flag->name);
  std::optional<WhatIf> what_if;
  if (const std::string text = a[plan_flags.what_if]; !text.empty()) {
    what_if = parse_what_if(text);
    check_chart(a[plan_flags.output]);
  }
  check_files(call);

  const std::vector<DeviceKind> kinds = kinds_with(a[plan_flags.cluster]);
  PlanJob job = plan_job(call, purpose, kinds);
  const Model& model = job.model;
  const BackendSet& backends = job.backends;
  ModelOptions& options = job.run.options;
  options.plan.passes.verify = a[plan_flags.verify_passes];
  if (const std::string folder = a[plan_flags.dump_passes]; !folder.empty()) dump_passes(options.plan, folder);
  PassNotes notes(a[plan_flags.explain]);
  if (!a[plan_flags.explain].empty()) notes.listen(options.plan);
  backends.check(options.plan.devices, chooses_by_time(options.plan));
  for (const std::string& note : backends.notes(options.plan.devices)) call.say("note: " + note);
  if (a[plan_flags.annotate]) return annotate(call, model, options, backends);
  if (what_if) {
    show_what_if(call, model.source(), options, *what_if, kinds, a[plan_flags.output]);
    return 0;
  }
  if (format == "onnx") {
    write_output(call, model.source().training_graph(options));
    return 0;
  }
  const Plan plan = recorded_plan(a, purpose, job);
  tell_warnings(call, plan);
  if (!options.buckets.empty()) call.say("note: " + text_of_buckets(model, options, backends.all()));
  ExplainContext context{.notes = &notes, .backends = backends.all(), .tuning = options.plan.tuning};
  for (auto& [node, said] : model.source().file().node_notes()) context.modules[node] = said.modules;
  return show(call, plan, a[model_file], context);
}

}  // namespace

Command plan_command() {
  return {
      .name = "plan",
      .help = "show how a model would be trained or run: steps, kernels, memory, communication",
      .positionals = {model_file},
      .usage = "MODEL.onnx [options]\n       tandem plan FILE.plan [--format NAME] [--output FILE] [--diff OTHER.plan]\n"
               "       tandem plan --check FILE.plan",
      .examples =
          "  tandem plan models/lenet.onnx --devices cpu:0-3 --batch-size 128\n"
          "  tandem plan models/resnet50.onnx --batch-size 8 --format summary\n"
          "  tandem plan models/lenet.onnx --data idx:data/mnist    # as a run on it is planned\n"
          "  tandem plan models/resnet50.onnx --format html --output resnet50.html\n"
          "  tandem plan models/resnet50.onnx --devices h100 --batch-size 256 --precision bf16 --what-if devices=1..64\n"
          "  tandem plan models/resnet50.onnx --format plan --output resnet50.plan\n"
          "  tandem plan resnet50.plan --format html --output resnet50.html\n"
          "  tandem plan resnet50.plan --diff other.plan\n"
          "  tandem plan --check resnet50.plan\n",
      .options = {&plan_flags, &data_flags, &loss_flags, &target_flags, &metric_flags, &optimizer_flags, &weight_flags, &tune_flags,
                  &adapter_flags, &device_flags, &placement_flags},
      .run = run,
  };
}

}  // namespace tandem
