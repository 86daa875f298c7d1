// What verify() is made of: all breaches of a plan are collected, then told at once.
#pragma once
#include "planner/plan/format.h"

namespace tandem {

class Breaches {
 public:
  template <class... Parts>
  void add(const Parts&... parts) {
    if (++count_ <= shown) text_ += concat("\n  ", parts...);
  }
  void raise(const Plan& plan) const;  // fails (model) where there are any

 private:
  static constexpr std::size_t shown = 100;  // the rest is counted
  std::size_t count_ = 0;
  std::string text_;
};

// A name as messages show it.
std::string brief(const std::string& name);

// How a device's part and what is in it are named in messages, and where breaches of it go.
class DeviceBreaches {
 public:
  DeviceBreaches(const Plan& plan, const DevicePlan& device, Breaches& breaches) : plan_(plan), device_(device), breaches_(breaches) {}
  template <class... Parts>
  void add(const Parts&... parts) {
    breaches_.add(device_.device, ": ", parts...);
    ++count_;
  }
  std::size_t count() const { return count_; }
  std::string buffer(BufferId id) const;
  std::string step(StepId id) const;

 private:
  const Plan& plan_;
  const DevicePlan& device_;
  Breaches& breaches_;
  std::size_t count_ = 0;
};

// "step 3 (Relu)"
std::string name_of_step(const Plan& plan, const DevicePlan& device, StepId id);

struct Structure {
  bool sound = false;  // indices and places may be relied on
  IdVector<BufferId, BufferId> roots;  // the buffer whose memory a buffer shares, itself where it has its own
};
// Arenas, buffers and steps each by itself.
Structure verify_structure(const Plan& plan, const DevicePlan& device, Breaches& breaches);
// What kernels are launched with, of a sound device.
void verify_launches(const Plan& plan, const DevicePlan& device, Breaches& breaches);
// Which bytes are used when, of a sound device.
void verify_memory(const Plan& plan, const DevicePlan& device, const IdVector<BufferId, BufferId>& roots, Breaches& breaches);
// What passes between devices, and between them and the host, of a plan whose devices are sound.
void verify_exchanges(const Plan& plan, Breaches& breaches);
void verify_host(const Plan& plan, Breaches& breaches);

}  // namespace tandem
