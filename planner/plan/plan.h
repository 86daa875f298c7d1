// The plan: everything a training or inference step does on every device, decided. It is a stable, versioned,
// self-contained format (tandem_plan.proto); people read it as plan_file.h prints it, the runtime replays it.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/id_vector.h"
#include "graph/graph.h"
#include "graph/step_scalars.h"
#include "kernels/device.h"

namespace tandem {

struct BufferId {
  int index = -1;
  bool present() const { return index >= 0; }
  auto operator<=>(const BufferId&) const = default;
};
struct StepId {
  int index = -1;
  auto operator<=>(const StepId&) const = default;
};
struct ExchangeId {
  int index = -1;
  auto operator<=>(const ExchangeId&) const = default;
};
struct ProgramId {
  int index = -1;
  auto operator<=>(const ProgramId&) const = default;
};

// Memory by what it is for. The first two persist from step to step and are shared by all plans of a session.
enum class MemoryClass { weights, optimizer_state, gradients, activations, inputs, workspace };
inline constexpr MemoryClass memory_classes[] = {MemoryClass::weights, MemoryClass::optimizer_state, MemoryClass::gradients,
                                                 MemoryClass::activations, MemoryClass::inputs, MemoryClass::workspace};
std::string_view name_of(MemoryClass c);

// The device memory that buffers lie in. `parameters` and `optimizer` persist; `gradients` is contiguous for the
// all-reduce; `scratch` is reused within a step; `constants` is each plan's own and loaded once; `staging` takes the next
// step's batch while a step computes.
enum class ArenaKind { parameters, optimizer, gradients, scratch, constants, staging };
inline constexpr ArenaKind arena_kinds[] = {ArenaKind::parameters, ArenaKind::optimizer, ArenaKind::gradients, ArenaKind::scratch,
                                           ArenaKind::constants, ArenaKind::staging};
std::string_view name_of(ArenaKind k);

struct Buffer {
  std::string name;           // of the value it holds
  Operand operand;            // dtype, shape, layout
  std::string placement;      // of the value over the devices, for people: "split(0)", "broadcast", "partial", "own"; or empty
  MemoryClass memory = MemoryClass::activations;
  ArenaKind arena = ArenaKind::scratch;
  std::int64_t offset = 0;    // bytes from the arena's start, a multiple of 64
  std::int64_t bytes = 0;     // a multiple of 64
  StepId first, last;         // the steps between which it is live; persistent ones: the whole plan
  BufferId alias;             // present: shares the memory of that buffer (a view, or written in place)
  bool in_slot = false;       // each slot has one: `offset` is that of slot 0
  std::optional<Tensor> constant;  // values to load once; it lies in arena constants
};

// What moves between devices. Each of its members enters it by one step, and all devices enter theirs in one order. Parts of
// a value (what a reduce_scatter gives and an all_gather takes) lie one behind the other in the members' order, along the
// axis that is outermost in memory; they need not be equal. Pieces of an all_to_all lie in a buffer one behind the other, as they
// are given or got.
struct Exchange {
  ExchangeKind kind = ExchangeKind::all_reduce;
  std::string name;
  // its members, as indices into Plan::devices, in rank order; the first of a broadcast gives, of a send too, of a reduce gets
  std::vector<int> devices;
  // The members stand in so many rows of one length, one row behind the other: each row exchanges by itself, all of them alike.
  int rows = 1;
  std::int64_t elements = 0;       // of the whole value
  DType dtype = DType::float32;
  std::vector<std::string> values; // names of the parameters whose gradients it carries
  double seconds = 0;              // estimated

