// The plan: everything a training or inference step does on every device, decided. It is a stable, versioned,
// self-contained format (plan.proto); people read it through print.h, the runtime replays it.
#pragma once
#include <string>
#include <vector>

#include "graph/graph.h"
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
  MemoryClass memory = MemoryClass::activations;
  ArenaKind arena = ArenaKind::scratch;
  std::int64_t offset = 0;    // bytes from the arena's start, a multiple of 64
  std::int64_t bytes = 0;     // a multiple of 64
  StepId first, last;         // the steps between which it is live; persistent ones: the whole plan
  BufferId alias;             // present: shares the memory of that buffer (a view, or written in place)
  std::optional<Tensor> constant;  // values to load once; it lies in arena constants
};

enum class StepKind {
  slice,       // host input `host` rows [slice_begin, slice_begin+slice_size) → outputs[0]; for a broadcast input all of it.
               // With a workspace (in arena staging) they come there first, if known while the step before still computes
  launch,      // run a kernel
  all_reduce,  // outputs[0] = sum over devices, in place; `bucket` names it
  concat,      // inputs[0] → rows of host output `host`
};
std::string_view name_of(StepKind k);

struct Step {
  StepKind kind = StepKind::launch;
  std::string op;                  // operator, of a launch
  std::string kernel;              // chosen kernel, of a launch
  Attributes attributes;
  std::vector<BufferId> inputs;    // absent operands: BufferId{}
  std::vector<BufferId> outputs;
  BufferId workspace;
  int host = -1;                   // index into Plan::inputs or Plan::outputs
  int bucket = -1;                 // index into Plan::buckets
  int stream = 0;                  // 0 compute, 1 communication
  std::vector<StepId> waits;       // steps of other streams that must have ended
  std::vector<std::string> origin; // names of ONNX nodes
  double flops = 0;
  double bytes = 0;                // memory traffic
  double seconds = 0;              // estimated, or measured by the autotuner
  bool measured = false;
};

struct Arena {
  ArenaKind kind;
  std::int64_t bytes = 0;          // what the runtime allocates
  std::int64_t lower_bound = 0;    // most bytes live at once: no placement can need less
};

struct DevicePlan {
  DeviceId device;
  DeviceModel model;
  double weight = 1;
  std::int64_t slice_begin = 0;    // rows of the global batch
  std::int64_t slice_size = 0;
  std::vector<Arena> arenas;       // in arena_kinds' order
  std::vector<Buffer> buffers;
  std::vector<Step> steps;         // in issue order; each stream runs its own in this order
  std::int64_t peak_bytes() const; // sum of the arenas
  // At the moment of the largest scratch use, live bytes by class (persistent classes whole).
  std::vector<std::pair<MemoryClass, std::int64_t>> memory;
};

struct Bucket {
  std::string name;
  std::int64_t elements = 0;
  DType dtype = DType::float32;
  std::vector<std::string> values; // parameter names whose gradients it carries
  double seconds = 0;              // estimated
};

struct HostInput {
  std::string name;
  TensorType type;                 // with the global batch
  bool batched = true;             // sliced along axis 0; else every device gets all of it
};
enum class Combine { rows, sum };
struct HostOutput {
  std::string name;
  TensorType type;                 // rows: of the global batch, as many for each sample; sum: one device's type, one after another per device
  Combine combine = Combine::rows;
};

// A parameter in the plan: the template's name and shape, and where each device keeps it.
struct PlanParameter {
  std::string name;
  TensorType type;                 // the template's
  Layout source;                   // the row-major template as seen in operand's shape (any: row-major)
  Operand operand;                 // shape and layout on the device
  ArenaKind arena = ArenaKind::parameters;
  std::int64_t offset = 0;
  bool trainable = false;
  std::string copy_of;             // the parameter whose values this one holds in 16 bits: no value of the template's
};

enum class PlanMode { training, inference };

struct Plan {
  int version = 1;
  std::string model;
  PlanMode mode = PlanMode::training;
  std::int64_t batch = 0;          // global
  std::string loss;                // "" for inference
  std::string optimizer;           // "sgd momentum=0.9"
  Precision precision = Precision::fp32;
  KernelOptions options;
  std::vector<HostInput> inputs;
  std::vector<HostOutput> outputs; // training: "loss" (sum) and metrics first
  std::vector<PlanParameter> parameters;
  std::vector<Bucket> buckets;
  std::vector<DevicePlan> devices;
  std::vector<std::string> warnings;
  double seconds = 0;              // estimated step
};

// Fails (model) with every breach: overlapping live buffers, offsets outside arenas, waits that cycle, operands that
// do not exist, collectives that differ between devices.
void verify(const Plan& plan);

}  // namespace tandem
