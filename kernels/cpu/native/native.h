// What native kernels share: kernels made from a function, strided nests, threads.
#pragma once
#include <omp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <type_traits>
#include <utility>

#include "kernels/cpu/describe.h"
#include "kernels/cpu/native/team.h"

namespace tandem::native {

// The addresses a kernel was bound to.
struct Memory {
  std::vector<std::byte*> inputs, outputs;
  std::byte* workspace = nullptr;
  template <class T>
  const T* in(int i) const {
    return reinterpret_cast<const T*>(inputs[static_cast<std::size_t>(i)]);
  }
  template <class T>
  T* out(int i) const {
    return reinterpret_cast<T*>(outputs[static_cast<std::size_t>(i)]);
  }
};

template <class Run>
class FunctionKernel final : public Kernel {
 public:
  explicit FunctionKernel(Run run) : run_(std::move(run)) {}
  void bind(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs, std::byte* workspace) override {
    memory_.inputs.assign(inputs.begin(), inputs.end());
    memory_.outputs.assign(outputs.begin(), outputs.end());
    memory_.workspace = workspace;
  }
  void run(StreamHandle) override { run_(std::as_const(memory_)); }

 private:
  Run run_;
  Memory memory_;
};

// description.make = make_kernel([=](const Memory& m) { ... }): the function is all the kernel needs, and allocates nothing.
template <class Run>
std::function<std::unique_ptr<Kernel>()> make_kernel(Run run) {
  return [run]() -> std::unique_ptr<Kernel> { return std::make_unique<FunctionKernel<Run>>(run); };
}

// Threads worth starting for this much work.
inline int threads_for(std::int64_t work, int threads, std::int64_t grain = 16384) {
  return static_cast<int>(std::clamp<std::int64_t>(work / grain, 1, std::max(1, threads)));
}

// Calls part(k) for k < parts, each in one thread. What a part does depends on `parts` alone, so that results do not
// depend on how many threads the system really gives. Parts do not throw.
template <class Part>
void parallel(int parts, const Part& part) {
  if (parts <= 1) {
    part(0);
    return;
  }
  if (stand_in) return stand_in->run(parts, std::cref(part));
#if defined(__SANITIZE_THREAD__)  // it cannot see how OpenMP's threads wait for each other
  std::vector<std::thread> threads;
  for (int k = 0; k < parts; ++k) threads.emplace_back([&part, k] { part(k); });
  for (std::thread& t : threads) t.join();
#else
  // Always of as many threads as the device has: of a smaller team libgomp ends the others, and starts new ones for the next larger one.
#pragma omp parallel for schedule(static, 1) num_threads(std::max(parts, omp_get_max_threads()))
  for (int k = 0; k < parts; ++k) part(k);
#endif
}

struct Range {
  std::int64_t begin, end;
};
// Part k of [0, n): floor(n·k/parts) to floor(n·(k+1)/parts).
inline Range part_of(std::int64_t n, std::int64_t k, std::int64_t parts) { return {n * k / parts, n * (k + 1) / parts}; }

// Calls task(part, i) for i < tasks, each once: a part does its own range, then what others have left of theirs, as cores are not
// always equally fast. What a task gives depends on nothing that its part did before.
template <class Task>
void share(int parts, std::int64_t tasks, const Task& task) {
  constexpr int most = 64;  // ranges
  const int ranges = std::min(parts, most);
  std::array<std::atomic<std::int64_t>, most> next;
  for (int r = 0; r < ranges; ++r) next[static_cast<std::size_t>(r)] = part_of(tasks, r, ranges).begin;
  const int turns = stand_in ? 1 : ranges;  // one after another, the first part would do everything
  parallel(parts, [&](int part) {
    for (int k = 0; k < turns; ++k) {
      const int r = (part + k) % ranges;
      const std::int64_t end = part_of(tasks, r, ranges).end;
      for (std::int64_t i; (i = next[static_cast<std::size_t>(r)].fetch_add(1, std::memory_order_relaxed)) < end;) task(part, i);
    }
  });
}

// Calls each(row, numbers) for rows of n numbers, which threads share, of each number in the order of the rows: what threads have summed
// of their own is added so.
template <class Each>
void in_order(std::int64_t rows, std::int64_t n, int threads, const Each& each) {
  constexpr std::int64_t grain = 1024;
  const int parts = threads_for(rows * n, threads, grain);
  parallel(parts, [&](int part) {
    for (std::int64_t row = 0; row < rows; ++row) each(row, part_of(n, part, parts));
  });
}

inline Layout layout_or_row_major(const Operand& operand) {
  return operand.layout.any() ? Layout::row_major(operand.shape.rank()) : operand.layout;
}

// Of a row-major tensor around an axis: sizes before it, its own, sizes behind it.
struct Extent {
  std::int64_t outer = 1, axis = 1, inner = 1;
};
inline Extent extent_of(const Shape& shape, int axis) {
  Extent e;
  for (int i = 0; i < shape.rank(); ++i) (i < axis ? e.outer : i == axis ? e.axis : e.inner) *= shape[i];
  return e;
}

// The operand in a layout; absent ones stay absent.
inline Operand with_layout(Operand operand, Layout layout) {
  if (operand.present()) operand.layout = std::move(layout);
  return operand;
}
inline Operand row_major(const Operand& operand) { return with_layout(operand, Layout::row_major(operand.shape.rank())); }
inline std::vector<Operand> row_major(const std::vector<Operand>& operands) {
  std::vector<Operand> all;
  for (const Operand& operand : operands) all.push_back(row_major(operand));
  return all;
}

// All operands row-major.
inline KernelDescription row_major_description(std::string kernel, const KernelRequest& request, double efficiency) {
  return {
      .kernel = std::move(kernel), .inputs = row_major(request.inputs), .outputs = row_major(request.outputs), .efficiency = efficiency};
}

// visit_size(4, [&]<class T>() { ... }) with T an unsigned integer of that many bytes.
template <class F>
void visit_size(std::size_t bytes, F&& f) {
  switch (bytes) {
    case 1: return f.template operator()<std::uint8_t>();
    case 2: return f.template operator()<std::uint16_t>();
    case 4: return f.template operator()<std::uint32_t>();
    case 8: return f.template operator()<std::uint64_t>();
    default: fail("elements of ", bytes, " bytes");
  }
}

// Writes zeros into the padding of a blocked layout.
class PaddingZero {
 public:
  PaddingZero() = default;
  explicit PaddingZero(const Operand& operand);
  bool needed() const { return !axes_.empty(); }
  void run(std::byte* memory) const;

 private:
  struct Axis {
    int axis;
    std::int64_t size;
  };
  void clear(std::byte* memory, std::size_t dim, const Axis& axis, std::int64_t left) const;
  std::vector<PhysicalDim> dims_;  // strides in bytes
  std::vector<Axis> axes_;         // that have padding
};

}  // namespace tandem::native
