#include "tests/cuda/emulated.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/kernels.h"
#include "kernels/cuda/bodies/types.h"
#include "kernels/cuda/kernels.h"

namespace tandem::cuda {
namespace {

constexpr int poison = 0xff;  // NaN in every floating-point type

std::size_t offset_of(const std::vector<PhysicalDim>& dims, const Shape& shape, std::int64_t number) {
  std::vector<std::int64_t> index(static_cast<std::size_t>(shape.rank()));
  for (std::size_t axis = index.size(); axis-- > 0;) {
    index[axis] = number % shape.dims[axis];
    number /= shape.dims[axis];
  }
  std::int64_t offset = 0;
  for (const PhysicalDim& d : dims) offset += index[static_cast<std::size_t>(d.axis)] / d.step % d.size * d.stride;
  return static_cast<std::size_t>(offset);
}

template <class F>
void visit_type(DType dtype, F&& f) {
  if (dtype == DType::float16 || dtype == DType::bfloat16) {
    dtype == DType::float16 ? f.template operator()<Half>() : f.template operator()<BFloat16>();
    return;
  }
  visit_number(is_small(dtype) ? DType::uint8 : dtype, f);  // small types as their codes
}

template <class T>
double number_of(T v) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
    return static_cast<double>(load(v));
  else
    return static_cast<double>(v);
}
template <class T>
T element_of(double v) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
    return store<T>(static_cast<float>(v));
  else
    return static_cast<T>(v);
}

Held empty(const Operand& operand) {
  return {operand, std::vector<std::byte>(static_cast<std::size_t>(operand.bytes()), std::byte{poison})};
}

}  // namespace

std::vector<KernelDescription> describe_emulated(const KernelRequest& request) {
  for (const Row& row : native_kernels())
    if (row.serves(request.op)) return row.describe(request, nullptr);
  return {};
}

bool is_emulated(std::string_view op) {
  return std::ranges::any_of(native_kernels(), [&](const Row& row) { return row.serves(op); });
}

namespace {

// A product, and then its activation, or the slope of one.
class ActivatedReference final : public Kernel {
 public:
  ActivatedReference(std::unique_ptr<Kernel> product, std::unique_ptr<Kernel> bend, bool backward)
      : product_(std::move(product)), bend_(std::move(bend)), backward_(backward) {}
  void bind(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs, std::byte* workspace) override {
    std::byte* const before[] = {outputs.back()};
    product_->bind(backward_ ? inputs.first(2) : inputs, before, workspace);
    std::vector<std::byte*> in{outputs.back()};
    if (backward_) in.push_back(inputs[2]);
    bend_->bind(in, outputs.first(1), nullptr);
  }
  void run(StreamHandle stream) override {
    product_->run(stream);
    bend_->run(stream);
  }

 private:
  std::unique_ptr<Kernel> product_, bend_;
  bool backward_;
};

std::vector<KernelDescription> describe_activated(const KernelRequest& request, const std::string& activation) {
  const bool backward = request.op == "InnerProductBackwardData";
  Attributes linear = *request.attributes;
  linear.erase("activation");
  KernelRequest product = request;
  product.attributes = &linear;
  product.outputs.resize(1);
  if (backward) product.inputs.resize(2);
  const std::vector<KernelDescription> products = describe_native_cpu(product);
  if (products.empty()) return {};
  KernelDescription d = products[0];
  d.outputs.resize(request.outputs.size(), d.outputs[0]);
  if (backward) d.inputs.push_back(d.outputs[0]);
  const std::string op = backward ? activation + "Backward" : activation;
  const Attributes none;
  KernelRequest bend{.op = op, .attributes = &none, .inputs = {d.outputs[0]}, .outputs = {d.outputs[0]}};
  if (backward) bend.inputs.push_back(d.outputs[0]);
  const std::vector<KernelDescription> bends = describe_native_cpu(bend);
  if (bends.empty()) return {};
  d.make = [product = products[0].make, bend = bends[0].make, backward] {
    return std::make_unique<ActivatedReference>(product(), bend(), backward);
  };
  return {d};
}

}  // namespace

std::vector<KernelDescription> describe_native_cpu(const KernelRequest& request) {
  if (const std::string activation = request.attributes->text("activation", "");
      request.op.starts_with("InnerProduct") &&
      (activation.starts_with("Gelu") || (request.inputs.size() > 2 && request.op.ends_with("Data"))))
    return describe_activated(request, activation);
  for (const CpuKernelRow& row : cpu_kernels())
    if (row.serves(request.op) && row.kernel.starts_with("native."))
      if (auto found = row.describe(request); !found.empty()) return found;
  return {};
}

