// On a GPU, all kernels that a shape of ResNet-50, BERT or GPT-2 could get, with each other; also batches of one, and tensors of more
// than 2³¹ elements. On the host, small shapes try the comparison itself, and a few blocks of our own kernels run on those large shapes.
#include <gtest/gtest-spi.h>

#include "kernels/cuda/emulation/launch.h"
#include "tests/cuda/host_backend.h"
#include "tests/cuda/sampled_shapes.h"

namespace tandem::cuda {
namespace {

using I = std::int64_t;
const std::vector<DType> all_types{DType::bfloat16, DType::float16, DType::float32}, mixed{DType::bfloat16, DType::float16},
    single{DType::float32};
TensorType real(Shape shape) { return {DType::float64, std::move(shape)}; }
TensorType wide(Shape shape) { return {DType::float32, std::move(shape)}; }
ShapeInput noise(Shape shape) { return {real(std::move(shape))}; }
ShapeInput positive(TensorType type) { return {std::move(type), 0.5, 2}; }
const ShapeInput absent{{DType::undefined, {}}};
ShapeInput output(int number) { return {.type = {}, .output = number}; }
ShapeInput input(int number) { return {.type = {}, .input = number}; }

// A convolution and both of its gradients.
void add_convolution(std::vector<ShapeRow>& rows, const char* name, I n, I c, I size, I out, I kernel, I stride, bool sums) {
  const I pad = kernel / 2, y_size = (size + 2 * pad - kernel) / stride + 1;
  const Shape x{n, c, size, size}, w{out, c, kernel, kernel}, y{n, out, y_size, y_size};
  const Attributes window{{"kernel_shape", Ints{kernel, kernel}},
                          {"strides", Ints{stride, stride}},
                          {"pads", Ints{pad, pad, pad, pad}},
                          {"dilations", Ints{1, 1}},
                          {"group", I{1}}};
  Attributes data = window, weights = window;
  data.set("input_shape", x.dims);
  weights.set("weight_shape", w.dims);
  const I of_y = c * kernel * kernel, of_x = out * kernel * kernel, of_w = y.elements() / out;
  rows.push_back({concat(name, "_forward"), all_types, {"Conv", window, {noise(x), noise(w)}, {real(y)}, of_y}});
  if (c % 8 == 0)
    rows.push_back({concat(name, "_backward_data"), all_types, {"ConvolutionBackwardData", data, {noise(y), noise(w)}, {real(x)}, of_x}});
  rows.push_back(
      {concat(name, "_backward_weights"), all_types, {"ConvolutionBackwardWeights", weights, {noise(x), noise(y)}, {real(w)}, of_w}});
  if (sums)
    rows.push_back({concat(name, "_with_sums"),
                    {DType::float16},
                    {"Conv", window, {noise(x), noise(w)}, {real(y), wide({out}), wide({out})}, 16 * of_w * of_y}});
}

void add_products(std::vector<ShapeRow>& rows, const char* name, I samples, I in, I out) {
  const Shape x{samples, in}, w{out, in}, y{samples, out};
  rows.push_back({concat(name, "_forward"), all_types, {"InnerProduct", {}, {noise(x), noise(w), noise({out})}, {real(y)}, in}});
  rows.push_back({concat(name, "_backward_data"),
                  all_types,
                  {"InnerProductBackwardData", {{"input_shape", x.dims}}, {noise(y), noise(w)}, {real(x)}, out}});
  rows.push_back(
      {concat(name, "_backward_weights"), all_types, {"InnerProductBackwardWeights", {}, {noise(x), noise(y)}, {real(w)}, samples}});
}

ShapeRow batch_normalization(const char* name, const Shape& x, bool adds) {
  const Attributes a{{"epsilon", 1e-5F}};
  const Shape c{x[1]};
  const I terms = x.elements() / x[1];
  ShapeRow row{
      name,
      all_types,
      {"BatchNormalizationTraining", a, {noise(x), positive(wide(c)), {wide(c)}}, {real(x), wide(c), wide(c), {DType::uint8, {0}}}, terms}};
  if (adds) row.forward.inputs.push_back(noise(x));
  row.backward = {"BatchNormalizationBackward",
                  a,
                  {input(0), noise(x), input(1), input(2), output(1), output(2), output(3)},
                  {real(x), wide(c), wide(c)},
                  terms};
  return row;
}

ShapeRow max_pool(const char* name, const Shape& x) {
  const Shape y{x[0], x[1], x[2] / 2, x[3] / 2};
  const Attributes a{{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}, {"dilations", Ints{1, 1}}};
  Attributes b = a;
  b.set("input_shape", x.dims);
  return {name,
          single,
          {"MaxPoolTraining", a, {noise(x)}, {real(y), {DType::uint8, {0}}}},
          ShapeJob{"MaxPoolBackward", b, {noise(y), output(1)}, {real(x)}, 4, true}};
}

ShapeRow row_normalization(const char* name, I rows, I width) {
  const Shape x{rows, width}, statistics{rows, 1}, row{width};
  const Attributes a{{"axis", I{1}}, {"epsilon", 1e-5F}};
  return {
      name,
      all_types,
      {"RowNormalization", a, {noise(x), positive(wide(row)), {wide(row)}}, {real(x), wide(statistics), wide(statistics)}, width},
      ShapeJob{"RowNormalizationBackward", a, {noise(x), input(0), input(1), output(1), output(2)}, {real(x), wide(row), wide(row)}, rows}};
}

ShapeRow attention(const char* name, I batch, I heads, I tokens, I width, bool causal) {
  const Shape q{batch, heads, tokens, width};
  Attributes a{{"scale", 0.125F}};
  if (causal) a.set("causal", I{1});
  return {name,
          mixed,
          {"AttentionTraining", a, {noise(q), noise(q), noise(q)}, {real(q), wide({batch, heads, tokens})}, tokens * width},
          ShapeJob{"AttentionBackward",
                   a,
                   {input(0), input(1), input(2), output(0), output(1), noise(q)},
                   {real(q), real(q), real(q)},
                   tokens * width}};
}

ShapeRow cross_entropy(const char* name, I rows, I classes) {
  const Shape x{rows, classes};
  return {name,
          all_types,
          {"SoftmaxCrossEntropyTraining",
           {{"scale", 1.0F / static_cast<float>(rows)}},
           {noise(x), {{DType::int64, {rows}}, 0, static_cast<double>(classes) - 0.5}},
           {wide({}), real(x)},
           classes}};
}

ShapeRow embedding(const char* name, I tokens, I words, I width) {
  return {name,
          single,
          {"Gather",
           {{"axis", I{0}}},
           {noise({words, width}), {{DType::int64, {tokens}}, 0, static_cast<double>(words) - 0.5}},
           {real({tokens, width})}},
          ShapeJob{"GatherBackward",
                   {{"axis", I{0}}, {"input_shape", Ints{words, width}}},
                   {noise({tokens, width}), input(1)},
                   {real({words, width})},
                   64}};
}

// Of 2³¹ elements and some, most of them by their repetitions.
std::vector<ShapeRow> large_rows() {
  const Shape x{32, 64, 56, 56}, c{64};
  const I repeats = 336;
  const auto row = [&](const char* name, ShapeJob job) {
    return ShapeRow{concat("large_", name), {DType::bfloat16}, std::move(job), {}, repeats};
  };
  return {
      row("relu", {"Relu", {}, {noise(x)}, {real(x)}}),
      row("add", {"Add", {}, {noise(x), noise(x)}, {real(x)}}),
      row("cast", {"Cast", {{"to", I{1}}}, {noise(x)}, {wide(x)}}),
      row("batch_normalization", {"BatchNormalization", {{"epsilon", 1e-5F}}, {noise(x), positive(wide(c)), {wide(c)}, {wide(c)}, positive(wide(c))}, {real(x)}}),
      row("convolution", {"Conv", {{"kernel_shape", Ints{1, 1}}, {"strides", Ints{1, 1}}, {"pads", Ints{0, 0, 0, 0}}, {"dilations", Ints{1, 1}}, {"group", I{1}}}, {noise(x), noise({64, 64, 1, 1})}, {real(x)}, 64}),
      row("average_pool", {"AveragePool", {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}, {"pads", Ints{0, 0, 0, 0}}, {"dilations", Ints{1, 1}}}, {noise(x)}, {real({32, 64, 28, 28})}, 4}),
  };
}

std::vector<ShapeRow> gpu_rows() {
  std::vector<ShapeRow> rows;
  for (const I n : {32, 1}) {
    const std::string of = n == 1 ? "one_" : "";
    const auto add = [&](const char* name, I c, I size, I out, I kernel, I stride, bool sums = false) {
      add_convolution(rows, concat(of, name).c_str(), n, c, size, out, kernel, stride, sums);
    };
    add("stem", 3, 224, 64, 7, 2);
    add("wide_1x1", 64, 56, 256, 1, 1, true);
    add("narrow_1x1", 256, 56, 64, 1, 1);
    add("first_3x3", 64, 56, 64, 3, 1, true);
    add("strided_3x3", 128, 56, 128, 3, 2);
    add("strided_1x1", 256, 56, 512, 1, 2, true);
    add("last_3x3", 512, 7, 512, 3, 1);
    add("last_1x1", 512, 7, 2048, 1, 1);
    rows.push_back(batch_normalization(concat(of, "batch_normalization").c_str(), {n, 256, 56, 56}, false));
    rows.push_back(batch_normalization(concat(of, "last_batch_normalization_and_sum").c_str(), {n, 2048, 7, 7}, true));
    rows.push_back(max_pool(concat(of, "max_pool").c_str(), {n, 64, 112, 112}));
    add_products(rows, concat(of, "classes").c_str(), n, 2048, 1000);
  }
  add_products(rows, "bert_attention", 8192, 768, 768);
  add_products(rows, "bert_up", 8192, 768, 3072);
  add_products(rows, "bert_down", 8192, 3072, 768);
  add_products(rows, "odd_words", 4096, 256, 5257);           // rows of no whole 16 bytes
  add_products(rows, "odd_words_in_parts", 66568, 64, 1029);  // more than are padded at once
  rows.push_back(row_normalization("bert_normalization", 8192, 768));
  rows.push_back(attention("bert_attention_of_512", 16, 12, 512, 64, false));
  rows.push_back(attention("gpt_attention_of_1024", 8, 12, 1024, 64, true));
  rows.push_back(attention("one_query_less", 2, 12, 1023, 64, true));
  rows.push_back(cross_entropy("bert_words", 4096, 30522));
  rows.push_back(cross_entropy("gpt_words", 2048, 50257));
  rows.push_back(embedding("bert_embedding", 8192, 30522, 768));
  for (ShapeRow& row : large_rows()) rows.push_back(std::move(row));
  return rows;
}

std::vector<ShapeRow> host_rows() {
  std::vector<ShapeRow> rows;
  add_convolution(rows, "convolution", 2, 8, 5, 8, 3, 2, false);
  add_products(rows, "product", 3, 5, 7);
  rows.push_back(batch_normalization("batch_normalization", {3, 8, 4, 4}, true));
  rows.push_back(max_pool("max_pool", {2, 3, 6, 6}));
  rows.push_back(row_normalization("row_normalization", 5, 24));
  rows.push_back(attention("attention", 1, 2, 9, 8, true));
  rows.push_back(cross_entropy("words", 6, 33));
  rows.push_back(embedding("embedding", 7, 11, 6));
  rows.push_back({"repeated_relu", {}, {"Relu", {}, {noise({2, 3, 4, 5})}, {real({2, 3, 4, 5})}}, {}, 4});
  for (ShapeRow& row : rows) row.types = single;
  return rows;
}

struct Case {
  ShapeRow row;
  DType type;
};
std::vector<Case> cases_of(const std::vector<ShapeRow>& rows) {
  std::vector<Case> all;
  for (const ShapeRow& row : rows)
    for (const DType type : row.types) all.push_back({row, type});
  return all;
}
void PrintTo(const Case& c, std::ostream* out) { *out << c.row.name << ' ' << to_string(c.type); }
const auto name_of_case = [](const auto& info) { return concat(info.param.row.name, '_', to_string(info.param.type)); };

class GpuShapes : public testing::TestWithParam<Case> {};

TEST_P(GpuShapes, KernelsAgree) {
  std::string reason;
  const Backend* const backend = cuda_module(reason);
  if (!backend) GTEST_SKIP() << reason;
  if (!backend->unusable().empty()) GTEST_SKIP() << backend->unusable();
  const auto& [row, type] = GetParam();
  if (const std::int64_t needed = bytes_of(row, type), free = backend->free_memory(0, 1); needed > free)
    GTEST_SKIP() << "takes " << needed << " bytes of " << free;
  RecordProperty("kernels", std::to_string(compare_at_shape(*backend, row, type).kernels));
}
INSTANTIATE_TEST_SUITE_P(Networks, GpuShapes, testing::ValuesIn(cases_of(gpu_rows())), name_of_case);

// Kernels on the host; `wrong`: the last kernel of an operator writes one element that is wrong.
class WrongKernel final : public Kernel {
 public:
  WrongKernel(std::unique_ptr<Kernel> kernel, const KernelDescription& d)
      : kernel_(std::move(kernel)), at_(d.outputs[0].bytes() - static_cast<std::int64_t>(sizeof(float))) {}
  void bind(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs, std::byte* workspace) override {
    kernel_->bind(inputs, outputs, workspace);
    last_ = reinterpret_cast<float*>(outputs[0] + at_);
  }
  void run(StreamHandle stream) override {
    kernel_->run(stream);
    *last_ += 0.5F;
  }

