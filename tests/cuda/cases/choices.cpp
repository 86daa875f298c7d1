// Comparisons, choices and casts.
#include "tests/cuda/cases/rows.h"

#include <cmath>
#include <limits>

#include "graph/small_types.h"

namespace tandem::cuda::cases {
namespace {

// To integers of few bits nothing that is no number: ONNX does not say what becomes of it.
Comparison cast_to_small(std::mt19937& r) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  const double special[] = {0, -0.0, 0x1p-126, -0x1p-30, std::numeric_limits<double>::quiet_NaN(), inf, -inf, 1e30};
  const char* const modes[] = {"up", "down", "nearest"};
  const auto to = static_cast<DType>(between(r, 17, 28));
  Tensor x = random_tensor(r, image(r), -600, 600);
  for (double& v : x.write<double>()) {
    v = std::ldexp(v, static_cast<int>(-between(r, 0, 12)));
    if (between(r, 0, 7) == 0) v = special[between(r, 0, is_small_integer(to) ? 3 : 7)];
  }
  Attributes attributes{{"to", static_cast<std::int64_t>(to)}, {"saturate", between(r, 0, 1)}};
  if (to == DType::float8e8m0) attributes.set("round_mode", std::string(modes[between(r, 0, 2)]));
  return {"Cast", attributes, {x}, {{to, x.shape()}}};
}

const CaseRow choice_rows[] = {
    {"equal",
     [](std::mt19937& r) {
       auto c = binary(r, "Equal", {}, -0.05, 0.05);
       c.outputs[0].dtype = DType::boolean;
       return c;
     }},
    {"less or equal",
     [](std::mt19937& r) {
       auto c = binary(r, "LessOrEqual");
       c.outputs[0].dtype = DType::boolean;
       return c;
     }},
    {"greater",
     [](std::mt19937& r) {
       auto c = binary(r, "Greater");
       c.outputs[0].dtype = DType::boolean;
       return c;
     }},
    {"where",
     [](std::mt19937& r) {
       const Shape s = image(r);
       return Comparison{"Where",
                         {},
                         {random_integers(r, {s[1], 1, 1}, 0, 2).cast(DType::boolean), random_tensor(r, s), random_tensor(r, {})},
                         {real(s)}};
     }},
    {"cast to int64",
     [](std::mt19937& r) {
       auto c = unary(r, "Cast", {{"to", std::int64_t{7}}});
       c.outputs[0].dtype = DType::int64;
       return c;
     }},
    {"cast to boolean",
     [](std::mt19937& r) {
       auto c = unary(r, "Cast", {{"to", std::int64_t{9}}}, -0.05, 0.05);
       c.outputs[0].dtype = DType::boolean;
       return c;
     }},
    {"cast from int64",
     [](std::mt19937& r) {
       const Shape s = image(r);
       return Comparison{"Cast", {{"to", std::int64_t{11}}}, {random_integers(r, s, -9, 9)}, {real(s)}};
     },
     {DType::float64}},
    {"cast to small types", cast_to_small},
    {"cast from small types",
     [](std::mt19937& r) {
       const auto from = static_cast<DType>(between(r, 17, 28));
       Tensor x(TensorType{from, image(r)});
       for (std::byte& b : x.write())
         b = std::byte{is_small_integer(from) ? low_bits(between(r, 0, 255), from)
                                              : static_cast<std::uint8_t>(between(r, 0, (1 << bits_of(from)) - 1))};
       return Comparison{"Cast", {{"to", std::int64_t{1}}}, {x}, {real(x.shape())}};
     }},
};

}  // namespace

std::vector<CaseRow> choices() { return list(choice_rows); }

}  // namespace tandem::cuda::cases