Held hold(const Tensor& tensor, DType dtype, const Layout& layout) {
  Held h = empty({dtype, tensor.shape(), Layout::row_major(tensor.shape().rank())});
  if (is_small(dtype)) std::ranges::copy(tensor.bytes(), h.bytes.begin());
  else visit_number(tensor.dtype(), [&]<class From>() {
    const auto from = tensor.values<From>();
    visit_type(dtype, [&]<class T>() {
      for (std::size_t i = 0; i < from.size(); ++i) {
        T value;
        if constexpr (std::is_integral_v<From> && std::is_integral_v<T>)
          value = static_cast<T>(from[i]);
        else
          value = element_of<T>(static_cast<double>(from[i]));
        std::memcpy(h.bytes.data() + i * sizeof(T), &value, sizeof(T));
      }
    });
  });
  return layout.any() ? h : reordered(h, layout);
}

Held reordered(const Held& value, const Layout& layout) {
  if (value.operand.layout == layout) return value;
  const Shape& shape = value.operand.shape;
  Held to = empty({value.operand.dtype, shape, layout});
  const std::size_t size = size_of(value.operand.dtype);
  const std::vector<PhysicalDim> a = physical_dims(shape, value.operand.layout), b = physical_dims(shape, layout);
  for (std::int64_t i = 0; i < shape.elements(); ++i)
    std::memcpy(to.bytes.data() + offset_of(b, shape, i) * size, value.bytes.data() + offset_of(a, shape, i) * size, size);
  return to;
}

std::vector<double> values_of(const Held& value) {
  const Held plain = value.operand.layout.opaque() ? value : reordered(value, Layout::row_major(value.operand.shape.rank()));
  std::vector<double> values(static_cast<std::size_t>(value.operand.shape.elements()));
  visit_type(value.operand.dtype, [&]<class T>() {
    for (std::size_t i = 0; i < values.size(); ++i) {
      T v;
      std::memcpy(&v, plain.bytes.data() + i * sizeof(T), sizeof(T));
      values[i] = number_of(v);
    }
  });
  return values;
}

namespace {

KernelRequest request_of(const Job& job, const std::vector<Held>& inputs) {
  KernelRequest request{job.op, &job.attributes, {}, job.outputs, {}, {}};
  for (const Held& h : inputs) request.inputs.push_back(h.operand);
  return request;
}

std::vector<Held> as_wanted(const KernelDescription& d, const std::vector<Held>& inputs) {
  std::vector<Held> in;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    in.push_back(!inputs[i].operand.present() || d.inputs[i].layout == inputs[i].operand.layout ? inputs[i]
                                                                                                : reordered(inputs[i], d.inputs[i].layout));
  return in;
}

std::vector<Held> run_on_host(const KernelDescription& d, const std::vector<Held>& inputs) {
  std::vector<Held> in = as_wanted(d, inputs), out;
  std::vector<std::byte*> in_bytes, out_bytes;
  for (Held& h : in) in_bytes.push_back(h.operand.present() ? h.bytes.data() : nullptr);
  for (const Operand& o : d.outputs) out.push_back(empty(o));
  for (Held& h : out) out_bytes.push_back(h.operand.present() ? h.bytes.data() : nullptr);
  std::vector<std::byte> workspace(static_cast<std::size_t>(d.workspace), std::byte{poison});
  const std::unique_ptr<Kernel> kernel = d.make();
  kernel->bind(in_bytes, out_bytes, workspace.data());
  kernel->run({});
  return out;
}

}  // namespace

std::vector<Held> run(const DescribeFunction& describe, const Job& job, const std::vector<Held>& inputs) {
  const std::vector<KernelDescription> found = describe(request_of(job, inputs));
  if (!found.empty()) return run_on_host(found[0], inputs);
  ADD_FAILURE() << job.op << " has no kernel for its first input " << (inputs.empty() ? "" : to_string(inputs[0].operand));
  return {};
}

std::vector<std::vector<Held>> run_all_on_host(const DescribeFunction& describe, const Job& job, const std::vector<Held>& inputs,
                                               std::vector<std::string>& kernels) {
  std::vector<std::vector<Held>> all;
  for (const KernelDescription& d : describe(request_of(job, inputs))) {
    kernels.push_back(d.kernel);
    all.push_back(run_on_host(d, inputs));
  }
  return all;
}

std::vector<std::vector<Held>> run_all_on(Device& device, const DescribeFunction& describe, const Job& job, const std::vector<Held>& inputs,
                                          std::vector<std::string>& kernels) {
  const std::unique_ptr<Stream> stream = device.create_stream(0);
  std::vector<std::vector<Held>> all;
  KernelRequest request = request_of(job, inputs);
  request.timed = true;  // every engine that could be chosen by time
  for (const KernelDescription& d : describe(request)) {
    kernels.push_back(d.kernel);
    const std::vector<Held> in = as_wanted(d, inputs);
    std::vector<Held>& out = all.emplace_back();
    std::vector<std::byte*> in_bytes, out_bytes;
    const auto place = [&](const Held& h) -> std::byte* {
      if (!h.operand.present()) return nullptr;
      std::byte* const memory = device.allocate(h.operand.bytes());
      stream->copy_in(memory, h.bytes.data(), h.operand.bytes());
      return memory;
    };
    for (const Held& h : in) in_bytes.push_back(place(h));
    for (const Operand& o : d.outputs) out_bytes.push_back(place(out.emplace_back(empty(o))));
    try {
      const std::unique_ptr<Kernel> kernel = d.make();
      std::byte* const workspace = d.workspace > 0 ? device.allocate(d.workspace) : nullptr;
      if (workspace) stream->fill(workspace, std::byte{0xFF}, d.workspace);
      kernel->bind(in_bytes, out_bytes, workspace);
      stream->launch(*kernel);
      for (std::size_t i = 0; i < out.size(); ++i)
        if (out[i].operand.present()) stream->copy_out(out[i].bytes.data(), out_bytes[i], out[i].operand.bytes());
      stream->synchronize();
    } catch (const Error& error) {
      fail(error.code(), d.kernel, " of ", job.op, " {", job.attributes, "}: ", error.what());
    }
  }
  return all;
}

