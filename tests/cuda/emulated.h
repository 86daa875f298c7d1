// Runs kernels of our own on the host emulation, against the CPU backend's native kernels in float64.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "kernels/device.h"

namespace tandem::cuda {

// A tensor in memory, in some layout. Exactly as large as it has to be, so that the address sanitizer sees one byte more.
struct Held {
  Operand operand;
  std::vector<std::byte> bytes;
};

using DescribeFunction = std::function<std::vector<KernelDescription>(const KernelRequest&)>;
// Our own kernels of an operator, or the CPU backend's native ones.
std::vector<KernelDescription> describe_emulated(const KernelRequest& request);
std::vector<KernelDescription> describe_native_cpu(const KernelRequest& request);
bool is_emulated(std::string_view op);

Held hold(const Tensor& tensor, DType dtype, const Layout& layout = {});  // rounded to dtype; layout any: row-major
Held reordered(const Held& value, const Layout& layout);
std::vector<double> values_of(const Held& value);  // row-major

struct Job {
  std::string op;
  Attributes attributes;
  std::vector<Operand> outputs;  // dtype and shape; the layout wanted, or any
};
// Runs the first description on the inputs, which it may want reordered. What is written starts as NaNs.
std::vector<Held> run(const DescribeFunction& describe, const Job& job, const std::vector<Held>& inputs);
// The same of every description, on the host or in memory of a device.
std::vector<std::vector<Held>> run_all_on_host(const DescribeFunction& describe, const Job& job, const std::vector<Held>& inputs,
                                               std::vector<std::string>& kernels);
std::vector<std::vector<Held>> run_all_on(Device& device, const DescribeFunction& describe, const Job& job, const std::vector<Held>& inputs,
                                          std::vector<std::string>& kernels);

// Largest error of float32 (or the storage type) after sums of `terms` numbers.
double tolerance_of(DType dtype, std::int64_t terms);
void expect_close(const Held& got, const Held& wanted, double tolerance, const std::string& what);

Tensor random_tensor(std::mt19937& random, const Shape& shape, double low = -2, double high = 2);        // float64
Tensor random_integers(std::mt19937& random, const Shape& shape, std::int64_t low, std::int64_t high);   // int64, high excluded

// The whole comparison: the operator in `dtype` on the emulation with inputs in `layout` where they have its rank, and
// in float64 on the CPU. Integer inputs keep their type.
struct Comparison {
  std::string op;
  Attributes attributes;
  std::vector<Tensor> inputs;
  std::vector<TensorType> outputs;  // float64 stands for `dtype`
  std::int64_t terms = 1;           // summed in an output element
};
void expect_same(const Comparison& c, DType dtype, const Layout& layout);
// Every kernel that `describe` offers, run on a device.
void expect_same_on(Device& device, const DescribeFunction& describe, const Comparison& c, DType dtype, const Layout& layout);

}  // namespace tandem::cuda
