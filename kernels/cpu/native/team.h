// Who runs the parts of a kernel: OpenMP's threads, or what stands in for them in the calling thread (tests, which count the parts).
#pragma once
#include <functional>

namespace tandem::native {

class Team {
 public:
  virtual ~Team() = default;
  // Calls part(k) once for each k < parts. Parts do not throw.
  virtual void run(int parts, const std::function<void(int)>& part) = 0;
};

// Null: OpenMP's. While one stands in, `share` gives each part what is its own, as if all were equally fast.
inline constinit thread_local Team* stand_in = nullptr;

}  // namespace tandem::native