double tolerance_of(DType dtype, std::int64_t terms) {
  const double unit = dtype == DType::float64 ? 0x1p-52 : dtype == DType::float16 ? 0x1p-10 : dtype == DType::bfloat16 ? 0x1p-7 : 0x1p-23;
  return unit * (8 + 4 * std::sqrt(static_cast<double>(terms)));
}

void expect_close(const Held& got, const Held& wanted, double tolerance, const std::string& what) {
  const std::vector<double> a = values_of(got), b = values_of(wanted);
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(b[i])) {
      ASSERT_TRUE(std::isnan(a[i])) << what << ": element " << i << " is " << a[i] << ", expected NaN";
      continue;
    }
    if (a[i] == b[i]) continue;
    ASSERT_LE(std::fabs(a[i] - b[i]), tolerance * std::max(1.0, std::fabs(b[i])))
        << what << ": element " << i << " is " << a[i] << ", expected " << b[i];
  }
}

Tensor random_tensor(std::mt19937& random, const Shape& shape, double low, double high) {
  Tensor t(TensorType{DType::float64, shape});
  std::uniform_real_distribution<double> between(low, high);
  // Few bits, so that every type holds the same numbers.
  for (double& v : t.write<double>()) v = std::round(between(random) * 64) / 64;
  return t;
}

Tensor random_integers(std::mt19937& random, const Shape& shape, std::int64_t low, std::int64_t high) {
  Tensor t(TensorType{DType::int64, shape});
  std::uniform_int_distribution<std::int64_t> between(low, high - 1);
  for (std::int64_t& v : t.write<std::int64_t>()) v = between(random);
  return t;
}

namespace {

std::vector<Held> hold_all(const Comparison& c, DType real, const Layout& wanted) {
  std::vector<Held> all;
  for (const Tensor& t : c.inputs)
    all.push_back(t.dtype() == DType::undefined ? Held{}
                                                : hold(t, t.dtype() == DType::float64 ? real : t.dtype(),
                                                       t.shape().rank() == static_cast<int>(wanted.tag().size()) ? wanted : Layout()));
  return all;
}
Job job_of(const Comparison& c, DType real) {
  Job j{c.op, c.attributes, {}};
  for (const TensorType& t : c.outputs) {
    // in float32 of 16 bits
    const bool sum = (c.op == "Conv" && t.shape.rank() == 1) || (c.op == "SoftmaxCrossEntropyTraining" && t.shape.rank() == 0);
    j.outputs.push_back({t.dtype != DType::float64                        ? t.dtype
                         : sum && size_of(real) < size_of(DType::float32) ? DType::float32
                                                                          : real,
                         t.shape,
                         {}});
  }
  return j;
}
void expect_outputs(const std::vector<Held>& got, const std::vector<Held>& wanted, const Comparison& c, DType dtype,
                    const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i)
    if (!got[i].operand.layout.opaque())
      expect_close(got[i], wanted[i], tolerance_of(dtype, c.terms), concat(what, " output ", i, ' ', dtype, " {", c.attributes, '}'));
}

}  // namespace

void expect_same(const Comparison& c, DType dtype, const Layout& layout) {
  expect_outputs(run(describe_emulated, job_of(c, dtype), hold_all(c, dtype, layout)),
                 run(describe_native_cpu, job_of(c, DType::float64), hold_all(c, DType::float64, {})), c, dtype, concat(c.op, ' ', layout));
}

void expect_same_on(Device& device, const DescribeFunction& describe, const Comparison& c, DType dtype, const Layout& layout) {
  const std::vector<Held> wanted = run(describe_native_cpu, job_of(c, DType::float64), hold_all(c, DType::float64, {}));
  std::vector<std::string> kernels;
  const std::vector<std::vector<Held>> got = run_all_on(device, describe, job_of(c, dtype), hold_all(c, dtype, layout), kernels);
  EXPECT_FALSE(got.empty()) << c.op << " has no kernel in " << to_string(dtype);
  for (std::size_t i = 0; i < got.size(); ++i) expect_outputs(got[i], wanted, c, dtype, concat(kernels[i], ' ', layout));
}

}  // namespace tandem::cuda
