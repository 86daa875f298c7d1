// Trilu: the upper or lower triangle of matrices, zeros elsewhere. It is how exporters write a causal mask.
#include "graph/operators/fold.h"

namespace tandem::operator_rows {
namespace {

bool kept(std::int64_t row, std::int64_t column, std::int64_t k, bool upper) { return upper ? column - row >= k : column - row <= k; }

bool is_upper(const Attributes& a) { return a.integer("upper", 1) != 0; }
// Of k only what lies within the matrix tells.
std::int64_t diagonal(const Attributes& a, const Shape& x) {
  const std::int64_t rows = x[x.rank() - 2], columns = x[x.rank() - 1];
  return std::clamp(static_integer(a, "k", 0), -rows - 1, columns + 1);
}

}  // namespace

// y[..., i, j] = x[..., i, j] where j − i ≥ k (upper) or j − i ≤ k, else 0
Operator trilu() {
  return {.name = "Trilu",
          .since = {14}, .inputs = {1, 2}, .types = {{"T", types::all}, {"I", types::integers_64}},
          .infer =
              [](InferContext& c) {
                if (c.shape(0).rank() < 2) c.fail("input 0 is ", c.input(0), ", expected matrices");
                c.node().attributes.set("k", static_integer(c.attributes(), "k", 0));
                infer_same(c);
              },
          .follow =
              [](FollowContext& c) {
                only_operand(c, 0);
                if (c.place().axis >= c.x().rank() - 2)
                  c.fail("the samples lie along axis ", c.place().axis, " of ", c.x(), ", which it cuts");
                c.set(0, c.place());
              },
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            const TensorType x = e.type(e.x());
            const int rank = x.shape.rank();
            Tensor mask = bounded_tensor({DType::boolean, Shape{x.shape[rank - 2], x.shape[rank - 1]}});
            const auto m = mask.write<bool>();
            const std::int64_t k = diagonal(e.attributes(), x.shape), columns = x.shape[rank - 1];
            const bool upper = is_upper(e.attributes());
            std::size_t place = 0;
            for (std::int64_t row = 0; row < x.shape[rank - 2]; ++row)
              for (std::int64_t column = 0; column < columns; ++column) m[place++] = kept(row, column, k, upper);
            return {e.emit("Where", {e.graph().add_constant(e.node().name + "/triangle", std::move(mask)), e.x(), e.scalar(0, x.dtype)})};
          },
          .fold = [](const FoldContext& c) -> Folded {
            const Shape& shape = c.inputs[0].shape();
            Tensor y = c.inputs[0];
            const std::size_t size = size_of(y.dtype());
            if (size == 0) return std::nullopt;
            const std::int64_t columns = shape[shape.rank() - 1], rows = shape[shape.rank() - 2], k = diagonal(c.node.attributes, shape);
            const auto bytes = y.write();
            for (std::int64_t i = 0; i < y.elements(); ++i)
              if (!kept(i / columns % rows, i % columns, k, is_upper(c.node.attributes)))
                std::fill_n(bytes.begin() + i * static_cast<std::int64_t>(size), size, std::byte{0});
            return std::vector{y};
          },
          .static_operands = {{1, "k"}},
          .precision = PrecisionRole::parts, .operands = {{"input", OperandRole::view}}};
}

}  // namespace tandem::operator_rows
