#include "tests/kernels/native_harness.h"

namespace tandem::native_tests {
namespace {

struct Row {
  Shape shape;
  int axis;
  const char* from;
};
const Row rows[] = {
    {{2, 3, 7, 11}, 1, "abcd"}, {{2, 3, 7, 11}, 1, "acdb"},
    {{3, 3, 50, 101}, 1, "acdb"},  // more than a block of a channel
    {{3, 3, 50, 101}, 1, "abcd"}, {{1, 1, 16, 16}, 1, "abcd"}, {{2, 4, 5, 3}, 1, "acdb"}, {{2, 5, 5, 3}, 1, "acdb"},
    {{2, 7, 11, 3}, 3, "abcd"}, {{40, 300}, 1, "ab"}, {{3, 2, 3, 4, 5}, 1, "acdeb"}, {{300}, 0, "a"},
};

TEST(NativeLookUp, IsTheTablesEntryOfEachByte) {
  for (const Row& row : rows)
    for (const DType dtype : {DType::float32, DType::bfloat16, DType::float64})
      for (const bool one : {false, true})
        for (const int threads : {1, 3}) {
          const std::int64_t channels = one ? 1 : row.shape[row.axis];
          Values bytes, table, wanted;
          for (std::int64_t i = 0; i < 256 * channels; ++i) table.push_back(static_cast<double>(i % 256) + (i / 256) * 0.5 - 100);
          if (dtype == DType::bfloat16)
            for (double& v : table) v = number_as<double>(number_as<BFloat16>(v));
          std::int64_t inner = 1;
          for (int i = row.axis + 1; i < row.shape.rank(); ++i) inner *= row.shape[i];
          for (std::int64_t i = 0; i < row.shape.elements(); ++i) {
            bytes.push_back(static_cast<double>(i * 37 % 256));
            wanted.push_back(
                table[static_cast<std::size_t>((one ? 0 : i / inner % channels) * 256) + static_cast<std::size_t>(bytes.back())]);
          }
          const Case c{"LookUp",
                       {{"axis", std::int64_t{row.axis}}},
                       {operand(DType::uint8, row.shape, row.from), plain(dtype, {channels, 256})},
                       {plain(dtype, row.shape)},
                       threads};
          EXPECT_EQ(run_values(c, {bytes, table})[0], wanted)
              << to_string(row.shape) << ' ' << row.from << ' ' << name_of(dtype) << (one ? ", one row" : "");
        }
}

// As a model's input of numbers lies, so that what is planned behind it does not change.
TEST(NativeLookUp, WritesRowMajorWhateverThePlanPrefers) {
  const Case c{"LookUp",
               {{"axis", std::int64_t{1}}},
               {operand(DType::uint8, {2, 3, 4, 4}, "acdb"), plain(DType::float32, {3, 256})},
               {operand(DType::float32, {2, 3, 4, 4})}};
  for (const LayoutPreference preference : {LayoutPreference::blocked, LayoutPreference::channels_last}) {
    KernelRequest request = c.request();
    request.options.preference = preference;
    const KernelDescription d = cpu_backend().describe(request).at(0);
    EXPECT_EQ(d.outputs[0].layout, Layout("abcd"));
    EXPECT_EQ(d.inputs[0].layout, Layout("acdb"));
  }
}

}  // namespace
}  // namespace tandem::native_tests
