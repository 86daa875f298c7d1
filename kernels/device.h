// What a backend offers the runtime: devices with arenas, streams and events, and kernels by description.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "kernels/collective.h"
#include "kernels/kernel.h"
#include "kernels/interconnect.h"
#include "kernels/precision.h"

namespace tandem {

class World;  // ranks/world.h

// What Device::create_stream takes, and plans say of a step.
inline constexpr int compute_stream = 0, communication_stream = 1, copy_stream = 2;
// What stages of a pipeline send each other: each way by streams of its own, so that what comes late holds back nothing else.
inline constexpr int send_forward_stream = 3, receive_forward_stream = 4, send_backward_stream = 5, receive_backward_stream = 6;

// A device as a user names it: "cpu:0", "cuda:3".
struct DeviceId {
  std::string backend;
  int index = 0;
  bool operator==(const DeviceId&) const = default;
};
inline std::string to_string(const DeviceId& id) { return concat(id.backend, ':', id.index); }

// What planning needs to know of a device; a plan can be made from it with no device at hand.
struct DeviceModel {
  std::string name;                 // "AMD EPYC, 2 cores", "NVIDIA H200"
  std::int64_t memory = 0;          // bytes usable
  double flops = 0;                 // float32 peak, FLOP/s
  double bandwidth = 0;             // memory, bytes/s
  double launch_seconds = 0;        // fixed cost of one kernel
  double link_bandwidth = 0;        // to the nearest neighbour, bytes/s
  int threads = 1;
  int multiprocessors = 0;          // of a GPU: how many blocks fill it goes by them
  // devices that take turns on the same cores: times taken alone are as many times longer. Not kept in plans
  double sharing = 1;
  std::int64_t alignment = 64;      // bytes: buffers begin at multiples of it. Not kept in plans
  Interconnect links;               // to all others; without levels one of link_bandwidth. Not kept in plans
};

class Event {
 public:
  virtual ~Event() = default;
  virtual void synchronize() = 0;  // the caller waits for what was queued before the last record; rethrows what failed there
};

// An ordered queue of work. Nothing here allocates.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual void launch(Kernel& kernel) = 0;
  // To and from the host: may wait for the stream where that memory is not of allocate_host().
  virtual void copy_in(std::byte* device, const std::byte* host, std::int64_t bytes) = 0;
  virtual void copy_out(std::byte* host, const std::byte* device, std::int64_t bytes) = 0;
  virtual void copy(std::byte* to, const std::byte* from, std::int64_t bytes) = 0;  // on the device
  virtual void fill(std::byte* device, std::byte value, std::int64_t bytes) = 0;
  virtual void record(Event& event) = 0;
  virtual void wait(Event& event) = 0;  // work queued later starts after what was queued before the event's last record
  virtual void synchronize() = 0;       // the caller waits for all queued work; rethrows what failed
};

// A step recorded once and replayed with no host work in between.
class CapturedGraph {
 public:
  virtual ~CapturedGraph() = default;
  virtual void launch(Stream& stream) = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual void activate() = 0;  // called by each thread that drives this device, before anything else
  // Zeroed, 4096-byte aligned memory that lives as long as the device; fails (device) where there is none left.
  virtual std::byte* allocate(std::int64_t bytes) = 0;
  // The same, for buffers that a group of devices sums: memory that its library may register.
  virtual std::byte* allocate_summed(std::int64_t bytes) { return allocate(bytes); }
  virtual std::byte* allocate_host(std::int64_t bytes) = 0;  // memory that copies fast (pinned)
  virtual std::unique_ptr<Stream> create_stream(int index) = 0;
  virtual std::unique_ptr<Event> create_event() = 0;
  // Whether its streams work while the host does something else, so that a step can be begun before the one before has ended.
  virtual bool runs_ahead() const { return false; }
  // Optional, for devices that run ahead: between begin and end, what is queued on `stream`, and on streams that wait for it, is
  // recorded and not run. Those streams must have been joined (waited for by `stream`) before the end. Copies to and from the
  // host are of memory of allocate_host().
  virtual bool can_capture() const { return false; }
  virtual void begin_capture(Stream&) { fail(ExitCode::device, "this device cannot capture a step as a graph"); }
  virtual std::unique_ptr<CapturedGraph> end_capture(Stream&) { fail(ExitCode::device, "this device cannot capture a step as a graph"); }
};

