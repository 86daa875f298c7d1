// A backend around another whose devices tell when copies of batches and steps began and ended: by events between them that a
// thread waits for, so within the tens of microseconds that waking takes. Of devices with stages_inputs(), whose stream 2 copies.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/device.h"

namespace tandem {

struct TracedInterval {
  double begin = 0, end = 0;  // seconds
};
struct Trace {
  std::vector<TracedInterval> copies, steps;  // of all devices, each in order
};
// The share of the copies' time that lies within steps; not a number where nothing was copied. `skipped` copies at the beginning, and
// the last one, which no step follows, do not count.
double overlap(const Trace& trace, std::size_t skipped = 0);

class TracedBackend final : public Backend {
 public:
  explicit TracedBackend(const Backend& backend);
  ~TracedBackend() override;
  // Steps begun from now on are traced, or not; to be called between steps, while the devices are open. Gives what was traced, once all
  // of it has ended.
  void start() const;
  Trace stop() const;

  std::string name() const override { return backend_.name(); }
  std::string version() const override { return backend_.version(); }
  std::string computes_by() const override { return backend_.computes_by(); }
  std::string unusable() const override { return backend_.unusable(); }
  int device_count() const override { return backend_.device_count(); }
  std::string assumed() const override { return backend_.assumed(); }
  std::string declines(Precision precision) const override { return backend_.declines(precision); }
  bool stages_inputs() const override { return backend_.stages_inputs(); }
  DeviceModel model(int index, int devices_in_use) const override { return backend_.model(index, devices_in_use); }
  std::int64_t free_memory(int index, int devices_in_use) const override { return backend_.free_memory(index, devices_in_use); }
  std::vector<KernelRow> rows() const override { return backend_.rows(); }
  std::vector<KernelDescription> describe(const KernelRequest& request) const override { return backend_.describe(request); }
  Gain fuses(const KernelRequest& request) const override { return backend_.fuses(request); }
  Timing measure(const KernelDescription& description, const KernelOptions& options) const override {
    return backend_.measure(description, options);
  }
  void release_scratch() const override { backend_.release_scratch(); }
  std::unique_ptr<Device> open(int index, const KernelOptions& options) const override;
  std::unique_ptr<CollectiveGroup> create_group(const GroupSpec& spec) const override { return backend_.create_group(spec); }
  std::unique_ptr<Kernel> staged(std::unique_ptr<Kernel> exchange, const StagedBytes& bytes) const override {
    return backend_.staged(std::move(exchange), bytes);
  }

 private:
  struct Recording;
  const Backend& backend_;
  std::unique_ptr<Recording> recording_;
};

}  // namespace tandem
