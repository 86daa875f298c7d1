// What a session holds, for the files that define its members.
#pragma once
#include <array>
#include <map>

#include "graph/step_scalars.h"
#include "kernels/backends.h"
#include "ranks/world.h"
#include "runtime/device_runtime.h"
#include "runtime/output_exchange.h"
#include "runtime/session.h"
#include "runtime/workers.h"

namespace tandem {

struct Session::State {
  World* world = nullptr;
  DeviceRange range;  // which of the plans' devices are this process's; the members below that go by device have only these
  std::vector<std::unique_ptr<const Plan>> plans;
  std::map<ParameterKey, const PlanParameter*> parameters;  // of the first plan
  std::span<const Backend* const> backends;
  std::unique_ptr<CollectiveGroup> group;  // outlives the programs
  int channels = 0;
  std::vector<std::unique_ptr<DeviceRuntime>> devices;
  std::string failure;  // of an earlier call; nothing runs after it
  struct HostMemory {
    std::byte* memory = nullptr;
    std::int64_t bytes = 0;
  };
  std::vector<HostMemory> host_memory;  // device 0's
  // Read by the workers during a step: the runtime's own inputs.
  StepScalars scalars;
  std::vector<float> shares;  // as many as any plan takes
  struct alignas(64) DeviceInputs {
    std::vector<std::int64_t> random;      // four numbers of each micro-batch
    std::vector<const std::byte*> inputs;  // of the plan, the runtime's own replaced
  };
  std::vector<DeviceInputs> inputs;
  struct OwnInputs {
    int scalars = -1, random = -1, shares = -1;  // index among a plan's inputs
  };
  std::vector<OwnInputs> own_inputs;  // by plan
  std::vector<bool> can_be_left;      // by plan: nothing waits for its steps' end, and they change nothing
  std::function<bool()> stop;

  struct Begun {
    std::size_t plan = 0;
    std::span<std::byte* const> outputs;
    Outputs become = Outputs::of_all_ranks;
  };
  std::array<Begun, 2> begun;  // steps, the oldest first
  std::size_t under_way = 0;

  std::unique_ptr<OutputExchange> between_ranks;  // of several ranks
  std::unique_ptr<Workers> workers;   // last: ended before what they use goes

  ~State() {
    if (!workers) return;
    const auto leave = [this](int d) {
      for (std::size_t s = 0; s < under_way; ++s) program(begun[s].plan, static_cast<std::size_t>(d)).drain();
      devices[static_cast<std::size_t>(d)].reset();
    };
    workers->run(leave, [](int, const std::exception_ptr&) {});
  }

  const DeviceId& name_of(int device) const { return plans[0]->devices[static_cast<std::size_t>(range.first + device)].device; }

  // What the device of this number, of this process's, keeps of a parameter of the first plan; absent where it has none.
  std::optional<ParameterPart> part_of(const PlanParameter& p, std::size_t device) const {
    return plans[0]->part_of(p, range.first + static_cast<int>(device));
  }
  std::map<ParameterKey, std::vector<std::byte>> gathered;  // whole parameters that some rank lacks, as long as they are right
  bool asking = false;  // rank 0 is within together(): the others answer
  // Whether this rank has not all of it, or some rank.
  bool lacks(const PlanParameter& p, int rank) const;
  bool lacks(const PlanParameter& p) const;
  // What all ranks' devices have of it, put together on every rank: all call this.
  std::vector<std::byte> gather(const PlanParameter& p);
  Tensor read(const PlanParameter& p, std::size_t device);
  Tensor streamed(const PlanParameter& p);  // as Session::streamed
  void write(const PlanParameter& p, const Tensor& value);
  // Which devices give a parameter's value: the one asked where it has all of it, else another that has, else all with parts.
  std::vector<std::size_t> holders(const PlanParameter& p, std::size_t asked) const;

  // Runs job(device runtime, index) in every worker and rethrows what failed first, with the device's name.
  template <class Job>
  void on_devices(Job&& job) {
    check_idle();
    const auto call = [&](int d) { job(devices[static_cast<std::size_t>(d)], static_cast<std::size_t>(d)); };
    const auto failed = [&](int d, const std::exception_ptr& error) {
      if (group) group->abort(concat(name_of(d), ": ", reason_of(error)));
    };
    if (const Workers::Failure f = workers->run(call, failed); f.worker >= 0) end(f);
  }
  // The session and its world are at an end.
  [[noreturn]] void end(const Workers::Failure& f);

  Program& program(std::size_t plan, std::size_t device) { return devices[device]->program(plan); }
  // Wakes the others, which may wait for this device's part of a sum, then lets what this device queued run out.
  void leave_step(std::size_t plan, int device, const std::exception_ptr& error) {
    if (group) group->abort(concat(name_of(device), ": ", reason_of(error)));
    program(plan, static_cast<std::size_t>(device)).drain();
  }
  void check_idle() const {
    if (under_way > 0) fail(ExitCode::usage, "session: a step is under way that was not finished");
  }
  void capture(std::size_t plan);
  void check_same_session(const Plan& plan) const;
  void make_group(const Plan& plan);
  void load(Plan plan);
  void give(std::size_t plan, std::span<std::byte* const> outputs, Outputs become);  // to the other ranks
};

}  // namespace tandem
