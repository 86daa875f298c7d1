// LookUp: numbers for bytes, by a table. What a data set's images become before a model sees them is computed once for each of
// 256 bytes, and is the same to the bit wherever it is looked up.
#include "graph/operators/rules.h"

namespace tandem::operator_rows {

// y[..., c, ...] = table[c, x[..., c, ...]], c along `axis`; a table of one row is that of all
Operator look_up() {
  return {.name = "LookUp",
          .domain = "tandem",
          .since = {1},
          .inputs = {2, 2},
          .infer =
              [](InferContext& c) {
                constexpr std::int64_t bytes = 256;
                expect_dtype(c, 0, DType::uint8);
                expect_rank(c, 1, 2);
                const Shape &x = c.shape(0), &table = c.shape(1);
                const std::int64_t axis = c.attributes().integer("axis");
                if (axis < 0 || axis >= x.rank()) c.fail("axis ", axis, " of ", x);
                if (table[1] != bytes || (table[0] != 1 && table[0] != x[static_cast<int>(axis)]))
                  c.fail("the table is ", table, ", expected ", bytes, " numbers for all, or for each of ", x[static_cast<int>(axis)],
                         " along axis ", axis);
                c.set_output(0, c.input(1).dtype, x);
              },
          .follow =
              [](FollowContext& c) {
                only_operand(c, 0);
                if (c.x(1)[0] > 1 && c.place().axis == c.attributes().integer("axis"))
                  c.fail("its table has a row for each along axis ", c.place().axis, ", which holds the samples");
                c.set(0, c.place());
              },
          .precision = PrecisionRole::wide,
          .operands = {{"x", OperandRole::index}, {"table", OperandRole::constant}}};
}

}  // namespace tandem::operator_rows
