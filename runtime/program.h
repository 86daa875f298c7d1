// One plan on one device, ready to run: kernels made and bound, copies and waits laid out as a list of instructions.
#pragma once
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "kernels/collective.h"
#include "kernels/device.h"
#include "planner/plan/plan.h"
#include "runtime/staging.h"

namespace tandem {

// What a step reads and writes on the host.
struct HostBuffers {
  std::span<const std::byte* const> inputs;
  std::span<std::byte* const> outputs;
  bool announced = false;  // inputs were given to announce() and have not changed since
  const std::function<bool()>* stop = nullptr;  // asked before every kernel: true leaves out the rest
};

class Program {
 public:
  // Where a program's work goes. Streams are by index; absent ones are made on demand by the device's runtime.
  struct Place {
    const Backend& backend;
    Device& device;
    std::span<const std::unique_ptr<Stream>> streams;
    Staging& staging;
    CollectiveGroup* group;  // null where the plan exchanges nothing
    int rank;              // of the device in the group
    std::span<const ExchangeSpec* const> exchanges;  // by exchange of the plan: the device's row
    std::span<std::byte> poisoned = {};  // filled with ones before each step: no number, for floats
  };
  // addresses[i]: where buffer i of the expanded plan lies. Fails (device) naming the step whose kernel the backend does not
  // have, or has with other layouts.
  Program(const ExpandedPlan& expanded, std::size_t device, const Place& place, std::span<std::byte* const> addresses);

  // Queues the step. `next` announces the inputs of the step that follows. Allocates, validates and chooses nothing. On a device
  // that runs ahead two steps may be under way; what is staged of the inputs is read until the step's finish(), of those
  // announced until the finish() of the step that takes them.
  void begin(const HostBuffers& host, Program* next = nullptr, std::span<const std::byte* const> next_inputs = {});
  // Waits for the oldest step begun and writes its outputs (one for each of the plan's, or null). Nothing reads the inputs of the
  // steps begun so far any more when this returns.
  void finish(std::span<std::byte* const> outputs);
  // Both, and waits for what was announced, too.
  void run(const HostBuffers& host, Program* next = nullptr, std::span<const std::byte* const> next_inputs = {});
  // Begins to copy what the next run will read, as soon as the step before has taken its own; nothing where the plan
  // stages no inputs.
  void announce(std::span<const std::byte* const> inputs);
  // Runs the step with a wait after each of its parts and adds each part's seconds to the plan's step it belongs to. A kernel
  // runs `repeats` times in a row, and the median counts. An exchange begins when all devices of this process have come to it, where its
  // group meets: what it waits for devices that are late is in no time.
  void run_timed(const HostBuffers& host, std::span<double> seconds, int repeats = 1);

  // Runs the step and notes when each of the expanded plan's steps began and ended, in seconds of the steady clock; where a step does
  // nothing both stay as they are. On a device that runs ahead with a wait after each.
  void run_traced(const HostBuffers& host, std::span<double> begins, std::span<double> ends);

  bool runs_ahead() const { return ahead_ && !capturing_; }
  bool will_run_ahead() const { return ahead_; }
  // After a first step, and with none under way: whether the step can be captured as a graph that later steps replay, and is not
  // yet; to do so, which says whether it succeeded; and to go without.
  bool wants_capture() const { return capturing_ && finished_ > 0; }
  bool capture();
  void drop_capture(const std::string& reason);
  // Where each step writes to the host.
  struct HostPart {
    std::size_t output;  // index into HostBuffers
    std::int64_t offset, bytes;
  };
  const std::vector<HostPart>& host_parts() const { return host_parts_; }
  // Why a device that can capture does not replay this program; empty where it does or cannot.
  const std::string& not_captured() const { return not_captured_; }
  // Waits until nothing is queued any more, whatever failed.
  void drain() noexcept;

 private:
  struct Instruction {
    enum Kind { launch, copy_in, copy_out, copy, record, wait } kind;
    int step;
    Stream* stream;
    Kernel* kernel = nullptr;
    Event* event = nullptr;
    std::byte* memory = nullptr;
    const std::byte* from = nullptr;  // of a copy: on the device; of a staged one: on the host
    std::size_t host = 0;     // index into HostBuffers
    std::int64_t offset = 0;  // bytes
    std::int64_t bytes = 0;
    std::int64_t place = -1;  // in a slot, of a copy to or from there
    int channel = -1;         // of a kernel that exchanges
  };
  // Pinned memory of a step's own inputs and its outputs: the addresses that a captured step has. Two steps use two by turns.
  struct Slot {
    std::byte* memory = nullptr;
    std::unique_ptr<Event> ended;  // the step
    std::unique_ptr<CapturedGraph> graph;
  };
  void execute(const Instruction& i, const HostBuffers& host, const Slot& slot) const;
  // Calls call(instruction) for all of a list in order; what it throws gets the step's name.
  template <class List, class Execute>
  void for_each(List& list, const Execute& call) const;
  void each(const std::vector<Instruction>& list, const std::function<void(const Instruction&)>& call) const;  // the same for other files
  Slot& slot_of(std::size_t step) { return slots_[step % slots_.size()]; }
  void put_inputs(std::span<const std::byte* const> inputs, const Slot& slot) const;
  void get_outputs(std::span<std::byte* const> outputs, const Slot& slot) const;
  // Has the batch staged, if it is not yet, and queues the step's copy of it.
  void take(const HostBuffers& host);
  void queue(const HostBuffers& host, const Slot& slot) const;
  // A kernel is loaded where it is first launched, for which a driver may wait until the device has nothing to do, or hold up other
  // threads: never, while an exchange waits for another device of this process. So where kernels may be launched for the first time each
  // exchange is alone: `call` executes it, and waits for it.
  template <class Call>
  void alone(const Instruction& exchange, const Call& call) const {
    group_->meet(exchange.channel, rank_);
    call();
    group_->meet(exchange.channel, rank_);
  }
  void prepare_slots(const Place& place);
  void record(Device& device);
  struct Adding;  // a step that becomes instructions
  void add(const Adding& a, const SliceStep& step);
  void add(const Adding& a, const LaunchStep& step);
  void add(const Adding& a, const ExchangeStep& step);
  void add(const Adding& a, const ConcatStep& step);
  Instruction copy_of(const Adding& a, BufferId buffer, Instruction::Kind kind, int host, std::int64_t offset) const;
  void add_kernel(const Adding& a, std::unique_ptr<Kernel> kernel);
  void launch(const Adding& a, Kernel& kernel);

  std::vector<Instruction> staged_, taken_;  // staged inputs: from the host, on the copy stream; then to where the step reads
  std::vector<Instruction> instructions_;    // all else
  std::vector<Stream*> streams_;  // those used
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::map<std::pair<StepId, int>, Kernel*> shared_;  // of a step, by its slot: micro-batches that lie in one place share a kernel
  std::vector<std::unique_ptr<Event>> events_;
  std::vector<std::string> names_;  // of the steps, for messages
  std::vector<StepId> step_of_;     // of an expanded plan's steps, the plan's own
  std::vector<HostPart> host_parts_;

  Staging& staging_;
  CollectiveGroup* const group_;
  const int rank_;
  const bool ahead_;
  const std::span<std::byte> poisoned_;
  std::array<Slot, 2> slots_;  // their memory: of devices that run ahead
  std::size_t begun_ = 0, finished_ = 0;
  Device* capturing_ = nullptr;  // until the step is captured, on a device that can
  std::string not_captured_;
};

}  // namespace tandem
