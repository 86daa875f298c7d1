// Runs native kernels on row-major values in any layout, with poisoned memory around every operand: what is read from
// there shows as NaN or a huge integer in the results, what is written there is found.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>

#include "graph/half.h"
#include "kernels/cpu/backend.h"

namespace tandem::native_tests {

using Values = std::vector<double>;

// The offset in elements of every element of a shape, in row-major order.
inline std::vector<std::int64_t> offsets_of(const Shape& shape, const Layout& layout) {
  std::vector<std::int64_t> offsets = {0};
  if (shape.rank() == 0) return offsets;
  const std::vector<PhysicalDim> dims = physical_dims(shape, layout);
  for (int axis = 0; axis < shape.rank(); ++axis) {
    std::vector<std::int64_t> longer;
    for (const std::int64_t offset : offsets)
      for (std::int64_t i = 0; i < shape[axis]; ++i) {
        longer.push_back(offset);
        for (const PhysicalDim& d : dims)
          if (d.axis == axis) longer.back() += i / d.step % d.size * d.stride;
      }
    offsets = std::move(longer);
  }
  return offsets;
}

class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(Operand operand) : operand_(std::move(operand)), bytes_(static_cast<std::size_t>(operand_.bytes())) {
    memory_.assign(bytes_ + 2 * guard, std::byte{poison});
    start_ = guard / 2 + (64 - reinterpret_cast<std::uintptr_t>(memory_.data()) % 64) % 64;
  }
  Buffer(Operand operand, const Values& values) : Buffer(std::move(operand)) {
    if (bytes_ > 0) std::memset(data(), 0, bytes_);
    each([&]<class T>(T& at, std::size_t i) { at = number_as<T>(values.at(i)); });
  }
  const Operand& operand() const { return operand_; }
  std::byte* data() { return operand_.present() ? memory_.data() + start_ : nullptr; }
  std::size_t bytes() const { return bytes_; }
  Values values() {
    Values values(static_cast<std::size_t>(operand_.shape.elements()));
    each([&]<class T>(T& at, std::size_t i) { values[i] = number_as<double>(at); });
    return values;
  }
  bool guards_intact() {
    if (memory_.empty()) return true;
    for (std::byte* p = memory_.data(); p != memory_.data() + memory_.size(); ++p)
      if ((p < data() || p >= data() + bytes_) && *p != std::byte{poison}) return false;
    return true;
  }
  bool padding_is_zero() {
    std::vector<std::byte> copy(data(), data() + bytes_);
    each([&]<class T>(T& at, std::size_t) { std::memset(copy.data() + (reinterpret_cast<std::byte*>(&at) - data()), 0, sizeof(T)); });
    return std::all_of(copy.begin(), copy.end(), [](std::byte b) { return b == std::byte{0}; });
  }

 private:
  static constexpr std::size_t guard = 512;
  static constexpr unsigned char poison = 0xff;
  template <class F>
  void each(F&& f) {
    if (operand_.layout.opaque() || !operand_.present()) return;
    const std::vector<std::int64_t> offsets = offsets_of(operand_.shape, operand_.layout);
    visit_storable(is_small(operand_.dtype) ? DType::uint8 : operand_.dtype, [&]<class T>() {  // small types as their codes
      for (std::size_t i = 0; i < offsets.size(); ++i) f(reinterpret_cast<T*>(data())[offsets[i]], i);
    });
  }
  Operand operand_;
  std::size_t bytes_ = 0, start_ = 0;  // 64-byte aligned, but in copies
  std::vector<std::byte> memory_;
};

inline Operand operand(DType dtype, Shape shape, std::string tag = {}) { return {dtype, std::move(shape), Layout(std::move(tag))}; }
inline Operand plain(DType dtype, const Shape& shape) { return {dtype, shape, Layout::row_major(shape.rank())}; }

struct Case {
  std::string_view op;
  Attributes attributes;
  std::vector<Operand> inputs, outputs;
  int threads = 1;
  KernelRequest request() const {
    KernelRequest r;
    r.op = op;
    r.attributes = &attributes;
    r.inputs = inputs;
    r.outputs = outputs;
    r.options.threads = threads;
    return r;
  }
};

