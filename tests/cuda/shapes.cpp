#include "tests/cuda/shapes.h"

#include <cmath>
#include <cstring>
#include <set>

#include "graph/half.h"

namespace tandem::cuda {
namespace {

constexpr std::size_t noise_period = 1'048'573;  // a prime: no index that is wrong reads the same number
constexpr double allowed_ties = 1e-4;

struct Value {
  Operand operand;
  std::byte* memory = nullptr;
};

DType in(DType wanted, DType type) { return wanted == DType::float64 ? type : wanted; }
Layout usual(const Shape& shape) { return shape.rank() > 2 ? Layout::channels_last(shape.rank()) : Layout::row_major(shape.rank()); }
Shape repeated(Shape shape, const Shape& batch, std::int64_t repeats) {
  if (shape.rank() > 1 && batch.rank() > 1 && shape[0] == batch[0]) shape[0] *= repeats;
  return shape;
}

template <class F>
void visit_stored(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float16:
      return f(
          std::uint16_t{}, [](std::uint16_t v) { return tandem::to_float(tandem::Float16{v}); },
          [](double v) { return tandem::to_float16(static_cast<float>(v)).bits; });
    case DType::bfloat16:
      return f(
          std::uint16_t{}, [](std::uint16_t v) { return tandem::to_float(tandem::BFloat16{v}); },
          [](double v) { return tandem::to_bfloat16(static_cast<float>(v)).bits; });
    case DType::float32: return f(float{}, [](float v) { return v; }, [](double v) { return static_cast<float>(v); });
    case DType::int64:
      return f(
          std::int64_t{}, [](std::int64_t v) { return static_cast<float>(v); }, [](double v) { return static_cast<std::int64_t>(v); });
    default: fail("no noise of ", dtype);
  }
}

class Bench {
 public:
  Bench(const Backend& backend, DType type) : backend_(backend), device_(backend.open(0, {})), type_(type) {
    device_->activate();
    stream_ = device_->create_stream(0);
  }

  // Noise lies in any layout as well as in another.
  Value noise(const ShapeInput& input, const Shape& shape, std::int64_t repeats, unsigned seed) {
    if (input.type.dtype == DType::undefined) return {};
    Value v{{in(input.type.dtype, type_), repeated(input.type.shape, shape, repeats), {}}, nullptr};
    v.operand.layout = usual(v.operand.shape);
    v.memory = device_->allocate(v.operand.bytes());
    const std::int64_t once = input.type.shape.elements() * static_cast<std::int64_t>(size_of(v.operand.dtype));
    std::vector<std::byte> bytes(static_cast<std::size_t>(once));
    visit_stored(v.operand.dtype, [&](auto example, auto, auto store) {
      using T = decltype(example);
      std::mt19937 random(seed);
      std::uniform_real_distribution<double> between(input.low, input.high);
      std::vector<T> period(std::min(noise_period, bytes.size() / sizeof(T)));
      for (T& t : period) t = store(between(random));
      for (std::size_t at = 0; at < bytes.size(); at += period.size() * sizeof(T))
        std::memcpy(bytes.data() + at, period.data(), std::min(period.size() * sizeof(T), bytes.size() - at));
    });
    for (std::int64_t at = 0; at < v.operand.bytes(); at += once) stream_->copy_in(v.memory + at, bytes.data(), once);
    stream_->synchronize();
    return v;
  }

  Value in_layout(const Value& v, const Layout& layout) {
    if (!v.operand.present() || v.operand.layout == layout || layout.any()) return v;
    Value to{v.operand, nullptr};
    to.operand.layout = layout;
    to.memory = device_->allocate(to.operand.bytes());
    static const Attributes none;
    const KernelRequest request{.op = "Reorder", .attributes = &none, .inputs = {v.operand}, .outputs = {to.operand}};
    const std::vector<KernelDescription> found = backend_.describe(request);
    if (found.empty()) fail("no kernel reorders ", to_string(v.operand), " to ", to_string(layout));
    run(found[0], {v.memory}, {to.memory});
    return to;
  }

  std::vector<KernelDescription> describe(const ShapeJob& job, const std::vector<Value>& inputs, std::int64_t repeats) const {
    KernelRequest request{.op = job.op, .attributes = &job.attributes, .inputs = {}, .outputs = {}, .timed = true};
    request.options.winograd = false;  // it rounds more
    for (const Value& v : inputs) request.inputs.push_back(v.operand);
    for (const TensorType& t : job.outputs)
      request.outputs.push_back({in(t.dtype, type_), repeated(t.shape, job.inputs[0].type.shape, repeats), {}});
    return backend_.describe(request);
  }

