// The steps of a class of devices with their buffers, before memory is placed and collectives are added.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "base/id_vector.h"
#include "graph/graph.h"
#include "planner/lower/tuner.h"
#include "planner/plan/plan.h"

namespace tandem {

// A range of each device.
struct LoweredRange {
  AxisRange of_one;                  // of these devices
  std::vector<std::int64_t> begins;  // by device of the plan
};

struct LoweredParameter {
  std::string name;
  BufferId buffer;
  TensorType type;   // the template's
  Layout source;     // how the template's values lie, seen in the buffer's shape
  bool trainable = false;
  ValueRole role = ValueRole::plain;
  std::string of;
  std::vector<LoweredRange> ranges{};  // of the template's tensor, of which these devices keep a part each; none: all of it

  ParameterKey key() const { return {role, name}; }
};
struct LoweredInput {
  std::string name;
  BufferId buffer;
  ValueRole role = ValueRole::plain;
  std::string of;
  bool whole = false;  // every device of several takes all of it, though it may be as long as the batch
  bool is_state() const { return role == ValueRole::step_state; }
  bool feeds(const HostInput& host) const { return role == host.role && of == host.of && (role != ValueRole::plain || name == host.name); }
};
struct LoweredGraph {
  IdVector<BufferId, Buffer> buffers;  // arenas set; offsets only of aliases, from where what they alias begins
  IdVector<StepId, Step> steps;
  std::vector<std::vector<std::pair<int, int>>> in_place;  // by step: output first may use input second's memory
  std::vector<LoweredParameter> parameters;
  std::vector<LoweredInput> inputs;
  std::vector<BufferId> outputs;               // of graph.outputs
  // By ExchangeStep::exchange; the programs of other devices have the same ones by name. Seconds not set, devices only where
  // it is not all of them.
  IdVector<ExchangeId, Exchange> exchanges;
  bool ordered = false;    // updates stay where they are: steps wait for others by number
  double seconds = 0;
  double turned_seconds = 0;  // of these: what turns parameters that were gathered, and what goes into exchanges
  std::vector<std::string> warnings;
};

// Where a parameter, or a part of that shape, lies already: in a plan made before, or on another device.
using FixedParameters = std::map<std::pair<ParameterKey, Ints>, Operand>;

// The kernels of programs that were lowered before, by node and its operands' shapes. Devices that compute alike do it by the same kernel,
// in the same layouts: another would round otherwise, and replicas would differ.
struct ChosenKernel {
  std::string kernel;
  std::vector<Operand> inputs, outputs;
  bool widened = false;
};
using ChosenKernels = std::map<std::string, ChosenKernel>;

struct SelectOptions {
  KernelOptions kernel;
  const DeviceModel* device = nullptr;
  const FixedParameters* fixed = nullptr;
  ChosenKernels* chosen = nullptr;  // the program adds its own
  bool training = false;            // kernels are those of whole parameters, also where these lie in parts
};

// Chooses a kernel and layouts for every node, cheapest first, with a Reorder wherever a kernel wants another layout
// than there is. Views (Reshape, Transpose) cost nothing where layouts allow. What an AllReduce sums lies side by side, in a
// bucket in the gradient arena, and is summed there.
LoweredGraph select_kernels(const Graph& graph, const Backend& backend, const SelectOptions& options, Tuner& tuner);

// The buffer whose memory a buffer shares; itself where it has its own.
BufferId root_of(const std::vector<Buffer>& buffers, BufferId id);

// Whether a step writes parameters or states alone.
bool is_update(const LoweredGraph& program, const Step& step);

// Moves every update to right behind the last step that reads its parameter or makes its gradient; not of a program that is ordered.
void schedule_updates(LoweredGraph& program);

// Puts the steps of a program with micro-batches in the order of their phases.
void arrange_phases(LoweredGraph& program);

// Lets outputs take the memory of inputs that nothing reads later.
void share_in_place(LoweredGraph& program);

// Products and convolutions that are gradients of weights go to a stream of their own, once the order is final. Mostly updates alone read
// them; whoever does waits for them. What else computes stays one such gradient ahead, so that activations live on for one more layer's
// backward pass, and not until the update.
void put_weight_gradients_beside(LoweredGraph& program);

}  // namespace tandem