 private:
  std::unique_ptr<Kernel> kernel_;
  const std::int64_t at_;
  float* last_ = nullptr;
};
class ShapesBackend final : public HostCudaBackend {
 public:
  ShapesBackend(bool with_module, bool wrong) : HostCudaBackend(with_module), wrong_(wrong) {}
  std::vector<KernelDescription> describe(const KernelRequest& request) const override {
    std::vector<KernelDescription> all = HostCudaBackend::describe(request);
    if (wrong_ && request.op != "Reorder" && !all.empty()) {
      const KernelDescription d = all.back();
      all.back().make = [d] { return std::make_unique<WrongKernel>(d.make(), d); };
    }
    return all;
  }

 private:
  const bool wrong_;
};

class ShapesOnHost : public testing::TestWithParam<Case> {};

TEST_P(ShapesOnHost, KernelsAgree) {
  std::string reason;
  if (!cuda_module(reason)) GTEST_SKIP() << reason;
  const auto& [row, type] = GetParam();
  const bool libraries = !row.backward && row.repeats == 1;  // there are several kernels to choose from
  const Compared compared = compare_at_shape(ShapesBackend(libraries, false), row, type);
  const bool has_other = compared.kernels > (row.backward ? 2 : 1) || row.repeats > 1;  // to be compared with
  EXPECT_TRUE(has_other || row.forward.op != "Conv");
  testing::TestPartResultArray found;
  {
    const testing::ScopedFakeTestPartResultReporter caught(testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD,
                                                           &found);
    compare_at_shape(ShapesBackend(libraries, true), row, type);
  }
  EXPECT_EQ(found.size() > 0, has_other) << "one of " << compared.kernels << " kernels is wrong in one element";
}
INSTANTIATE_TEST_SUITE_P(Small, ShapesOnHost, testing::ValuesIn(cases_of(host_rows())), name_of_case);

class SampledShapes : public testing::TestWithParam<Case> {};

TEST_P(SampledShapes, StayInTheirOperands) {
  const auto& [row, type] = GetParam();
  const emulation::Sample sample(3);
  RecordProperty("kernels", std::to_string(run_in_guarded_memory(row, type)));
}
INSTANTIATE_TEST_SUITE_P(Networks, SampledShapes, testing::ValuesIn(cases_of(with_own_kernels(gpu_rows()))), name_of_case);

}  // namespace
}  // namespace tandem::cuda
