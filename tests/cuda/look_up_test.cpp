// LookUp on the host, against the formula that a table stands for: every byte, in every order, to the bit.
#include "graph/half.h"
#include "tests/cuda/emulated.h"

namespace tandem::cuda {
namespace {

struct Row {
  Shape shape;
  std::int64_t axis;
  const char *from, *to;
};
const Row rows[] = {
    {{2, 3, 7, 13}, 1, "abcd", "abcd"}, {{2, 3, 7, 13}, 1, "acdb", "acdb"}, {{2, 3, 7, 13}, 1, "acdb", "abcd"}, {{2, 3, 7, 13}, 1, "abcd", "acdb"},
    {{3, 1, 9, 11}, 1, "abcd", "acdb"}, {{3, 1, 16, 16}, 1, "abcd", "abcd"}, {{2, 4, 8, 24}, 1, "acdb", "acdb"}, {{2, 4, 5, 5}, 1, "abcd", "acdb"},
    {{2, 6, 9, 5}, 1, "abcd", "acdb"},  // more channels than a block keeps
    {{2, 6, 9, 5}, 1, "acdb", "acdb"}, {{2, 7, 13, 3}, 3, "abcd", "abcd"}, {{5, 301}, 1, "ab", "ab"}, {{2, 3, 2, 5, 7}, 1, "acdeb", "abcde"},
    {{3}, 0, "a", "a"}, {{260}, 0, "a", "a"},
};

TEST(LookUp, IsTheFormulaOfEachByte) {
  for (const Row& row : rows)
    for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16})
      for (const bool one : {false, true}) {
        const std::int64_t channels = one ? 1 : row.shape[static_cast<int>(row.axis)];
        const auto formula = [](std::int64_t c, std::int64_t byte) {
          return static_cast<float>(byte) * (1 / (58.395F + static_cast<float>(c))) + (-2.1179F - static_cast<float>(c));
        };
        Tensor table(TensorType{DType::float32, {channels, 256}}), bytes(TensorType{DType::uint8, row.shape}),
            wanted(TensorType{DType::float32, row.shape});
        for (std::int64_t c = 0; c < channels; ++c)
          for (std::int64_t v = 0; v < 256; ++v) table.write<float>()[static_cast<std::size_t>(c * 256 + v)] = formula(c, v);
        std::int64_t inner = 1;
        for (int i = static_cast<int>(row.axis) + 1; i < row.shape.rank(); ++i) inner *= row.shape[i];
        for (std::int64_t i = 0; i < row.shape.elements(); ++i) {
          const std::int64_t byte = i * 37 % 256;
          bytes.write<std::uint8_t>()[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(byte);
          wanted.write<float>()[static_cast<std::size_t>(i)] = formula(one ? 0 : i / inner % channels, byte);
        }
        const Job job{"LookUp", {{"axis", row.axis}}, {{dtype, row.shape, Layout(row.to)}}};
        const Held got = run(describe_emulated, job, {hold(bytes, DType::uint8, Layout(row.from)), hold(table, dtype)})[0];
        EXPECT_EQ(got.operand.layout, Layout(row.to));
        EXPECT_EQ(got.bytes, hold(wanted, dtype, Layout(row.to)).bytes)
            << to_string(row.shape) << ' ' << row.from << " -> " << row.to << ' ' << name_of(dtype) << (one ? ", one row" : "");
      }
}

// What reads images next wants them as the plan lies, and nothing is reordered before.
TEST(LookUp, WritesWhatThePlanPrefers) {
  const Attributes axis{{"axis", std::int64_t{1}}};
  for (const char* from : {"abcd", "acdb"})
    for (const auto& [preference, layout] : {std::pair{LayoutPreference::blocked, "abcd"}, {LayoutPreference::channels_last, "acdb"}}) {
      KernelRequest request{.op = "LookUp",
                            .attributes = &axis,
                            .inputs = {{DType::uint8, {2, 3, 4, 4}, Layout(from)}, {DType::float16, {3, 256}, Layout()}},
                            .outputs = {{DType::float16, {2, 3, 4, 4}, Layout()}}};
      request.options.preference = preference;
      const KernelDescription d = describe_emulated(request).at(0);
      EXPECT_EQ(d.inputs[0].layout, Layout(from));
      EXPECT_EQ(d.outputs[0].layout, Layout(layout));
    }
}

}  // namespace
}  // namespace tandem::cuda