  std::size_t row_length() const { return devices.size() / static_cast<std::size_t>(rows); }
  std::optional<std::size_t> row_of(int device) const;  // absent where it is no member
  std::span<const int> row(std::size_t r) const { return std::span(devices).subspan(r * row_length(), row_length()); }
};

// Why something is exchanged that is no sum of gradients or running statistics: a node wants a value otherwise than it lies.
struct PlanTransfer {
  ExchangeKind kind = ExchangeKind::all_gather;
  std::string value;               // what moves
  std::int64_t bytes = 0;          // of the whole value
  std::string axis;                // of the mesh, along which it moves; empty: from a group of devices to another
  std::string node;                // who wants it: an ONNX node where there is one, or what the plan gives
  std::string reason;
};

// Host input `host` → outputs[0]: of a batched one as many rows as that holds, from the device's slice_begin, else all of it. With a
// workspace (in arena staging) they come there first, if known while the step before still computes.
struct SliceStep {
  int host = -1;                   // index into Plan::inputs
};
// Runs a kernel. Absent operands: BufferId{}.
struct LaunchStep {
  std::string op;                  // operator
  std::string kernel;              // chosen kernel
  Attributes attributes;
};
// Takes part in an exchange. all_reduce, all_max: in place in outputs[0]. Else inputs[0] → outputs[0]; a sender has no output, a
// receiver, of a send or a broadcast, no input, and who gives in a broadcast may have one. Of a reduce the first alone has an
// output.
struct ExchangeStep {
  ExchangeId exchange;
};
// inputs[0] → host output `host`: the rows of the device's slice, or, of those that are summed, the device's part: parts stand in the
// order of the devices that give one.
struct ConcatStep {
  int host = -1;                   // index into Plan::outputs
};

struct Step {
  std::variant<SliceStep, LaunchStep, ExchangeStep, ConcatStep> what;
  std::vector<BufferId> inputs;
  std::vector<BufferId> outputs;
  BufferId workspace;
  int stream = 0;                  // 0 compute, 1 communication
  std::vector<StepId> waits;       // steps of other streams that must have ended
  std::vector<std::string> origin; // names of ONNX nodes
  double flops = 0;
  double bytes = 0;                // memory traffic
  double seconds = 0;              // estimated, or measured by the autotuner
  bool measured = false;
  Phase phase = Phase::forward;    // of a program with a schedule; its steps stand in the order of phases, and of chunks within one
  int chunk = 0;
  int micro_batch = 0;             // of an expanded program