// The first description; a test failure where there is none, or where it does not take the layouts that were given.
inline KernelDescription described(const Case& c) {
  std::vector<KernelDescription> all;
  for (KernelDescription& d : cpu_backend().describe(c.request()))
    if (d.kernel.starts_with("native.")) all.push_back(std::move(d));
  if (all.empty()) {
    ADD_FAILURE() << c.op << ": no native kernel giving " << to_string(c.outputs[0]);
    throw std::runtime_error("no kernel");
  }
  return all[0];
}

// Runs it on buffers that are in its layouts; outputs[i] shares the memory of input shared[i] where that is not negative.
inline std::vector<Buffer> run(const KernelDescription& d, std::vector<Buffer>& inputs, const std::vector<int>& shared = {}) {
  std::vector<Buffer> outputs;
  for (const Operand& o : d.outputs) outputs.emplace_back(o);
  Buffer workspace(operand(DType::uint8, Shape{d.workspace}, "a"));
  std::vector<std::byte*> in, out;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_EQ(to_string(inputs[i].operand()), to_string(d.inputs[i])) << d.kernel;
    in.push_back(inputs[i].data());
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const bool shares = i < shared.size() && shared[i] >= 0;
    out.push_back(shares ? in[static_cast<std::size_t>(shared[i])] : outputs[i].data());
  }
  const std::unique_ptr<Kernel> kernel = d.make();
  kernel->bind(in, out, workspace.data());
  kernel->run({});
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (i < shared.size() && shared[i] >= 0) outputs[i] = inputs[static_cast<std::size_t>(shared[i])];
  for (Buffer& b : inputs) EXPECT_TRUE(b.guards_intact()) << d.kernel << " wrote outside " << to_string(b.operand());
  EXPECT_TRUE(workspace.guards_intact()) << d.kernel << " wrote outside its workspace";
  for (Buffer& b : outputs) {
    EXPECT_TRUE(b.guards_intact()) << d.kernel << " wrote outside " << to_string(b.operand());
    if (!b.operand().layout.opaque()) {
      EXPECT_TRUE(b.padding_is_zero()) << d.kernel << ": padding of " << to_string(b.operand());
    }
  }
  return outputs;
}

// Row-major values in, row-major values out, in whatever layouts the kernel takes.
inline std::vector<Values> run_values(const Case& c, const std::vector<Values>& inputs) {
  const KernelDescription d = described(c);
  std::vector<Buffer> buffers;
  for (std::size_t i = 0; i < inputs.size(); ++i) buffers.emplace_back(d.inputs[i], inputs[i]);
  std::vector<Values> outputs;
  for (Buffer& b : run(d, buffers)) outputs.push_back(b.operand().layout.opaque() ? Values{} : b.values());
  return outputs;
}

inline Values random_values(std::int64_t n, unsigned seed, double low = -2, double high = 2) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> uniform(low, high);
  Values values(static_cast<std::size_t>(n));
  for (double& v : values) v = static_cast<float>(uniform(generator));
  return values;
}

inline void expect_near(const Values& got, const Values& wanted, double relative, const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(wanted[i]) && std::isnan(got[i])) continue;
    if (got[i] == wanted[i]) continue;
    ASSERT_LE(std::abs(got[i] - wanted[i]), relative * std::max(1e-30, std::abs(wanted[i])))
        << what << ", element " << i << ": got " << got[i] << ", wanted " << wanted[i];
  }
}

inline constexpr double epsilon_of(DType dtype) {
  return dtype == DType::float32 ? std::numeric_limits<float>::epsilon() : std::numeric_limits<double>::epsilon();
}

// Restricts the vector kernels made in its life.
class WithIsa {
 public:
  explicit WithIsa(const char* isa) { setenv("TANDEM_ISA", isa, 1); }
  ~WithIsa() { unsetenv("TANDEM_ISA"); }
  WithIsa(const WithIsa&) = delete;
};
inline constexpr const char* isas[] = {"baseline", "avx2", "avx512"};

}  // namespace tandem::native_tests
