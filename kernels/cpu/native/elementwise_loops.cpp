// The loops of elementwise operators on integers, booleans and mixed types; those on float and double are compiled for each
// instruction set (vector/elementwise.cpp).
#include "kernels/cpu/native/elementwise_loops.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <type_traits>

#include "graph/half.h"
#include "graph/small_types.h"
#include "kernels/cpu/isa.h"

namespace tandem::native {
namespace {

using vector::MicroOp;

template <class T, class F>
void loop1(void* y, const void* a, const void*, const void*, std::int64_t n, const double*) {
  for (std::int64_t i = 0; i < n; ++i) static_cast<T*>(y)[i] = static_cast<T>(F{}(static_cast<const T*>(a)[i]));
}
template <class T, class Y, class F>
void loop2(void* y, const void* a, const void* b, const void*, std::int64_t n, const double*) {
  for (std::int64_t i = 0; i < n; ++i)
    static_cast<Y*>(y)[i] = static_cast<Y>(F{}(static_cast<const T*>(a)[i], static_cast<const T*>(b)[i]));
}
template <class T>
void choose(void* y, const void* a, const void* b, const void* c, std::int64_t n, const double*) {
  for (std::int64_t i = 0; i < n; ++i)
    static_cast<T*>(y)[i] = static_cast<const bool*>(a)[i] ? static_cast<const T*>(b)[i] : static_cast<const T*>(c)[i];
}
template <class T>
void move(void* y, const void* a, const void*, const void*, std::int64_t n, const double*) {
  for (std::int64_t i = 0; i < n; ++i) static_cast<T*>(y)[i] = static_cast<const T*>(a)[i];
}
template <class T, class Y>
void convert(void* y, const void* a, const void*, const void*, std::int64_t n, const double*) {
  for (std::int64_t i = 0; i < n; ++i) static_cast<Y*>(y)[i] = number_as<Y>(static_cast<const T*>(a)[i]);
}

// Small types are named by the parameters, and so is how to round to them (elementwise.cpp puts them there).
template <class Y>
void from_small(void* y, const void* a, const void*, const void*, std::int64_t n, const double* p) {
  const float* table = numbers_of(static_cast<DType>(static_cast<int>(p[0]))).data();
  for (std::int64_t i = 0; i < n; ++i) static_cast<Y*>(y)[i] = number_as<Y>(table[static_cast<const std::uint8_t*>(a)[i]]);
}
template <class T>
void to_small(void* y, const void* a, const void*, const void*, std::int64_t n, const double* p) {
  const auto to = static_cast<DType>(static_cast<int>(p[0]));
  const int options = static_cast<int>(p[1]);
  const SmallRounding rounding{options % 2 != 0, static_cast<RoundMode>(options / 2)};
  for (std::int64_t i = 0; i < n; ++i) {
    const T v = static_cast<const T*>(a)[i];
    auto& element = static_cast<std::uint8_t*>(y)[i];
    if constexpr (std::is_integral_v<T>)
      element = is_small_integer(to) ? low_bits(static_cast<std::int64_t>(v), to) : element_of(static_cast<double>(v), to, rounding);
    else if constexpr (std::is_same_v<T, float>)
      element = is_small_integer(to) ? element_of(v, to) : small_of(std::bit_cast<std::uint32_t>(v), to, rounding);
    else
      element = element_of(number_as<double>(v), to, rounding);
  }
}

// Integers wrap around; in unsigned arithmetic that is defined.
template <class T>
auto wrapping(T v) {
  if constexpr (std::is_same_v<T, bool>)
    return static_cast<unsigned>(v);
  else
    return static_cast<std::make_unsigned_t<decltype(v + 0)>>(v);
}
template <class T>
T integer_divide(T a, T b) {  // towards zero; by zero gives 0
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return static_cast<T>(0u - wrapping(a));
  return static_cast<T>(a / b);
}
// The remainder has the dividend's sign, or (floor_mod) the divisor's; by zero it is 0.
template <class T>
T truncated_mod(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return std::fmod(a, b);
  else
    return b == 0 || (std::is_signed_v<T> && b == T(-1)) ? T(0) : static_cast<T>(a % b);
}
template <class T>
T floor_mod(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    const T r = std::fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
  } else {
    const T r = truncated_mod(a, b);
    return static_cast<T>(r != 0 && (r < 0) != (b < 0) ? r + b : r);
  }
}
template <class T>
T integer_power(T base, T exponent) {
  if constexpr (std::is_signed_v<T>)
    if (exponent < 0) return base == 1 ? T{1} : base == T(-1) ? (exponent % 2 ? base : T{1}) : T{0};
  auto result = wrapping(T{1}), factor = wrapping(base);
  for (auto e = wrapping(exponent); e != 0; e >>= 1, factor *= factor)
    if (e & 1) result *= factor;
  return static_cast<T>(result);
}

// Rows: an operator, and the loop for inputs of a type (null: none).
struct Row {
  std::string_view op;
  int arity;
  MicroOp (*find)(DType in);
};

template <class T>
constexpr bool is_integer_type = std::is_integral_v<T> && !std::is_same_v<T, bool>;

template <class F>
MicroOp integers1(DType in) {
  MicroOp found = nullptr;
  if (is_integer(in))
    visit_number(in, [&]<class T>() {
      if constexpr (is_integer_type<T>) found = loop1<T, F>;
    });
  return found;
}
template <class F>
MicroOp integers2(DType in) {
  MicroOp found = nullptr;
  if (is_integer(in))
    visit_number(in, [&]<class T>() {
      if constexpr (is_integer_type<T>) found = loop2<T, T, F>;
    });
  return found;
}
template <class F>
MicroOp numbers2(DType in) {
  MicroOp found = integers2<F>(in);
  if (in == DType::float32) found = loop2<float, float, F>;
  if (in == DType::float64) found = loop2<double, double, F>;
  return found;
}
template <class F>
MicroOp comparison(DType in) {
  MicroOp found = nullptr;
  if (size_of(in) != 0 && !is_small(in) && in != DType::float16 && in != DType::bfloat16)
    visit_number(in, [&]<class T>() { found = loop2<T, bool, F>; });
  return found;
}
template <class F>
MicroOp logic(DType in) {
  return in == DType::boolean ? loop2<bool, bool, F> : nullptr;
}
template <class T>
void nan_loop(void* y, const void* a, const void*, const void*, std::int64_t n, const double*) {
  for (std::int64_t i = 0; i < n; ++i) static_cast<bool*>(y)[i] = static_cast<const T*>(a)[i] != static_cast<const T*>(a)[i];
}
// Of 16 bits by their magnitude: what lies above infinity's.
template <std::uint16_t infinity>
void narrow_nan_loop(void* y, const void* a, const void*, const void*, std::int64_t n, const double*) {
  for (std::int64_t i = 0; i < n; ++i) static_cast<bool*>(y)[i] = (static_cast<const std::uint16_t*>(a)[i] & 0x7fffu) > infinity;
}
MicroOp not_a_number(DType in) {
  switch (in) {
    case DType::float32: return nan_loop<float>;
    case DType::float64: return nan_loop<double>;
    case DType::bfloat16: return narrow_nan_loop<0x7f80>;
    case DType::float16: return narrow_nan_loop<0x7c00>;
    default: return nullptr;
  }
}
template <template <class> class Of>
MicroOp by_size(DType in) {
  switch (size_of(in)) {
    case 1: return Of<std::uint8_t>::run;
    case 2: return Of<std::uint16_t>::run;
    case 4: return Of<std::uint32_t>::run;
    case 8: return Of<std::uint64_t>::run;
    default: return nullptr;
  }
}
template <class T>
struct Choose {
  static constexpr MicroOp run = choose<T>;
};
template <class T>
struct Move {
  static constexpr MicroOp run = move<T>;
};

template <class F>
Row row1(std::string_view op, F) { return {op, 1, integers1<F>}; }
template <class F>
Row row2(std::string_view op, F) { return {op, 2, integers2<F>}; }
template <class F>
Row any2(std::string_view op, F) { return {op, 2, numbers2<F>}; }
template <class F>
Row compare(std::string_view op, F) { return {op, 2, comparison<F>}; }
template <class F>
Row logical(std::string_view op, F) { return {op, 2, logic<F>}; }

// What is not a float or double function of its own type (those: vector/micro_ops.cpp).
const Row rows[] = {
    row2("Add", [](auto a, auto b) { return wrapping(a) + wrapping(b); }),
    row2("Sub", [](auto a, auto b) { return wrapping(a) - wrapping(b); }),
    row2("Mul", [](auto a, auto b) { return wrapping(a) * wrapping(b); }),
    row2("Div", [](auto a, auto b) { return integer_divide(a, b); }),
    row2("Max", [](auto a, auto b) { return a > b ? a : b; }),
    row2("Min", [](auto a, auto b) { return a < b ? a : b; }),
    row2("Pow", [](auto a, auto b) { return integer_power(a, b); }),
    any2("Mod", [](auto a, auto b) { return floor_mod(a, b); }),
    any2("fmod", [](auto a, auto b) { return truncated_mod(a, b); }),
    row1("Relu", [](auto a) { return a > 0 ? a : 0; }),
    row1("Abs", [](auto a) { return a < 0 ? 0u - wrapping(a) : wrapping(a); }),
    row1("Neg", [](auto a) { return 0u - wrapping(a); }),
    row1("Sign", [](auto a) { return (a > 0) - (a < 0); }),
    row2("BitShift", [](auto a, auto b) { return wrapping(b) < 8 * sizeof a ? wrapping(a) << b : 0; }),
    row2("BitShiftRight", [](auto a, auto b) { return wrapping(b) < 8 * sizeof a ? a >> b : a < 0 ? -1 : 0; }),
    row2("BitwiseAnd", [](auto a, auto b) { return a & b; }),
    row1("BitwiseNot", [](auto a) { return ~a; }),
    row2("BitwiseOr", [](auto a, auto b) { return a | b; }),
    row2("BitwiseXor", [](auto a, auto b) { return a ^ b; }),
    compare("Equal", [](auto a, auto b) { return a == b; }),
    compare("Greater", [](auto a, auto b) { return a > b; }),
    compare("GreaterOrEqual", [](auto a, auto b) { return a >= b; }),
    compare("Less", [](auto a, auto b) { return a < b; }),
    compare("LessOrEqual", [](auto a, auto b) { return a <= b; }),
    logical("And", [](bool a, bool b) { return a && b; }),
    logical("Or", [](bool a, bool b) { return a || b; }),
    logical("Xor", [](bool a, bool b) { return a != b; }),
    {"Not", 1, [](DType in) -> MicroOp { return in == DType::boolean ? loop1<bool, decltype([](bool a) { return !a; })> : nullptr; }},
    {"IsNaN", 1, not_a_number},
    {"Where", 3, by_size<Choose>},
    {"Identity", 1, by_size<Move>},
};

MicroOp find_cast(DType in, DType out) {
  if (in == DType::bfloat16 && out == DType::float32) return vector_table().widen_bfloat16;
  if (in == DType::float32 && out == DType::bfloat16) return vector_table().narrow_bfloat16;
  MicroOp found = nullptr;
  if (is_small(in)) visit_storable(out, [&]<class Y>() { found = from_small<Y>; });
  if (is_small(out)) visit_storable(in, [&]<class T>() { found = to_small<T>; });
  visit_storable(in, [&]<class T>() { visit_storable(out, [&]<class Y>() { found = convert<T, Y>; }); });
  return found;
}

std::span<const vector::MicroRow> vector_rows() {
  return {vector_table().micro_ops, static_cast<std::size_t>(vector_table().micro_op_count)};
}

}  // namespace