  template <class What>
  What* as() { return std::get_if<What>(&what); }
  template <class What>
  const What* as() const { return std::get_if<What>(&what); }
  // empty: no launch
  std::string_view op() const { return as<LaunchStep>() ? std::string_view(as<LaunchStep>()->op) : std::string_view(); }
};

struct Arena {
  ArenaKind kind;
  std::int64_t bytes = 0;          // what the runtime allocates
  std::int64_t lower_bound = 0;    // most bytes live at once: no placement can need less
};

// What devices of one class do: all that computes the same, of as many samples, on devices of one kind. They differ in where their
// slices of the batch and their parts of parameters begin, and in with whom they exchange.
struct DeviceProgram {
  DeviceModel model;
  std::vector<Arena> arenas;       // in arena_kinds' order
  IdVector<BufferId, Buffer> buffers;
  IdVector<StepId, Step> steps;    // in issue order; each stream runs its own in this order
  // Steps of phase prepare come first, then these, then those of phase update. Empty: the steps as they stand, once.
  std::vector<ScheduleEntry> schedule;
  int slots = 0;                   // copies of what lives from one phase of a micro-batch to another: slot s lies at s * slot_bytes
  std::int64_t slot_bytes = 0;
  std::int64_t peak_bytes() const; // sum of the arenas
  // At the moment of the largest scratch use, live bytes by class (persistent classes whole).
  std::vector<std::pair<MemoryClass, std::int64_t>> memory;
};

struct PlanDevice {
  DeviceId device;
  ProgramId program;               // what it runs
  double weight = 1;
  std::int64_t slice_begin = 0;    // rows of each micro-batch of all devices that it works on
  std::int64_t slice_size = 0;
};

struct HostInput {
  std::string name;
  TensorType type;                 // with the global batch
  bool batched = true;             // sliced along axis 0; else who reads it gets all of it
  ValueRole role = ValueRole::plain;  // by which it is found: plain (the model's input of that name), label, sample_weight, step_state
  std::string of;                  // as the role says
};
enum class Combine { rows, sum };
struct HostOutput {
  std::string name;
  TensorType type;                 // rows: of the global batch, as many for each sample; sum: that of one part
  Combine combine = Combine::rows;
  int parts = 1;                   // sum: how many devices give one, one behind the other on the host
  ValueRole role = ValueRole::plain;  // by which it is found: plain (the model's value of that name), loss, metric, measure
  std::string of;                  // as the role says
  std::int64_t bytes() const { return bytes_of(type) * parts; }
};

// By what a parameter is found.
using ParameterKey = std::pair<ValueRole, std::string>;

// An AxisRange of each device of a program.
struct ProgramRange {
  int axis = 0;
  int cut = 0;                     // where the axis is cut: index into Plan::cuts
  std::int64_t unit = 0;           // a device's range begins at unit * the cut's begins[device]
  std::int64_t size = 0, outer = 1;
  std::vector<std::int64_t> widths{};  // of runs that are not of one
  bool operator==(const ProgramRange&) const = default;
  AxisRange from(std::int64_t begin) const { return {axis, begin, size, outer, widths}; }
};

// What the devices of one program keep of a parameter.
struct ProgramPart {
  ProgramId program;
  Operand operand;                 // shape and layout there
  std::int64_t offset = 0;         // in the parameter's arena
  std::vector<ProgramRange> ranges{};  // of the template's tensor; none: all of it
  bool operator==(const ProgramPart&) const = default;
  bool is_whole() const { return ranges.empty(); }
};

// A way to cut an axis into parts, which many parameters share.
struct AxisCut {
  std::vector<std::int64_t> begins;  // by device, in units; 0 where a device has nothing that is cut so
  bool operator==(const AxisCut&) const = default;
};

// What one device keeps of a parameter.
struct ParameterPart {
  int device = 0;                  // index into Plan::devices
  Operand operand;                 // shape and layout there
  std::int64_t offset = 0;         // in the parameter's arena
  std::vector<AxisRange> ranges{}; // of the template's tensor; none: all of it
  bool operator==(const ParameterPart&) const = default;
  // Whether another device keeps the same of it: both hold equal bytes.
  bool alike(const ParameterPart& o) const { return operand == o.operand && ranges == o.ranges; }
  // Whether another device keeps the same values of it, perhaps in another layout.
  bool same_ranges(const ParameterPart& o) const { return ranges == o.ranges; }
  bool is_whole() const { return ranges.empty(); }
};

// A parameter in the plan: the template's name and shape, and what each device keeps of it. One role has no name twice: the weight
// "momentum/w" and the state "momentum/w" of the weight "w" are two.
struct PlanParameter {
  std::string name;
  TensorType type;                 // the template's
  Layout source;                   // the row-major template, or a part of it, as seen in an operand's shape (any: row-major)
  ArenaKind arena = ArenaKind::parameters;
  std::vector<ProgramPart> parts;  // by program, ascending; a program may have none, and some program has one
  bool trainable = false;
  ValueRole role = ValueRole::plain;  // plain (the template's), optimizer_state, copy (of `of`, in 16 bits), teacher
  std::string of;                  // the parameter that it belongs to

