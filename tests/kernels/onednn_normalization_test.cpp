// BatchNormalization and LRN by oneDNN in float against the native kernels in double, in several layouts.
#include "tests/kernels/dense_cases.h"

namespace tandem::dense_tests {
namespace {

struct NormRow {
  std::string name;
  Shape x;
  std::vector<Layout> layouts;
};
const NormRow norm_rows[] = {
    {"32 channels", {4, 32, 9, 9}, {abcd, acdb, blocks}},
    {"odd channels", {3, 13, 5, 7}, {abcd, acdb, blocks}},
    {"rows", {16, 24}, {ab}},
    {"3-D", {2, 16, 3, 4, 5}, {Layout("abcde"), Layout("aBcde16b")}},
};

TEST(BatchNormalization, InferenceAgreesWithDouble) {
  for (const NormRow& row : norm_rows)
    for (const bool relu : {false, true}) {
      Attributes attributes{{"epsilon", 1.5f}};  // keeps random variances positive
      if (relu) attributes.set("activation", std::string("Relu"));
      const Shape c{row.x[1]};
      check({row.name, "BatchNormalization", attributes, {row.x, c, c, c, c}, {row.x}, 4}, onednn::describe_batch_normalization,
            native::describe_batch_normalization, row.layouts);
    }
}

TEST(BatchNormalization, TrainingAndBackwardAgreeWithDouble) {
  for (const NormRow& row : norm_rows)
    for (const bool relu : {false, true}) {
      Attributes attributes{{"epsilon", 1e-3f}};
      if (relu) attributes.set("activation", std::string("Relu"));
      const Shape c{row.x[1]};
      const auto both = [&](DType dtype, const Layout& layout, Describe forward, Describe backward) {
        const Operand channel = operand(dtype, c, Layout("a"));
        const KernelRequest request{"BatchNormalizationTraining", &attributes, {operand(dtype, row.x, layout), channel, channel},
                                    {operand(dtype, row.x), channel, channel, operand(DType::uint8, {0})}, {.threads = 2}, {}};
        std::vector<Values> results;
        const auto f = forward(request);
        EXPECT_EQ(f.size(), 1u) << row.name << " in " << layout;
        if (f.empty()) return results;
        expect_found_again(forward, request, f[0]);
        const Buffer x(f[0].inputs[0], random_values(row.x, 1)), scale(channel, random_values(c, 2)), bias(channel, random_values(c, 3));
        std::vector<Buffer> y = run(f[0], {x, scale, bias});
        for (std::size_t i = 0; i < 3; ++i) results.push_back(y[i].values());
        const KernelRequest back{"BatchNormalizationBackward", &attributes,
                                 {operand(dtype, row.x, layout), operand(dtype, row.x), channel, channel, channel, channel, y[3].operand()},
                                 {operand(dtype, row.x), channel, channel}, {.threads = 2}, {}};
        const auto b = backward(back);
        EXPECT_EQ(b.size(), 1u) << row.name << " in " << layout;
        if (b.empty()) return results;
        expect_found_again(backward, back, b[0]);
        for (Buffer& d : run(b[0], {x, Buffer(b[0].inputs[1], random_values(row.x, 4)), scale, bias, y[1], y[2], y[3]}))
          results.push_back(d.values());
        return results;
      };
      const auto wanted =
          both(DType::float64, any, native::describe_batch_normalization_training, native::describe_batch_normalization_backward);
      for (const Layout& layout : row.layouts) {
        const auto got =
            both(DType::float32, layout, onednn::describe_batch_normalization_training, onednn::describe_batch_normalization_backward);
        ASSERT_EQ(got.size(), wanted.size());
        for (std::size_t i = 0; i < got.size(); ++i)
          EXPECT_LE(error_of(got[i], wanted[i]), tolerance(row.x.elements() / row.x[1]))
              << row.name << " in " << layout << (relu ? " with Relu" : "") << ": result " << i;
      }
    }
}

TEST(Lrn, AgreesWithDouble) {
  for (const NormRow& row : norm_rows) {
    if (row.x.rank() != 4) continue;
    const Attributes attributes{{"size", std::int64_t{5}}, {"alpha", 0.5f}, {"beta", 0.75f}, {"bias", 1.25f}};
    check({row.name, "LRN", attributes, {row.x}, {row.x}, 5}, onednn::describe_lrn, native::describe_lrn, row.layouts);
    const auto both = [&](DType dtype, const Layout& layout, Describe forward, Describe backward) -> Values {
      const auto f = forward({"LRNTraining",
                              &attributes,
                              {operand(dtype, row.x, layout)},
                              {operand(dtype, row.x), operand(DType::uint8, {0})},
                              {.threads = 2},
                              {}});
      EXPECT_EQ(f.size(), 1u) << row.name << " in " << layout;
      if (f.empty()) return {};
      const Buffer x(f[0].inputs[0], random_values(row.x, 1));
      std::vector<Buffer> y = run(f[0], {x});
      const auto b = backward({"LRNBackward",
                               &attributes,
                               {x.operand(), y[0].operand(), operand(dtype, row.x), y[1].operand()},
                               {operand(dtype, row.x)},
                               {.threads = 2},
                               {}});
      EXPECT_EQ(b.size(), 1u) << row.name << " in " << layout;
      if (b.empty()) return {};
      return run(b[0], {x, y[0], Buffer(b[0].inputs[2], random_values(row.x, 2)), y[1]})[0].values();
    };
    const Values wanted = both(DType::float64, any, native::describe_lrn, native::describe_lrn_backward);
    for (const Layout& layout : row.layouts)
      EXPECT_LE(error_of(both(DType::float32, layout, onednn::describe_lrn, onednn::describe_lrn_backward), wanted), tolerance(25))
          << row.name << " in " << layout;
  }
}

}  // namespace

}  // namespace tandem::dense_tests
