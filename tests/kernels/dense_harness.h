// Runs kernel descriptions on values, whatever their layouts: the oracle of a float kernel is the native double one.
#pragma once
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "graph/half.h"
#include "kernels/cpu/machine.h"
#include "kernels/kernel.h"

namespace tandem {

inline std::ostream& operator<<(std::ostream& out, const Layout& layout) { return out << to_string(layout); }

}  // namespace tandem

namespace tandem::dense_tests {

using Describe = std::vector<KernelDescription> (*)(const KernelRequest&);
using Values = std::vector<double>;

// An operand with memory.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(Operand operand) : operand_(std::move(operand)), lines_(static_cast<std::size_t>(operand_.bytes() + 63) / 64) {}
  Buffer(Operand operand, const Values& values) : Buffer(std::move(operand)) {
    visit([&]<class T>(T* at, std::size_t i) { *at = number_as<T>(values[i]); });
  }
  const Operand& operand() const { return operand_; }
  std::byte* data() { return operand_.present() ? reinterpret_cast<std::byte*>(lines_.data()) : nullptr; }
  std::size_t bytes() const { return static_cast<std::size_t>(operand_.bytes()); }

  Values values() {  // row-major
    Values values(static_cast<std::size_t>(operand_.shape.elements()));
    visit([&]<class T>(T* at, std::size_t i) { values[i] = number_as<double>(*at); });
    return values;
  }
  void fill(std::byte byte) { std::fill_n(reinterpret_cast<std::byte*>(lines_.data()), lines_.size() * sizeof(Line), byte); }
  bool padding_is_zero() {
    Buffer clear = *this;
    clear.visit([]<class T>(T* at, std::size_t) { *at = T{}; });
    for (std::size_t i = 0; i < clear.bytes(); ++i)
      if (clear.data()[i] != std::byte{0}) return false;
    return true;
  }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };

  // Calls f(address, row-major number) for every element. Each axis adds its own share to the address.
  template <class F>
  void visit(F&& f) {
    const Shape& shape = operand_.shape;
    std::vector<std::vector<std::int64_t>> share(static_cast<std::size_t>(shape.rank()));
    for (std::size_t axis = 0; axis < share.size(); ++axis) share[axis].resize(static_cast<std::size_t>(shape.dims[axis]));
    if (shape.rank() > 0)
      for (const PhysicalDim& d : physical_dims(shape, operand_.layout))
        for (std::int64_t i = 0; i < shape[d.axis]; ++i)
          share[static_cast<std::size_t>(d.axis)][static_cast<std::size_t>(i)] += i / d.step % d.size * d.stride;
    visit_storable(operand_.dtype, [&]<class T>() {
      std::size_t number = 0;
      const auto walk = [&](const auto& self, std::size_t axis, T* at) -> void {
        if (axis == share.size()) return f(at, number++);
        for (const std::int64_t offset : share[axis]) self(self, axis + 1, at + offset);
      };
      walk(walk, 0, reinterpret_cast<T*>(data()));
    });
  }

  Operand operand_;
  std::vector<Line> lines_;
};

inline Operand operand(DType dtype, Shape shape, Layout layout = {}) { return {dtype, std::move(shape), std::move(layout)}; }

inline Values random_values(const Shape& shape, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  Values values(static_cast<std::size_t>(shape.elements()));
  for (double& v : values) v = static_cast<float>(uniform(generator));
  return values;
}

// Binds, spoils what the kernel has to write, and runs. Inputs are brought into the layouts it wants; opaque ones must fit.
inline std::vector<Buffer> run(const KernelDescription& d, std::vector<Buffer> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!d.inputs[i].present() || inputs[i].operand() == d.inputs[i]) continue;
    EXPECT_FALSE(d.inputs[i].layout.opaque()) << d.kernel << " wants " << to_string(d.inputs[i]);
    inputs[i] = Buffer(d.inputs[i], inputs[i].values());
  }
  std::vector<Buffer> outputs;
  for (const Operand& o : d.outputs) outputs.emplace_back(o);
  Buffer workspace(operand(DType::uint8, Shape{d.workspace}));
  std::vector<std::byte*> in, out;
  for (Buffer& b : inputs) in.push_back(b.data());
  for (Buffer& b : outputs) out.push_back(b.data());
  const std::unique_ptr<Kernel> kernel = d.make();
  kernel->bind(in, out, workspace.data());
  for (Buffer& b : outputs) b.fill(std::byte{0xff});
  workspace.fill(std::byte{0xff});
  omp_set_num_threads(team_size(2));  // the team that requests here ask for, as a device's own thread has it
  kernel->run({});
  for (Buffer& b : outputs) {
    if (!b.operand().present() || b.operand().layout.opaque()) continue;
    EXPECT_TRUE(b.padding_is_zero()) << d.kernel << ": padding of " << to_string(b.operand());
  }
  return outputs;
}

// Largest difference over the largest magnitude.
inline double error_of(const Values& got, const Values& wanted) {
  EXPECT_EQ(got.size(), wanted.size());
  double difference = 0, scale = 1e-30;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    scale = std::max(scale, std::abs(wanted[i]));
    const double d = std::abs(got[i] - wanted[i]);
    difference = std::max(difference, std::isnan(d) ? std::numeric_limits<double>::infinity() : d);
  }
  return difference / scale;
}

// What float32 sums of `length` products may be off by: rounding errors add up like a random walk.
inline double tolerance(std::int64_t length) {
  return 8 * std::numeric_limits<float>::epsilon() * std::sqrt(static_cast<double>(std::max<std::int64_t>(length, 4)));
}

inline std::string describe_operands(const KernelDescription& d) {
  std::string text = d.kernel;
  for (const Operand& o : d.inputs) text += " " + to_string(o);
  text += " ->";
  for (const Operand& o : d.outputs) text += " " + to_string(o);
  return text;
}

// With all layouts given, as a plan stores them, describing again offers the very same kernel.
inline void expect_found_again(Describe describe, KernelRequest request, const KernelDescription& d) {
  request.inputs = d.inputs;
  request.outputs = d.outputs;
  request.kernel = d.kernel;
  for (const KernelDescription& again : describe(request))
    if (again.kernel == d.kernel && again.inputs == d.inputs && again.outputs == d.outputs) return;
  ADD_FAILURE() << "not found again: " << describe_operands(d);
}

}  // namespace tandem::dense_tests
