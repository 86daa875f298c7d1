// From programs to a plan: slices of the batch, exchanges, concats, memory.
#pragma once
#include <string>
#include <vector>

#include "planner/lower/lowered_graph.h"
#include "planner/options.h"
#include "planner/pipeline/schedules.h"

namespace tandem {

// What a stage does in a step, and how many micro-batches it holds at once.
struct StageSchedule {
  std::vector<ScheduleEntry> entries;
  int slots = 0;
  bool operator==(const StageSchedule&) const = default;
};

// Of a device; of one that is in no pipeline: groups of devices work on each micro-batch together. Chunks have slots of their own.
StageSchedule stage_schedule(const CompileOptions& options, const std::optional<PlacementRequest>& placement, int device);

struct Replica {
  DeviceSpec spec;
  DeviceModel model;
  std::int64_t slice_begin = 0;
  std::int64_t slice_size = 0;
  const LoweredGraph* program = nullptr;  // may be shared by devices
  bool stages_inputs = false;             // the backend's
  bool only_keeps = false;                // activations of others, and nothing of its own
  StageSchedule schedule{};               // of the device's stage; empty: the batch goes through whole
  std::vector<int> outputs;               // by the program's outputs: which of the plan's it is; empty: the same ones
  int output(std::size_t of_program) const { return outputs.empty() ? static_cast<int>(of_program) : outputs[of_program]; }
};

// Fills plan.inputs, outputs, parameters, cuts, exchanges, programs and devices: devices that are alike share a program. Programs may
// differ: an exchange is the same in those that have one of its name, and so are inputs and parameters, by their roles. `outputs`: those of
// the host, without their types. `rows`: how many rows of each output are one sample's; 0: each device that has it gives a part of its own.
void assemble(Plan& plan, const std::vector<Replica>& replicas, const std::vector<HostOutput>& outputs, std::span<const std::int64_t> rows,
              const CompileOptions& options, const Plan* parameters_of);

// Of a device to another, of its own kind or not, by either's links.
double seconds_to_send(std::int64_t bytes, const DeviceModel& from, const DeviceModel& to, bool same_kind);

// The phase and chunk in which a program makes an output.
std::pair<Phase, int> made_in(const LoweredGraph& program, BufferId output);

// A program of a plan that has its inputs, outputs, parameters and exchanges; `replica`: one of the devices that run it.
DeviceProgram assemble_program(const Plan& plan, ProgramId program, const Replica& replica, const CompileOptions& options);
// Of a program with a schedule whose steps are there: says of each buffer whether it lies in a slot, and between which steps it lives.
void find_phased_lives(DeviceProgram& program);

}  // namespace tandem