  ParameterKey key() const { return {role, name}; }
  const ProgramPart* on(ProgramId program) const;  // null where its devices have none
};

enum class PlanMode { training, inference };

// What a plan was made of, and what its steps take besides: by this it is run later, perhaps elsewhere. All empty: nobody said it.
struct PlanRecord {
  std::string options;     // that were asked for, as whoever asked names them: a JSON object of texts
  std::string model;       // ModelFile::fingerprint of the template
  std::string request;     // hash_of_request: of the whole step before devices and kernels are chosen
  std::vector<std::pair<std::string, std::string>> backends;  // Backend::computes_by of each, by its name
  // Of StepState.
  UpdateKind update = UpdateKind::sgd;
  double beta1 = 0.9, beta2 = 0.999;
  std::int64_t steps_before = 0;  // that the optimizer's states have taken when the first step is run
  double learning_rate = 0;       // where nobody gives another
  std::uint64_t seed = 1;
  bool operator==(const PlanRecord&) const = default;
};

struct Plan {
  int version = 6;
  std::string model;
  PlanMode mode = PlanMode::training;
  std::int64_t batch = 0;          // global
  std::string loss;                // "" for inference
  std::string optimizer;           // "sgd momentum=0.9"
  Precision precision = Precision::fp32;
  std::string recompute;           // what of the activations is computed again, and the time that it takes; "": nothing is
  std::string offload;             // which activations other devices keep, with the bytes that move and their time; "": none
  KernelOptions options;
  std::vector<HostInput> inputs;
  std::vector<HostOutput> outputs; // training: the loss (sum) and metrics first
  std::vector<AxisCut> cuts;
  std::vector<PlanParameter> parameters;
  std::int64_t micro_batches = 1;  // parts of a batch, of batch / micro_batches rows each: a step goes through them one behind the other
  std::string schedule;            // in which order stages work on micro-batches: "1f1b"; empty: there is one stage
  IdVector<ExchangeId, Exchange> exchanges;
  std::vector<PlanTransfer> transfers;  // by bytes, the dearest first
  IdVector<ProgramId, DeviceProgram> programs;
  std::vector<PlanDevice> devices;
  std::vector<std::string> warnings;
  double seconds = 0;              // estimated step
  PlanRecord record;
  std::uint64_t made_from = 0;     // of a kept plan: fingerprint_of() what it was made from and what it is; 0: not said

  const DeviceProgram& program_of(std::size_t device) const { return programs[devices[device].program]; }
  DeviceProgram& program_of(std::size_t device) { return programs[devices[device].program]; }
  std::vector<int> devices_of(ProgramId program) const;  // ascending
  ParameterPart part_of(const ProgramPart& part, int device) const;  // of a device of that program
  // What a device keeps of a parameter, and what each that keeps something does, ascending by device.
  std::optional<ParameterPart> part_of(const PlanParameter& parameter, int device) const;
  std::vector<ParameterPart> parts_of(const PlanParameter& parameter) const;
  // Of an output that is summed: how many devices that stand before this one give a part of it.
  std::int64_t parts_before(int device, const Step& concat) const;
  // The first of an output's rows that a device gives, and of an input's that it takes.
  std::int64_t first_row(int device, const ConcatStep& rows, int micro_batch) const;
  std::int64_t first_row(int device, int micro_batch) const;
};

// The plan with the schedules of its programs written out: each step once for each micro-batch, with buffers, exchanges and waits of its
// own. A plan without schedules is returned as it is. Its schedules must be sound (verify).
struct ExpandedPlan {
  Plan plan;
  IdVector<ProgramId, std::vector<StepId>> step_of;  // of each of its steps, the plan's own
  // Steps of one number here and one in step_of have their operands at the same places, and so share a kernel.
  IdVector<ProgramId, std::vector<int>> place_of;
};
ExpandedPlan expanded(const Plan& plan);
bool has_schedule(const Plan& plan);  // of some program

// "slice", "launch", "concat", or what the step does in its exchange: "all_reduce", "send", "receive".
std::string_view kind_of(const Plan& plan, const Step& step);

// Fails (model) with every breach: overlapping live buffers, offsets outside arenas, waits that cycle, operands that
// do not exist, exchanges that not all members enter or whose members wait for each other.
void verify(const Plan& plan);

}  // namespace tandem
