// How close the CPU's kernels between products come to the memory's speed: a line a kernel, with the bytes that it must read and
// write an element, its rate, and that as a share of a triad's (a = b + s·c), timed in the same way. Then how fast the kernels are that
// compute filters' gradients in bfloat16:
//   kernel_rates [THREADS [PART OF A NAME]]
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "kernels/cpu/backend.h"

namespace tandem {
namespace {

constexpr std::int64_t tokens = 2048, width = 1024, classes = 8192;

Operand of(Shape shape, DType dtype = DType::float32) { return {dtype, std::move(shape), {}}; }
Operand half(Shape shape) { return of(std::move(shape), DType::bfloat16); }
Operand laid(Operand o, Layout layout) {
  o.layout = std::move(layout);
  return o;
}
Operand row_major(Operand o) { return laid(std::move(o), Layout::row_major(o.shape.rank())); }
// The last instruction's result.
Attributes program(Strings ops, Ints args) {
  const std::int64_t steps = static_cast<std::int64_t>(ops.size()), last = *std::max_element(args.begin(), args.end()) + 1;
  return {{"ops", std::move(ops)},
          {"args", std::move(args)},
          {"params", Floats(static_cast<std::size_t>(2 * steps), 0.0F)},
          {"results", Ints{last}}};
}

struct Row {
  const char* name;
  const char* op;
  Attributes attributes;
  std::vector<Operand> inputs, outputs;
};

std::vector<Row> rows() {
  const Shape x{tokens, width}, row{width}, column{tokens, 1}, heads{8, 256, 16, 64}, turned{8, 16, 256, 64}, image{8, 64, 112, 112},
      filter{1024, 512, 1, 1};
  const std::int64_t last = 1;
  const Ints second{1}, first{0};
  const Attributes norm{{"axis", last}, {"epsilon", 1e-5F}}, kept{{"axes", second}, {"keepdims", last}},
      groups{{"groups", std::int64_t{8}}, {"epsilon", 1e-5F}};
  const Operand wide = of(x), narrow = half(x);
  const Operand pixels = laid(half(image), Layout::channels_last(4)), blocks = laid(half(image), Layout("aBcd16b"));
  return {
      {"Add", "Add", {}, {wide, wide}, {wide}},
      {"Add, bfloat16", "Add", {}, {narrow, narrow}, {narrow}},
      {"Add of a row", "Add", {}, {wide, of(row)}, {wide}},
      {"Relu", "Relu", {}, {wide}, {wide}},
      {"ReluBackward", "ReluBackward", {}, {wide, wide}, {wide}},
      {"Tanh", "Tanh", {}, {wide}, {wide}},
      {"Gelu, erf", "GeluErf", {}, {wide}, {wide}},
      {"Gelu's gradient, erf", "GeluErfBackward", {}, {wide, wide}, {wide}},
      {"Gelu, erf, bfloat16", "GeluErf", {}, {narrow}, {narrow}},
      {"Gelu's gradient, erf, bfloat16", "GeluErfBackward", {}, {narrow, narrow}, {narrow}},
      {"Gelu, tanh", "GeluTanh", {}, {wide}, {wide}},
      {"Gelu's gradient, tanh", "GeluTanhBackward", {}, {wide, wide}, {wide}},
      {"Swish", "Swish", {}, {wide}, {wide}},
      {"Swish's gradient", "SwishBackward", {}, {wide, wide}, {wide}},
      {"max(a·b + c, 0)·a", "Elementwise", program({"Mul", "Add", "Relu", "Mul"}, {0, 1, -1, 3, 2, -1, 4, -1, -1, 5, 0, -1}), {wide, wide, wide}, {wide}},
      {"max(a·b + c, 0)·a, bfloat16", "Elementwise", program({"Mul", "Add", "Relu", "Mul"}, {0, 1, -1, 3, 2, -1, 4, -1, -1, 5, 0, -1}), {narrow, narrow, narrow}, {narrow}},
      {"a·sigmoid(b)", "Elementwise", program({"Sigmoid", "Mul"}, {1, -1, -1, 0, 2, -1}), {wide, wide}, {wide}},
      {"Cast to bfloat16", "Cast", {{"to", static_cast<std::int64_t>(DType::bfloat16)}}, {wide}, {narrow}},
      {"Cast to float32", "Cast", {{"to", static_cast<std::int64_t>(DType::float32)}}, {narrow}, {wide}},
      {"RowNormalization", "RowNormalization", norm, {wide, of(row), of(row)}, {wide, of(column), of(column)}},
      {"RowNormalization with addend", "RowNormalization", norm, {wide, of(row), of(row), wide}, {wide, of(column), of(column), wide}},
      {"RowNormalization, bfloat16", "RowNormalization", norm, {narrow, of(row), of(row)}, {narrow, of(column), of(column)}},
      {"RowNormalizationBackward", "RowNormalizationBackward", norm, {wide, wide, of(row), of(column), of(column)}, {wide, of(row), of(row)}},
      {"RowNormalizationBackward with dsum", "RowNormalizationBackward", norm, {wide, wide, of(row), of(column), of(column), wide}, {wide, of(row), of(row)}},
      {"RowNormalizationBackward, bfloat16", "RowNormalizationBackward", norm, {narrow, narrow, of(row), of(column), of(column)}, {narrow, of(row), of(row)}},
      {"GroupNormalizationTraining", "GroupNormalizationTraining", groups, {of(image), of({64}), of({64})}, {of(image), of({8, 8}), of({8, 8})}},
      {"GroupNormalizationBackward", "GroupNormalizationBackward", groups, {of(image), of(image), of({64}), of({8, 8}), of({8, 8})}, {of(image), of({64}), of({64})}},
      {"ReduceSum over rows", "ReduceSum", {{"axes", first}, {"keepdims", std::int64_t{0}}}, {wide}, {of(row)}},
      {"ReduceSum of rows", "ReduceSum", kept, {wide}, {of(column)}},
      {"ReduceMean of rows of 49", "ReduceMean", {{"axes", Ints{2, 3}}, {"keepdims", last}}, {of({8, 2048, 7, 7})}, {of({8, 2048, 1, 1})}},
      {"Expand of rows", "Expand", {{"shape", x.dims}}, {of(row)}, {wide}},
      {"Expand of columns", "Expand", {{"shape", x.dims}}, {of(column)}, {wide}},
      {"Softmax", "Softmax", {{"axis", last}}, {wide}, {wide}},
      {"LogSoftmax", "LogSoftmax", {{"axis", last}}, {wide}, {wide}},
      {"SoftmaxCrossEntropyTraining, 8192 classes", "SoftmaxCrossEntropyTraining", {{"scale", 1.0F}}, {of({512, classes}), of({512}, DType::int64)}, {of({}), of({512, classes})}},
      {"NegativeLogLikelihoodLossBackward", "NegativeLogLikelihoodLossBackward", {{"reduction", std::string("mean")}, {"input_shape", Ints{512, classes}}}, {of({}), of({512}, DType::int64)}, {of({512, classes})}},
      {"DropoutTraining", "DropoutTraining", {{"ratio", 0.1F}, {"layer", last}}, {wide, of({4}, DType::int64)}, {wide}},
      {"GatherBackward", "GatherBackward", {{"axis", std::int64_t{0}}, {"input_shape", Ints{32768, 256}}}, {of({tokens, 256}), of({tokens}, DType::int64)}, {of({32768, 256})}},
      {"Reorder of pixels to blocks of channels, bfloat16", "Reorder", {}, {pixels}, {blocks}},
      {"Reorder of blocks of channels to pixels, bfloat16", "Reorder", {}, {blocks}, {pixels}},
      {"Reorder of a filter to pairs of inputs, bfloat16", "Reorder", {}, {laid(half(filter), Layout("ABcd16b16a"))}, {laid(half(filter), Layout("ABcd8b16a2b"))}},
      {"Transpose (0,2,1,3)", "Transpose", {{"perm", Ints{0, 2, 1, 3}}}, {of(heads)}, {of(turned)}},
      {"Transpose (0,2,3,1)", "Transpose", {{"perm", Ints{0, 2, 3, 1}}}, {of(heads)}, {of({8, 16, 64, 256})}},
      {"Transpose (0,2,3,1) of an image", "Transpose", {{"perm", Ints{0, 2, 3, 1}}}, {of(image)}, {of({8, 112, 112, 64})}},
  };
}

double bytes_of(const std::vector<Operand>& operands) {
  double bytes = 0;
  for (const Operand& o : operands) bytes += static_cast<double>(o.bytes());
  return bytes;
}

class Triad final : public Kernel {
 public:
  explicit Triad(int threads) : threads_(threads) {}
  void bind(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs, std::byte*) override {
    b_ = reinterpret_cast<const float*>(inputs[0]);
    c_ = reinterpret_cast<const float*>(inputs[1]);
    a_ = reinterpret_cast<float*>(outputs[0]);
  }
  void run(StreamHandle) override {
#pragma omp parallel for simd schedule(static) num_threads(threads_)
    for (std::int64_t i = 0; i < tokens * width; ++i) a_[i] = b_[i] + 0.5F * c_[i];
  }