bool has_formula(std::string_view op) {
  const auto named = [&](const Row& row) { return row.op == op; };
  const auto vector_named = [&](const vector::MicroRow& row) { return row.name == op; };
  return op == "Cast" || op == "BitCast" || std::any_of(std::begin(rows), std::end(rows), named) ||
         std::ranges::any_of(vector_rows(), vector_named);
}

std::optional<Micro> find_micro(std::string_view op, DType in, DType out) {
  if (op == "Cast") {
    const MicroOp run = find_cast(in, out);
    return run ? std::optional(Micro{run, 1}) : std::nullopt;
  }
  if (op == "BitCast") {
    const MicroOp run = size_of(in) == size_of(out) ? by_size<Move>(in) : nullptr;
    return run ? std::optional(Micro{run, 1}) : std::nullopt;
  }
  if (in == out && (in == DType::float32 || in == DType::float64 || in == DType::bfloat16)) {
    for (const vector::MicroRow& row : vector_rows())
      if (row.name == op) return Micro{in == DType::float32 ? row.float32 : in == DType::float64 ? row.float64 : row.bfloat16, row.arity};
  }
  for (const Row& row : rows)
    if (row.op == op)
      if (const MicroOp run = row.find(in)) return Micro{run, row.arity};
  return std::nullopt;
}

}  // namespace tandem::native
