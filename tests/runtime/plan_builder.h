// Plans made by hand, for tests of what reads and runs plans.
#pragma once
#include <algorithm>
#include <map>

#include "planner/plan/plan.h"

namespace tandem::test {

inline std::int64_t rounded(std::int64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

// A device with a program of its own.
struct BuiltDevice {
  PlanDevice device;
  DeviceProgram program;
};
inline void add_device(Plan& plan, BuiltDevice built) {
  built.device.program = plan.programs.add(std::move(built.program));
  plan.devices.push_back(std::move(built.device));
}

// Devices with slices of one size, whose programs are the same, share one.
inline void share_programs(Plan& plan) {
  const Plan apart = plan;
  std::map<std::int64_t, ProgramId> by_size;
  plan.programs.clear();
  for (PlanParameter& p : plan.parameters) p.parts.clear();
  for (PlanDevice& d : plan.devices) {
    const auto [shared, fresh] = by_size.try_emplace(d.slice_size, ProgramId{static_cast<int>(plan.programs.size())});
    if (fresh) {
      plan.programs.push_back(apart.programs[d.program]);
      for (std::size_t p = 0; p < plan.parameters.size(); ++p)
        if (const ProgramPart* part = apart.parameters[p].on(d.program))
          plan.parameters[p].parts.emplace_back(*part).program = shared->second;
    }
    d.program = shared->second;
  }
}

// Builds one device's part. Buffers get memory of their own one after another, and lives from the steps that use them.
class DeviceBuilder {
 public:
  DeviceBuilder(int index, std::int64_t slice_begin, std::int64_t slice_size) {
    device_ = {.device = {"fake", index}, .slice_begin = slice_begin, .slice_size = slice_size};
    d_.model.name = "a fake device";
    for (const ArenaKind k : arena_kinds) d_.arenas.push_back({k, 0, 0});
  }

  BufferId buffer(std::string name, Operand operand, ArenaKind arena = ArenaKind::scratch) {
    Buffer b{.name = std::move(name),
             .operand = operand,
             .arena = arena,
             .offset = d_.arenas[static_cast<std::size_t>(arena)].bytes,
             .bytes = rounded(operand.bytes())};
    b.memory = arena == ArenaKind::parameters  ? MemoryClass::weights
               : arena == ArenaKind::optimizer ? MemoryClass::optimizer_state
               : arena == ArenaKind::gradients ? MemoryClass::gradients
                                               : MemoryClass::activations;
    d_.arenas[static_cast<std::size_t>(arena)].bytes += b.bytes;
    return d_.buffers.add(std::move(b));
  }
  BufferId floats(std::string name, Shape shape, ArenaKind arena = ArenaKind::scratch) {
    const int rank = shape.rank();
    return buffer(std::move(name), {DType::float32, std::move(shape), Layout::row_major(rank)}, arena);
  }
  BufferId alias(std::string name, BufferId of, Operand operand, std::int64_t offset = 0) {
    Buffer b = d_.buffers[of];
    b.name = std::move(name);
    b.operand = std::move(operand);
    b.alias = of;
    b.offset += offset;
    b.bytes = rounded(b.operand.bytes());
    return d_.buffers.add(std::move(b));
  }
  BufferId constant(std::string name, Tensor value, Layout layout) {
    const BufferId id = buffer(std::move(name), {value.dtype(), value.shape(), std::move(layout)}, ArenaKind::constants);
    d_.buffers.back().constant = std::move(value);
    return id;
  }

  StepId slice(int host, BufferId out) { return add({.what = SliceStep{host}, .outputs = {out}}); }
  StepId concat(int host, BufferId in) { return add({.what = ConcatStep{host}, .inputs = {in}}); }
  StepId launch(std::string op, std::vector<BufferId> inputs, std::vector<BufferId> outputs, Attributes attributes = {},
                BufferId workspace = {}) {
    const std::string kernel = "fake." + op;
    return add({.what = LaunchStep{op, kernel, std::move(attributes)},
                .inputs = std::move(inputs),
                .outputs = std::move(outputs),
                .workspace = workspace,
                .origin = {op + "_node"}});
  }
  StepId exchange(int number, std::vector<BufferId> inputs, std::vector<BufferId> outputs, std::vector<StepId> waits = {}) {
    return add({.what = ExchangeStep{{number}},
                .inputs = std::move(inputs),
                .outputs = std::move(outputs),
                .stream = 1,
                .waits = std::move(waits)});
  }
  Step& last() { return d_.steps.back(); }
  PlanDevice& device() { return device_; }
  DeviceProgram& program() { return d_; }

  // Lives from first to last use; a buffer lives as long as those that share its memory.
  BuiltDevice done() const {
    DeviceProgram program = d_;
    IdVector<BufferId, std::pair<int, int>> life(program.buffers.size(), {static_cast<int>(program.steps.size()), -1});
    for (std::size_t s = 0; s < program.steps.size(); ++s) {
      const auto use = [&](BufferId id) {
        for (; id.present(); id = program.buffers[id].alias) {
          auto& [first, last] = life[id];
          first = std::min(first, static_cast<int>(s));
          last = std::max(last, static_cast<int>(s));
        }
      };
      for (const BufferId id : program.steps[s].inputs) use(id);
      for (const BufferId id : program.steps[s].outputs) use(id);
      use(program.steps[s].workspace);
    }
    for (std::size_t i = 0; i < life.size(); ++i) {
      program.buffers[i].first = {life[i].second < 0 ? 0 : life[i].first};
      program.buffers[i].last = {life[i].second < 0 ? 0 : life[i].second};
    }
    return {device_, std::move(program)};
  }

 private:
  StepId add(Step step) {
    return d_.steps.add(std::move(step));
  }
  PlanDevice device_;
  DeviceProgram d_;
};

// A training step of y = x·w, elementwise by column, loss = Σ y: dL/dw[j] = Σ_i x[i,j], summed over devices, then
// w −= lr · g. Inputs: x[batch,columns] (where staged, by way of buffer 8), tandem.scalars, tandem.random. Outputs: loss
// (sum), y (rows).
inline Plan linear_plan(std::vector<std::int64_t> slices, std::int64_t columns = 3, bool staged = false) {
  Plan plan;
  plan.model = "linear";
  plan.loss = "sum";
  plan.optimizer = "sgd";
  for (const std::int64_t s : slices) plan.batch += s;
  plan.inputs = {{"x", {DType::float32, {plan.batch, columns}}, true},
                 {"tandem.scalars", {DType::float32, {16}}, false, ValueRole::step_state, std::string(step_scalars)},
                 {"tandem.random", {DType::int64, {4}}, false, ValueRole::step_state, std::string(step_random)}};
  plan.outputs = {{"loss", {DType::float32, {}}, Combine::sum, static_cast<int>(slices.size())},
                  {"y", {DType::float32, {plan.batch, columns}}, Combine::rows}};
  plan.exchanges = {{.name = "gradients 0", .elements = columns, .dtype = DType::float32, .values = {"w"}}};
  const Operand weight{DType::float32, {columns}, Layout("a")};
  plan.parameters = {{.name = "w", .type = {DType::float32, {columns}}, .trainable = true}};
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const int device = static_cast<int>(i);
    plan.exchanges[0].devices.push_back(device);
    plan.parameters[0].parts.push_back({.program = {device}, .operand = weight});
    DeviceBuilder d(device, begin, slices[i]);
    const BufferId x = d.floats("x", {slices[i], columns}), scalars = d.floats("tandem.scalars", {16});
    const BufferId random = d.buffer("tandem.random", {DType::int64, {4}, Layout("a")});
    const BufferId w = d.buffer("w", weight, ArenaKind::parameters), g = d.buffer("w/gradient", weight, ArenaKind::gradients);
    const BufferId y = d.floats("y", {slices[i], columns}), loss = d.floats("loss", {}), w2 = d.alias("w'", w, weight);
    d.slice(0, x);
    if (staged) d.last().workspace = d.floats("x/staging", {slices[i], columns}, ArenaKind::staging);
    d.slice(1, scalars);
    d.slice(2, random);
    d.launch("Scale", {x, w}, {y});
    const StepId gradient = d.launch("Gradient", {x, y}, {g, loss});
    const StepId sum = d.exchange(0, {}, {g}, {gradient});
    d.concat(1, y);
    d.concat(0, loss);
    d.launch("Update", {scalars, w, g}, {w2});
    d.last().waits = {sum};
    add_device(plan, d.done());
    begin += slices[i];
  }
  return plan;
}

// Device 0 reads x [4,2] and sends it to device 1, which gives it back as y.
inline Plan relay_plan(const std::string& backend) {
  Plan plan;
  plan.model = "relay";
  plan.mode = PlanMode::inference;
  plan.batch = 4;
  const TensorType type{DType::float32, {4, 2}};
  plan.inputs = {{"x", type, true}};
  plan.outputs = {{"y", type, Combine::rows}};
  plan.exchanges = {{.kind = ExchangeKind::send, .name = "x over", .devices = {0, 1}, .elements = 8}};
  DeviceBuilder giver(0, 0, 4), taker(1, 0, 4);
  const BufferId x = giver.floats("x", type.shape), y = taker.floats("x", type.shape);
  giver.exchange(0, {x}, {}, {giver.slice(0, x)});
  const StepId received = taker.exchange(0, {}, {y});
  taker.concat(0, y);
  taker.last().waits = {received};
  for (const DeviceBuilder* d : {&giver, &taker}) add_device(plan, d->done());
  for (PlanDevice& d : plan.devices) d.device.backend = backend;
  return plan;
}

}  // namespace tandem::test
