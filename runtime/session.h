// Replays plans. A session owns one set of device memory: parameters and optimizer state, shared by all its plans
// (training, the short last batch, evaluation), and scratch as large as the largest plan needs.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/step_scalars.h"
#include "kernels/collective.h"
#include "kernels/device.h"
#include "planner/plan/plan.h"

namespace tandem {

struct Timeline;  // planner/plan/timeline.h

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

// What changes from step to step and is no data: the graph inputs of the role step_state.
struct StepState {
  double learning_rate = 0;
  std::int64_t step = 1;  // from 1
  double beta1 = 0.9, beta2 = 0.999;
  std::uint64_t seed = 0;
  std::int64_t first = 0;  // number of the batch's first row: by it, seed and step random numbers are drawn
  UpdateKind kind = UpdateKind::sgd;      // of the optimizer
  double epoch = 0;                       // from 0, with its fraction
  // step_shares: what of the step's means those of each micro-batch are, one micro-batch behind the other. Those not given: all alike.
  std::vector<double> shares{};
  double average = 0;                     // how far averages of the parameters move towards them
};

// What a caller knows of the step that follows, so that devices can copy its batch while they compute.
struct Ahead {
  bool announced = false;  // this step's inputs were these below, of a call before, and have not changed since
  std::size_t plan = 0;    // of the step that follows
  std::span<const std::byte* const> inputs;  // as run() will get them, but for those of the role step_state; empty: not known
};

// What becomes of a step's outputs where there are other ranks: all ranks get those of all devices at once, or they are kept until
// Session::exchange_outputs().
enum class Outputs { of_all_ranks, kept };

class Session {
 public:
  // Opens the plan's devices and starts one worker thread a device. Fails (device) with the reason. With a world, which
  // must outlive the session, these are this rank's devices alone, every rank makes the same calls of the constructor,
  // add() and run(), and run() gives all ranks the outputs of all devices. A plan of two passes (step_parts.h) becomes plans 0 and 1.
  Session(Plan plan, std::span<const Backend* const> backends, World* world = nullptr);
  ~Session();
  Session(Session&&) noexcept;

  // Adds another plan over the same devices and parameters (compile's `parameters_of`); returns its index. 0 is the first.
  std::size_t add(Plan plan);
  const Plan& plan(std::size_t index = 0) const;

  // Values by the template's names, row-major in the template's shape. Every device gets its part, most often all. Read are the
  // values of the device asked for; of a parameter that it does not have whole, those of the devices that have it. Optimizer
  // state is zero until it is set. Fails (model) on an unknown name or another type.
  // Names are those of one role: plain (weights and running statistics), optimizer_state, teacher.
  void set_parameters(std::span<const NamedTensor> values, ValueRole role = ValueRole::plain);
  std::vector<NamedTensor> parameters(int device = 0) const;  // weights and running statistics
  std::vector<NamedTensor> optimizer_state(int device = 0) const;
  std::vector<NamedTensor> parameters_as(ValueRole role, int device = 0) const;
  // The same one by one: memory for one tensor at a time.
  using Visit = std::function<void(const NamedTensor&)>;
  void each_parameter(const Visit& visit, int device = 0) const;
  void each_optimizer_state(const Visit& visit, int device = 0) const;
  // One alone. Fails (model) on an unknown name.
  Tensor parameter(const std::string& name, ValueRole role = ValueRole::plain, int device = 0) const;
  // The same, read from the device when values are asked for, so that a large one need not be in memory as a whole: what the parameter
  // holds then. Not to be asked within a step, nor once the session is gone. What no device here keeps as the template does is a copy.
  Tensor streamed(const std::string& name, ValueRole role = ValueRole::plain) const;
  void each_streamed(ValueRole role, const Visit& visit) const;
  // Of several processes, one may have no device with a parameter, or some of its parts alone: whether there are such.
  bool lacks_parameters() const;
  // All ranks call this. Rank 0 does `work`, which may read any parameter as above, and may throw; the others give their parts of each
  // meanwhile. One parameter at a time is whole on a rank.
  void together(const std::function<void()>& work);
  // All ranks call this, too. All parameters can be read on all ranks until the next step or new values: whole in the memory of each.
  void gather_parameters();
  void gather_parameters(std::span<const ParameterKey> keys);  // these alone