// Who takes part in a collective group: by default the devices of this process, one rank each.
struct GroupSpec {
  std::vector<int> devices;     // the index of each device of this process, in rank order; may repeat (logical devices)
  int first_rank = 0;           // of this process's devices
  int ranks = 0;                // over all processes; 0: devices.size()
  World* world = nullptr;       // the processes, where there are several
  double timeout_seconds = 60;  // of waiting for another rank
  bool deterministic = false;   // the same bits in every run
};

// What a member of an exchange copies from and to its device. In place: to where it was copied from.
struct StagedBytes {
  std::int64_t gives = 0, gets = 0;
  bool in_place = false;
};

// One row of `tandem operators`: an operator's kernel, best first.
struct KernelRow {
  std::string_view op;
  std::string_view kernel;
};

// Seconds of one run of a kernel. `disturbed`: other programs held up every run that was timed, so it is an upper bound.
struct Timing {
  double seconds = 0;
  bool disturbed = false;
};

// Whether a step gains by a form of a node. An optional form may pay off or not. Where kernels are timed, a step is planned with and
// without the optional forms, and the shorter plan is kept. Elsewhere optional forms are used.
enum class Gain { no, optional, yes };

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;                 // "cpu"
  virtual std::string version() const = 0;              // of what its timings depend on: library, ISA, processor
  virtual std::string computes_by() const { return version(); }  // of what the bits of its results depend on: library, ISA
  virtual std::string unusable() const = 0;             // empty, or why no device can be opened
  virtual int device_count() const = 0;
  // Of devices that are only described, what their plans rest on: printed once. Empty of devices that can be opened.
  virtual std::string assumed() const { return {}; }
  // Why plans of this precision cannot be made for the backend's devices; empty where they can.
  virtual std::string declines(Precision precision) const {
    return precision == Precision::fp32 ? "" : concat("backend ", name(), " computes in fp32 only");
  }
  // Whether a batch is copied to a device while the step before computes: plans then have room for it (arena staging).
  virtual bool stages_inputs() const { return false; }
  virtual DeviceModel model(int index, int devices_in_use) const = 0;
  // Bytes that are free now for one of `devices_in_use`; -1 where the device is not at hand.
  virtual std::int64_t free_memory(int, int) const { return -1; }
  virtual std::vector<KernelRow> rows() const = 0;
  // Every way to run the request, best guess first; empty where there is none.
  virtual std::vector<KernelDescription> describe(const KernelRequest& request) const = 0;
  // Whether a step gains by this node, which a pass could make of several or of one that reads and writes more: a Conv that also
  // sums its channels, an update that takes its gradient in 16 bits. The forms stand in docs/internal-operators.md. A plan has
  // them where all of its backends say yes. Asked of many nodes and before any layout is chosen: it answers from what the
  // backend knows of its kernels, at no cost. What it does not say no to, describe() must have a kernel for.
  virtual Gain fuses(const KernelRequest&) const { return Gain::no; }
  // One run on scratch memory of the device `options.device` (several runs), infinite where it fails.
  virtual Timing measure(const KernelDescription& description, const KernelOptions& options) const = 0;
  // Frees the scratch memory that measure keeps from call to call: fresh pages can cost more than what is measured.
  virtual void release_scratch() const {}
  virtual std::unique_ptr<Device> open(int index, const KernelOptions& options) const = 0;
  // What the devices of a plan exchange. By default ranks are threads, of one or several processes, whose buffers are host
  // memory.
  virtual std::unique_ptr<CollectiveGroup> create_group(const GroupSpec& spec) const;
  // The part in `exchange`, which works on host memory, of a device that exchanges with devices of other backends. By default the
  // backend's memory is host memory.
  virtual std::unique_ptr<Kernel> staged(std::unique_ptr<Kernel> exchange, const StagedBytes&) const { return exchange; }
};

}  // namespace tandem