 private:
  int threads_;
  const float *b_ = nullptr, *c_ = nullptr;
  float* a_ = nullptr;
};

// Bytes a second, timed as the kernels are.
double triad(const KernelOptions& options) {
  const Operand x = row_major(of({tokens, width}));
  const KernelDescription d{
      .kernel = "triad", .inputs = {x, x}, .outputs = {x}, .make = [&] { return std::make_unique<Triad>(options.threads); }};
  return 3.0 * static_cast<double>(x.bytes()) / cpu_backend().measure(d, options).seconds;
}

// A convolution of square images and filters.
struct Filter {
  const char* network;
  std::int64_t batch, in, out, size, kernel, stride, pad;
};
constexpr Filter filters[] = {
    {"lenet", 128, 20, 50, 14, 5, 1, 2},
    {"mini_googlenet", 64, 96, 32, 32, 3, 1, 1},
    {"mini_googlenet", 64, 64, 48, 32, 3, 1, 1},
    {"mini_googlenet", 64, 80, 80, 32, 3, 2, 0},
    {"mini_googlenet", 64, 160, 96, 15, 3, 1, 1},
    {"mini_googlenet", 64, 144, 96, 15, 3, 2, 0},
    {"mini_googlenet", 64, 336, 160, 7, 3, 1, 1},
    {"mini_googlenet", 64, 160, 96, 15, 1, 1, 0},
    {"resnet50", 8, 3, 64, 224, 7, 2, 3},
    {"resnet50", 8, 64, 64, 56, 3, 1, 1},
    {"resnet50", 8, 128, 128, 28, 3, 1, 1},
    {"resnet50", 8, 256, 256, 14, 3, 1, 1},
    {"resnet50", 8, 512, 512, 7, 3, 1, 1},
    {"resnet50", 8, 256, 64, 56, 1, 1, 0},
    {"resnet50", 8, 512, 2048, 7, 1, 1, 0},
};

// Of each kernel the fastest of its layouts.
void filter_gradients(const KernelOptions& options, const std::string& part) {
  std::printf("\n| filter's gradient, bfloat16 | kernel | ms | GFLOP/s |\n|---|---|---|---|\n");
  for (const Filter& f : filters) {
    if (std::string(f.network).find(part) == std::string::npos) continue;
    const std::int64_t size = (f.size + 2 * f.pad - f.kernel) / f.stride + 1;
    const Attributes a{{"strides", Ints{f.stride, f.stride}},
                       {"pads", Ints{f.pad, f.pad, f.pad, f.pad}},
                       {"weight_shape", Ints{f.out, f.in, f.kernel, f.kernel}}};
    const double flops = 2.0 * static_cast<double>(f.batch * f.in * f.out * size * size * f.kernel * f.kernel);
    std::map<std::string, double> best;
    for (const LayoutPreference preference : {LayoutPreference::blocked, LayoutPreference::channels_last}) {
      KernelRequest request{.op = "ConvolutionBackwardWeights",
                            .attributes = &a,
                            .inputs = {half({f.batch, f.in, f.size, f.size}), half({f.batch, f.out, size, size})},
                            .outputs = {half({f.out, f.in, f.kernel, f.kernel}), half({f.out})},
                            .options = options};
      request.options.preference = preference;
      for (const KernelDescription& d : cpu_backend().describe(request)) {
        const double seconds = cpu_backend().measure(d, options).seconds;
        double& least = best.try_emplace(d.kernel, seconds).first->second;
        least = std::min(least, seconds);
      }
    }
    for (const auto& [kernel, seconds] : best)
      std::printf("| %s: %lld × %lld → %lld, %lld² by %lld², stride %lld | %s | %.2f | %.0f |\n", f.network,
                  static_cast<long long>(f.batch), static_cast<long long>(f.in), static_cast<long long>(f.out),
                  static_cast<long long>(f.size), static_cast<long long>(f.kernel), static_cast<long long>(f.stride), kernel.c_str(),
                  1e3 * seconds, flops / seconds / 1e9);
    std::fflush(stdout);
  }
}

int run(int threads, const std::string& part) {
  const KernelOptions options{.threads = threads};
  std::printf("%d threads\n\n| kernel | bytes an element | GB/s | triad | share |\n|---|---|---|---|---|\n", threads);
  for (Row& row : rows()) {
    if (std::string(row.name).find(part) == std::string::npos) continue;
    KernelRequest request{.op = row.op, .attributes = &row.attributes, .options = options};
    for (const Operand& o : row.inputs) request.inputs.push_back(o.layout.any() ? row_major(o) : o);
    for (const Operand& o : row.outputs) request.outputs.push_back(o.layout.any() ? row_major(o) : o);
    const auto descriptions = cpu_backend().describe(request);
    for (const KernelDescription& d : descriptions) {
      const double bytes = bytes_of(d.inputs) + bytes_of(d.outputs);
      const double stream = triad(options), seconds = cpu_backend().measure(d, options).seconds;  // side by side: a machine has its moments
      std::int64_t elements = 1;
      for (const Operand& o : row.inputs) elements = std::max(elements, o.shape.elements());
      for (const Operand& o : row.outputs) elements = std::max(elements, o.shape.elements());
      std::printf("| %s, %s | %.1f | %.1f | %.1f | %.2f |\n", row.name, d.kernel.c_str(), bytes / static_cast<double>(elements),
                  bytes / seconds / 1e9, stream / 1e9, bytes / seconds / stream);
      std::fflush(stdout);
    }
    if (descriptions.empty()) std::printf("| %s: no kernel | | | | |\n", row.name);
  }
  filter_gradients(options, part);
  return 0;
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) { return tandem::run(argc > 1 ? std::atoi(argv[1]) : omp_get_max_threads(), argc > 2 ? argv[2] : ""); }
