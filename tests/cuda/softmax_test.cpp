// Softmax and LogSoftmax that read or write 16 bits: to the bit what a Cast before or behind them gives.
#include "tests/cuda/emulated.h"

namespace tandem::cuda {
namespace {

Held cast(const Held& x, DType to) {
  const std::vector<double> values = values_of(x);
  Tensor t(TensorType{DType::float64, x.operand.shape});
  std::ranges::copy(values, t.write<double>().begin());
  return hold(t, to, x.operand.layout);
}

TEST(NarrowSoftmax, IsTheWideOneBetweenCasts) {
  std::mt19937 random(5);
  for (const char* op : {"Softmax", "LogSoftmax"})
    for (const Shape& shape : {Shape{3, 5}, Shape{4, 300}, Shape{2, 7, 3, 5}})  // threads a line, and blocks
      for (const std::int64_t axis : {1, shape.rank() - 1})
        for (const DType narrow : {DType::float16, DType::bfloat16})
          for (const auto& [from, to] : {std::pair{narrow, DType::float32}, {DType::float32, narrow}, {narrow, narrow}}) {
            const Held x = hold(random_tensor(random, shape, -9, 9), from);
            const Attributes attributes{{"axis", axis}};
            const Held wide = run(describe_emulated, {op, attributes, {{DType::float32, shape, {}}}}, {cast(x, DType::float32)})[0];
            const Held got = run(describe_emulated, {op, attributes, {{to, shape, {}}}}, {x})[0];
            EXPECT_EQ(got.bytes, cast(wide, to).bytes)
                << op << ' ' << to_string(shape) << " along " << axis << ", " << name_of(from) << " to " << name_of(to);
          }
}

}  // namespace
}  // namespace tandem::cuda