  // One parameter's value for another, and two that change places; none is of the role copy. All ranks call this. Where every device
  // keeps both in the same parts and order it moves its own, piece by piece; else one is in memory as a whole, on each rank. They fail
  // (model) on an unknown name or two types.
  void copy_parameter(const ParameterKey& from, const ParameterKey& to);
  void swap_parameters(const ParameterKey& a, const ParameterKey& b);

  // What a device of this process keeps of a parameter of plan(0), row-major in the order of the template's axes.
  Tensor part(const PlanParameter& parameter, const ParameterPart& part) const;

  // CRC-32C of what each device of this process holds, by device and by the first plan's parameters (optimizer state, and what a
  // device has no part of, is zero here): equal where parts are alike.
  std::vector<std::vector<std::uint32_t>> parameter_checksums() const;

  // Fails (data) where what is going to be fed as the plan's inputs has another type or shape; absent: no values. Once, before
  // the plan runs: run() gets addresses alone.
  void check_inputs(std::size_t plan, std::span<const std::optional<TensorType>> fed) const;

  // One step. inputs[i]: values of plan.inputs[i], row-major, except those of the role step_state, which come from
  // `state` (null allowed there). outputs[i]: room for plan.outputs[i], or null. Allocates nothing. Reads neither these
  // inputs nor those ahead when it has returned.
  void run(std::size_t plan, std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs, const StepState& state,
           const Ahead& ahead = {}, Outputs become = Outputs::of_all_ranks);

  // run() in two parts, so that the next step can be begun before this one's results are there. finish() waits for the oldest step
  // begun and writes its outputs; nothing reads the inputs of steps begun so far any more when it has returned, and what was told
  // ahead is read until the finish() of the step that takes it. `outputs` itself is kept until finish(). A step may be begun beside
  // another, and no third, where runs_ahead() says so of both plans; meanwhile no other function that runs or reads anything may be
  // called.
  void begin(std::size_t plan, std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs, const StepState& state,
             const Ahead& ahead = {}, Outputs become = Outputs::of_all_ranks);
  void finish();

  // Of several ranks, which all call it: the outputs of the steps kept since the last call cross, and a word of each rank. Returns the
  // words, by rank, until the next call. Fails (communication) as the World does.
  std::span<const std::uint64_t> exchange_outputs(std::uint64_t word);
  // The outputs of one of these steps, counted back from the last, 0, as run() would have given them.
  void get_outputs(std::size_t step, std::span<std::byte* const> outputs) const;
  bool runs_ahead(std::size_t plan) const;
  bool will_run_ahead() const;  // runs_ahead() of every plan, behind its first steps

  // Asked from now on between the kernels of plans that neither train nor sum, by the workers' threads: true leaves out what is
  // left of the step, whose outputs are not whole then. Empty: never.
  void set_stop(std::function<bool()> stop);

  // The same with a wait after each of the plan's steps: their seconds by device and step. Slower than run, which lets
  // devices work without a pause. With `repeats` each kernel runs so often in a row, where the step has it and on what the step
  // has there, and the median counts: what it takes alone. Parameters are then updated as often. Fails (usage) for plans that
  // exchange.
  std::vector<std::vector<double>> run_timed(std::size_t plan, std::span<const std::byte* const> inputs,
                                             std::span<std::byte* const> outputs, const StepState& state, int repeats = 1);

  // run() that keeps its outputs and notes when each step began and ended, on the devices of all ranks: by device, of the written out
  // plan's steps (expanded), in seconds since the step's begin. On devices that work by themselves (GPUs) with a wait after each step, so
  // that none overlap.
  std::vector<Timeline> run_traced(std::size_t plan, std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
                                   const StepState& state);

  // Memory of the host that devices copy from fast (pinned, for GPUs), to prepare inputs in. The same number gives the same
  // memory again where that is large enough; it lives as long as the session.
  std::byte* host_memory(std::size_t number, std::int64_t bytes);

  // Devices by number are those of this process, from 0.
  std::int64_t allocated_bytes(int device) const;  // what the arenas take
  // Why steps of a plan are launched kernel by kernel on a device that could replay them as one graph; empty: they are
  // replayed, or the device has no graphs. Known after the plan's first step.
  std::string not_captured(std::size_t plan, int device) const;
  int devices() const;

 private:
  template <class Job>
  void run_programs(std::size_t plan, std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
                    const StepState& state, bool announced, const Job& job);
  template <class Call>
  void step(std::size_t plan, std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs, const StepState& state,
            const Ahead& ahead, const Call& call);
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tandem
