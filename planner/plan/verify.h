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
  DeviceBreaches(const DevicePlan& device, Breaches& breaches) : device_(device), breaches_(breaches) {}
  template <class... Parts>
  void add(const Parts&... parts) {
    breaches_.add(device_.device, ": ", parts...);
    ++count_;
  }
  std::size_t count() const { return count_; }
  std::string buffer(int index) const;
  std::string step(std::size_t index) const;

 private:
  const DevicePlan& device_;
  Breaches& breaches_;
  std::size_t count_ = 0;
};

// roots[i]: the buffer whose memory buffer i shares, itself where it has its own.
struct Structure {
  bool sound = false;  // indices and places may be relied on
  std::vector<int> roots;
};
// Arenas, buffers and steps each by itself.
Structure verify_structure(const Plan& plan, const DevicePlan& device, Breaches& breaches);
// What kernels are launched with, of a sound device.
void verify_launches(const DevicePlan& device, Breaches& breaches);
// Which bytes are used when, of a sound device.
void verify_memory(const Plan& plan, const DevicePlan& device, const std::vector<int>& roots, Breaches& breaches);

}  // namespace tandem
