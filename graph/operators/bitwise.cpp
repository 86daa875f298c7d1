// Operations on the bits of integers, and the same bits as elements of another type.
#include "graph/operators/fold.h"

namespace tandem::operator_rows {
namespace {

constexpr TypeSet integers{DType::int8,  DType::int16,  DType::int32,  DType::int64,
                           DType::uint8, DType::uint16, DType::uint32, DType::uint64};

// Folded are integers alone: `f` is not asked of others.
template <auto f>
Folded fold_bits(const FoldContext& c) {
  return fold_binary<[](auto a, auto b) {
    if constexpr (std::is_integral_v<decltype(a)>)
      return f(a, b);
    else
      return a;
  }>(c);
}

}  // namespace

Operator bitwise_and() {
  return {.name = "BitwiseAnd",
          .since = {18},
          .inputs = {2, 2},
          .types = {{"T", integers}},
          .infer = infer_broadcast,
          .fold = fold_bits<[](auto a, auto b) { return a & b; }>,
          .elementwise = true};
}
Operator bitwise_not() {
  return {.name = "BitwiseNot", .since = {18}, .types = {{"T", integers}}, .infer = infer_same, .fold = fold_unary<[](auto x) {
            if constexpr (std::is_integral_v<decltype(x)>)
              return ~x;
            else
              return x;
          }>,
          .elementwise = true};
}
Operator bitwise_or() {
  return {.name = "BitwiseOr",
          .since = {18},
          .inputs = {2, 2},
          .types = {{"T", integers}},
          .infer = infer_broadcast,
          .fold = fold_bits<[](auto a, auto b) { return a | b; }>,
          .elementwise = true};
}
Operator bitwise_xor() {
  return {.name = "BitwiseXor",
          .since = {18},
          .inputs = {2, 2},
          .types = {{"T", integers}},
          .infer = infer_broadcast,
          .fold = fold_bits<[](auto a, auto b) { return a ^ b; }>,
          .elementwise = true};
}

// x · 2ᵇ, or ⌊x / 2ᵇ⌋; a shift by all of the bits or more, or a negative one, leaves 0, or −1 of a negative x to the right.
Operator bit_shift() {
  return {.name = "BitShift",
          .since = {11, 28}, .inputs = {2, 2}, .types = {{"T", integers}},
          .infer =
              [](InferContext& c) {
                const std::string direction = c.attributes().text("direction", "");
                if (direction != "LEFT" && direction != "RIGHT") c.fail("direction is '", direction, "', expected LEFT or RIGHT");
                infer_broadcast(c);
              },
          .fold = [](const FoldContext& c) -> Folded {
            if (c.node.attributes.text("direction") == "LEFT")
              return fold_bits<[](auto a, auto b) { return wrapping(b) < 8 * sizeof a ? (wrapping(a) << b) : 0; }>(c);
            return fold_bits<[](auto a, auto b) {
              return wrapping(b) < 8 * sizeof a ? (a >> b) : static_cast<decltype(a)>(a < 0 ? -1 : 0);
            }>(c);
          },
          .elementwise = true};
}

// The bits of x as elements of another type of the same size; as booleans, what is not 0.
Operator bit_cast() {
  return {.name = "BitCast",
          .since = {26}, .types = {{"T1", types::all}},
          .infer =
              [](InferContext& c) {
                const DType x = c.input(0).dtype, to = static_cast<DType>(c.attributes().integer("to"));
                if (size_of(to) == 0) c.fail("to is ", c.attributes().integer("to"), ", a type that is not supported");
                if (size_of(to) != size_of(x))
                  c.fail("to is ", to, ", of ", size_of(to), " bytes, and an element of input 0 ", c.input(0), " has ", size_of(x));
                c.set_output(0, to, c.shape(0));
              },
          .follow = follow_broadcast,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            const auto to = static_cast<DType>(e.attributes().integer("to"));
            if (e.type(e.x()).dtype == to) return {e.x()};
            if (to == DType::boolean) return {cast(e, e.x(), to)};
            return {};
          },
          .fold = [](const FoldContext& c) -> Folded {
            if (c.outputs[0].dtype == DType::boolean) return std::nullopt;
            Tensor out(c.outputs[0]);
            const auto from = c.inputs[0].bytes();
            std::copy(from.begin(), from.end(), out.write().begin());
            return std::vector{out};
          },
          .type_attribute = "to", .precision = PrecisionRole::wide,
          .operands = {{"input"}}};
}

}  // namespace tandem::operator_rows
