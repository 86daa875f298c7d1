// com.microsoft's MatMulNBits: a product by weights of 2, 4 or 8 bits that the file holds in blocks with a scale each. They stay as they
// are; the plan holds them as floats, and the gradient goes through to what they multiply.
#include "graph/operators/rules.h"

namespace tandem::operator_rows {
namespace {

struct Blocks {
  std::int64_t k, n, size, bits;
  std::int64_t count() const { return (k + size - 1) / size; }
  std::int64_t bytes() const { return size * bits / 8; }
  std::int64_t zero_bytes() const { return (count() * bits + 7) / 8; }
};
Blocks blocks_of(const Attributes& a) { return {a.integer("K"), a.integer("N"), a.integer("block_size"), a.integer("bits", 4)}; }

constexpr int packed = 1, scales = 2, zeros = 3, group = 4, bias = 5;

const Tensor& known(const InferContext& c, int input, const char* name) {
  const Tensor* tensor = c.constant(input);
  if (!tensor) c.fail(name, " must be known when the plan is made");
  return *tensor;
}

void infer_matmul_nbits(InferContext& c) {
  const Blocks b = blocks_of(c.attributes());
  if (b.bits != 2 && b.bits != 4 && b.bits != 8) c.fail("bits is ", b.bits, ", expected 2, 4 or 8");
  constexpr std::int64_t most = 1 << 30, longest = 1 << 16;
  const bool sized = b.k >= 1 && b.k <= most && b.n >= 1 && b.n <= most && b.size >= 8 && b.size <= longest && (b.size & (b.size - 1)) == 0;
  if (!sized)
    c.fail("K is ", b.k, ", N is ", b.n, ", block_size is ", b.size, ": expected 1 to ", most, ", and a power of 2 from 8 to ", longest);
  if (c.attributes().integer("weight_prepacked", 0) != 0) c.fail("weight_prepacked: its weights are laid out for one kind of device");
  if (c.has_input(group)) c.fail("g_idx, rows in another order, is not supported");
  const Shape& a = c.shape(0);
  if (a.rank() < 1 || a[a.rank() - 1] != b.k) c.fail("input 0 is ", a, ", expected K = ", b.k, " in the last axis");
  const auto holds = [&](int input, const char* name, std::int64_t elements) {
    if (known(c, input, name).elements() != elements) c.fail(name, " is ", c.shape(input), ", expected ", elements, " elements");
  };
  holds(packed, "B", b.n * b.count() * b.bytes());
  holds(scales, "scales", b.n * b.count());
  if (c.has_input(zeros)) holds(zeros, "zero_points", b.n * (c.input(zeros).dtype == DType::uint8 ? b.zero_bytes() : b.count()));
  if (c.has_input(bias)) expect_shape(c, bias, Shape{b.n});
  c.set_output(0, c.input(0).dtype, with_dim(a, a.rank() - 1, b.n));
}

std::int64_t field(std::span<const std::uint8_t> bytes, std::int64_t at, std::int64_t bits) {
  const std::int64_t bit = at * bits;
  return (bytes[static_cast<std::size_t>(bit / 8)] >> (bit % 8)) & ((1 << bits) - 1);
}

// [N, K]
Tensor dequantized(const Blocks& b, const Tensor& q, const Tensor& scale, const Tensor* zero) {
  Tensor w(TensorType{DType::float32, Shape{b.n, b.k}});
  const auto y = w.write<float>();
  const auto from = q.values<std::uint8_t>();
  const std::vector<double> factors = scale.to_doubles();
  const bool zeros_packed = zero && zero->dtype() == DType::uint8;
  const std::vector<double> given = zero && !zeros_packed ? zero->to_doubles() : std::vector<double>{};
  for (std::int64_t row = 0; row < b.n; ++row) {
    for (std::int64_t k = 0; k < b.k; ++k) {
      const std::int64_t block = row * b.count() + k / b.size;
      const auto blob = from.subspan(static_cast<std::size_t>(block * b.bytes()), static_cast<std::size_t>(b.bytes()));
      double middle = static_cast<double>(1 << (b.bits - 1));
      if (zeros_packed)
        middle = static_cast<double>(
            field(zero->values<std::uint8_t>().subspan(static_cast<std::size_t>(row * b.zero_bytes())), k / b.size, b.bits));
      if (!given.empty()) middle = given[static_cast<std::size_t>(block)];
      y[static_cast<std::size_t>(row * b.k + k)] =
          static_cast<float>((static_cast<double>(field(blob, k % b.size, b.bits)) - middle) * factors[static_cast<std::size_t>(block)]);
    }
  }
  return w;
}

// As floats that Tensor converts.
Tensor wide(const Tensor& t) { return size_of(t.dtype()) == 2 && is_float(t.dtype()) ? t.cast(DType::float32) : t; }

}  // namespace

// y = A · Bᵀ + bias
Operator microsoft_matmul_nbits() {
  return {.name = "MatMulNBits",
          .domain = "com.microsoft",
          .since = {1},
          .inputs = {3, 6},
          .types = {{"T1", types::floats},
                    {"T2", {DType::uint8}},
                    {"S", types::floats},
                    {"T3", {types::floats, {DType::uint8}}},
                    {"T4", {DType::int32}},
                    {"T1", types::floats}},
          .infer = infer_matmul_nbits,
          .follow =
              [](FollowContext& c) {
                only_operand(c, 0);
                if (c.place().axis == c.x().rank() - 1)
                  c.fail("it sums over axis ", c.place().axis, " of ", c.x(), ", which holds the samples");
                c.set(0, c.place());
              },
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            const Blocks b = blocks_of(e.attributes());
            const auto data = [&](int input) { return wide(*e.graph()[e.x(input)].data); };
            const Tensor zero = e.has_x(zeros) ? data(zeros) : Tensor();
            const TensorType a = e.type(e.x());
            const Tensor w = dequantized(b, data(packed), data(scales), zero.defined() ? &zero : nullptr).cast(a.dtype);
            std::vector<ValueId> operands{e.reshape(e.x(), {product(a.shape, 0, a.shape.rank() - 1), b.k}),
                                          e.graph().add_constant(e.node().name + "/B", w)};
            if (e.has_x(bias)) operands.push_back(e.x(bias));
            return {e.reshape(e.emit("InnerProduct", std::move(operands)), with_dim(a.shape, a.shape.rank() - 1, b.n))};
          },
          .flops =
              [](const Graph& graph, const Node& n) {
                return 2.0 * static_cast<double>(n.attributes.integer("K")) *
                       static_cast<double>(graph[n.outputs[0]].type.shape.elements());
              },
          .precision = PrecisionRole::parts,
          .operands = {{"A"},
                       {"B", OperandRole::index},
                       {"scales", OperandRole::constant},
                       {"zero_points", OperandRole::constant},
                       {"g_idx", OperandRole::index},
                       {"bias", OperandRole::bias}}};
}

}  // namespace tandem::operator_rows
