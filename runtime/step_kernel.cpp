#include "runtime/step_kernel.h"

#include <algorithm>
#include <future>
#include <set>

namespace tandem {
namespace {

std::vector<Operand> operands(const DeviceProgram& program, const std::vector<BufferId>& ids) {
  std::vector<Operand> out;
  for (const BufferId id : ids) out.push_back(id.present() ? program.buffers[id].operand : Operand{});
  return out;
}

std::string text(const std::vector<Operand>& operands) {
  std::string s;
  for (const Operand& o : operands) s += (s.empty() ? "" : " ") + to_string(o);
  return s;
}

// Absent operands of the plan need no match: a kernel may describe fewer operands, or optional ones.
bool agree(const std::vector<Operand>& wanted, const std::vector<Operand>& got) {
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i].present() && (i >= got.size() || got[i] != wanted[i])) return false;
  return true;
}

// Why a device cannot be opened; empty where it can.
std::string absence_of(const DeviceId& id, Backends backends) {
  const auto backend = std::find_if(backends.begin(), backends.end(), [&](const Backend* b) { return b->name() == id.backend; });
  if (backend == backends.end()) return concat("this program has no backend ", id.backend, " here");
  if (const std::string reason = (*backend)->unusable(); !reason.empty()) return reason;
  return id.index < (*backend)->device_count() ? std::string()
                                               : concat("there are ", (*backend)->device_count(), " ", id.backend, " devices");
}

// What tells a step's kernel from another's.
std::string text_of(const DeviceId& device, const DeviceProgram& program, const Step& step, const LaunchStep& launch) {
  const std::int64_t room = step.workspace.present() ? program.buffers[step.workspace].bytes : 0;
  return concat(device.backend, ' ', program.model.threads, ' ', launch.op, ' ', launch.kernel, ' ', launch.attributes, ' ', room,
                ' ', text(operands(program, step.inputs)), " > ", text(operands(program, step.outputs)));
}

void check_device(const Plan& plan, std::size_t index, const Backend& backend, std::set<std::string>& seen) {
  const DeviceId& device = plan.devices[index].device;
  const DeviceProgram& program = plan.program_of(index);
  KernelOptions options = plan.options;
  if (program.model.threads > 0) options.threads = program.model.threads;
  const std::unique_ptr<Device> opened = backend.open(device.index, options);
  opened->activate();
  for (StepId id{0}; id.index < static_cast<int>(program.steps.size()); ++id.index) {
    const Step& step = program.steps[id];
    const auto* launch = step.as<LaunchStep>();
    if (!launch || !seen.insert(text_of(device, program, step, *launch)).second) continue;
    try {
      make_kernel(backend, plan, index, step, *launch);
    } catch (const Error& e) {
      fail(e.code(), device, ": ", text_of_step(plan, program, id), ": ", e.what());
    }
  }
}

}  // namespace

std::string text_of_step(const Plan& plan, const DeviceProgram& program, StepId id) {
  const Step& step = program.steps[id];
  const auto* launch = step.as<LaunchStep>();
  const std::string what = launch ? concat(launch->op, ", ", launch->kernel) : std::string(kind_of(plan, step));
  return concat("step ", id.index, " (", what, step.origin.empty() ? "" : concat(", from '", step.origin.front(), "'"), ")");
}

std::unique_ptr<Kernel> make_kernel(const Backend& backend, const Plan& plan, std::size_t device, const Step& step,
                                    const LaunchStep& launch) {
  const DeviceProgram& program = plan.program_of(device);
  KernelRequest request{.op = launch.op,
                        .attributes = &launch.attributes,
                        .inputs = operands(program, step.inputs),
                        .outputs = operands(program, step.outputs),
                        .options = plan.options,
                        .kernel = launch.kernel};
  if (program.model.threads > 0) request.options.threads = program.model.threads;
  request.options.multiprocessors = program.model.multiprocessors;
  request.options.device = plan.devices[device].device.index;
  std::string offers;
  for (const KernelDescription& d : backend.describe(request)) {
    if (d.kernel != launch.kernel || !agree(request.inputs, d.inputs) || !agree(request.outputs, d.outputs)) {
      offers += concat("\n  ", d.kernel, ": ", text(d.inputs), " → ", text(d.outputs));
      continue;
    }
    const std::int64_t room = step.workspace.present() ? program.buffers[step.workspace].bytes : 0;
    if (d.workspace > room) fail(ExitCode::device, "kernel ", d.kernel, " needs ", d.workspace, " bytes of workspace, the plan has ", room);
    return d.make();
  }
  fail(ExitCode::device, "the plan wants kernel ", launch.kernel, ": ", text(request.inputs), " → ", text(request.outputs), "; backend ",
       backend.name(), " ", backend.version(), " offers ", offers.empty() ? "none" : offers);
}

std::vector<std::string> check_kernels(const Plan& plan, Backends backends) {
  std::vector<std::string> left;
  std::set<std::string> seen;
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    const DeviceId& device = plan.devices[d].device;
    if (const std::string reason = absence_of(device, backends); !reason.empty()) {
      if (std::string line = concat("kernels of ", device, " are not checked: ", reason); left.empty() || left.back() != line)
        left.push_back(std::move(line));
      continue;
    }
    // A device belongs to the thread that activates it.
    std::async(std::launch::async, [&] { check_device(plan, d, find_backend(backends, device), seen); }).get();
  }
  return left;
}

}  // namespace tandem