  std::vector<Value> outputs_of(const KernelDescription& d, const std::vector<Value>& inputs) {
    std::vector<std::byte*> read, written;
    std::vector<Value> outputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) read.push_back(in_layout(inputs[i], d.inputs[i].layout).memory);
    for (const Operand& o : d.outputs) {
      outputs.push_back({o, o.present() ? device_->allocate(o.bytes()) : nullptr});
      if (o.present()) stream_->fill(outputs.back().memory, std::byte{0xFF}, o.bytes());
      written.push_back(outputs.back().memory);
    }
    try {
      run(d, read, written);
    } catch (const Error& error) {
      fail(error.code(), d.kernel, ": ", error.what());
    }
    return outputs;
  }

  // Elements in the usual layout, from a place on.
  std::vector<float> elements(const Value& v, std::int64_t first, std::int64_t count) {
    const Value plain = in_layout(v, usual(v.operand.shape));
    std::vector<float> all(static_cast<std::size_t>(count));
    visit_stored(v.operand.dtype, [&](auto example, auto load, auto) {
      using T = decltype(example);
      std::vector<T> stored(all.size());
      stream_->copy_out(reinterpret_cast<std::byte*>(stored.data()), plain.memory + first * static_cast<std::int64_t>(sizeof(T)),
                        count * static_cast<std::int64_t>(sizeof(T)));
      stream_->synchronize();
      for (std::size_t i = 0; i < all.size(); ++i) all[i] = load(stored[i]);
    });
    return all;
  }

 private:
  void run(const KernelDescription& d, const std::vector<std::byte*>& inputs, const std::vector<std::byte*>& outputs) {
    const std::unique_ptr<Kernel> kernel = d.make();
    std::byte* const workspace = d.workspace > 0 ? device_->allocate(d.workspace) : nullptr;
    if (workspace) stream_->fill(workspace, std::byte{0xFF}, d.workspace);
    kernel->bind(inputs, outputs, workspace);
    stream_->launch(*kernel);
    stream_->synchronize();
  }

  const Backend& backend_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  const DType type_;
};

// Both round what they store, and sum in float32 in orders of their own.
void expect_alike(const std::vector<float>& got, const std::vector<float>& wanted, DType dtype, const ShapeJob& job,
                  const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  const double unit = dtype == DType::float16 ? 0x1p-10 : dtype == DType::bfloat16 ? 0x1p-7 : 0x1p-22;
  double squares = 0;
  for (const float w : wanted) squares += static_cast<double>(w) * w;
  const double rms = std::sqrt(squares / static_cast<double>(std::max<std::size_t>(1, wanted.size())));
  const double absolute = rms * (4 * unit + 0x1p-20 * std::sqrt(static_cast<double>(job.terms)));
  std::size_t beyond = 0, first = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    if (!(std::fabs(static_cast<double>(got[i]) - wanted[i]) <= 2 * unit * std::fabs(wanted[i]) + absolute) && beyond++ == 0) first = i;
  const double allowed = job.ties ? allowed_ties * static_cast<double>(got.size()) : 0;
  EXPECT_LE(static_cast<double>(beyond), allowed) << what << ": " << beyond << " of " << got.size() << " elements differ, element " << first
                                                  << " is " << got[first] << ", expected " << wanted[first];
}

std::size_t reference_of(const std::vector<KernelDescription>& found) {
  for (std::size_t i = 0; i < found.size(); ++i)
    if (found[i].kernel.starts_with("native.")) return i;
  return 0;
}

std::vector<Value> all_noise(Bench& bench, const ShapeJob& job, std::int64_t repeats) {
  std::vector<Value> all;
  for (const ShapeInput& i : job.inputs)
    all.push_back(bench.noise(i, job.inputs[0].type.shape, repeats, static_cast<unsigned>(all.size())));
  return all;
}

// Runs all kernels of a job on the same values and compares what is no opaque operand; the outputs of the first of each opaque layout.
std::vector<std::vector<Value>> compare(Bench& bench, const ShapeJob& job, const std::vector<Value>& inputs, Compared& compared) {
  const std::vector<KernelDescription> found = bench.describe(job, inputs, 1);
  EXPECT_FALSE(found.empty()) << job.op << " has no kernel";
  if (found.empty()) return {};
  const std::size_t reference = reference_of(found);
  const std::vector<Value> wanted = bench.outputs_of(found[reference], inputs);
  std::vector<std::vector<Value>> kept{wanted};
  std::set<std::string> layouts;
  const auto opaque_layouts = [](const std::vector<Value>& values) {
    std::string text;
    for (const Value& v : values)
      if (v.operand.layout.opaque()) text += to_string(v.operand.layout);
    return text;
  };
  layouts.insert(opaque_layouts(wanted));
  for (std::size_t k = 0; k < found.size(); ++k) {
    ++compared.kernels;
    const std::vector<Value> got = k == reference ? wanted : bench.outputs_of(found[k], inputs);
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (!got[i].operand.present() || got[i].operand.layout.opaque()) continue;
      const std::int64_t count = got[i].operand.shape.elements();
      expect_alike(bench.elements(got[i], 0, count), bench.elements(wanted[i], 0, count), got[i].operand.dtype, job,
                   concat(found[k].kernel, " output ", i));
    }
    if (layouts.insert(opaque_layouts(got)).second) kept.push_back(got);
  }
  return kept;
}

// The batch many times over: what it begins and ends with, and what lies around the 2³¹st element, is as it is of one.
void compare_repeated(Bench& bench, const ShapeRow& row, const std::vector<Value>& once, Compared& compared) {
  const ShapeJob& job = row.forward;
  const std::vector<KernelDescription> small = bench.describe(job, once, 1);
  ASSERT_FALSE(small.empty());
  const std::vector<Value> wanted = bench.outputs_of(small[reference_of(small)], once);
  const std::vector<Value> many = all_noise(bench, job, row.repeats);
  for (const KernelDescription& d : bench.describe(job, many, row.repeats)) {
    ++compared.kernels;
    const std::vector<Value> got = bench.outputs_of(d, many);
    const std::int64_t count = wanted[0].operand.shape.elements(), last = row.repeats - 1, middle = (std::int64_t{1} << 31) / count;
    const std::vector<float> expected = bench.elements(wanted[0], 0, count);
    for (const std::int64_t repetition : {std::int64_t{0}, std::min(middle, last), last})
      expect_alike(bench.elements(got[0], repetition * count, count), expected, wanted[0].operand.dtype, job,
                   concat(d.kernel, ", repetition ", repetition));
  }
}

}  // namespace

std::int64_t bytes_of(const ShapeRow& row, DType type) {
  std::int64_t sum = 0;
  for (const ShapeJob* job : {&row.forward, row.backward ? &*row.backward : nullptr}) {
    if (!job) continue;
    const Shape& batch = job->inputs[0].type.shape;
    for (const ShapeInput& i : job->inputs)
      sum += repeated(i.type.shape, batch, row.repeats).elements() * static_cast<std::int64_t>(size_of(in(i.type.dtype, type)));
    for (const TensorType& o : job->outputs)
      sum += (row.repeats > 1 ? 2 : 8) * repeated(o.shape, batch, row.repeats).elements() *
             static_cast<std::int64_t>(size_of(in(o.dtype, type)));
  }
  return sum;
}

Compared compare_at_shape(const Backend& backend, const ShapeRow& row, DType type) {
  constexpr unsigned other_noise = 100;
  Compared compared;
  Bench bench(backend, type);
  const std::vector<Value> inputs = all_noise(bench, row.forward, 1);
  if (row.repeats > 1) {
    compare_repeated(bench, row, inputs, compared);
  } else {
    for (const std::vector<Value>& outputs : compare(bench, row.forward, inputs, compared)) {
      if (!row.backward) break;
      std::vector<Value> flows;
      for (const ShapeInput& i : row.backward->inputs) {
        const unsigned seed = other_noise + static_cast<unsigned>(flows.size());
        flows.push_back(i.output >= 0  ? outputs[static_cast<std::size_t>(i.output)]
                        : i.input >= 0 ? inputs[static_cast<std::size_t>(i.input)]
                                       : bench.noise(i, i.type.shape, 1, seed));
      }
      compare(bench, *row.backward, flows, compared);
    }
  }
  return compared;
}

}  // namespace tandem::cuda
