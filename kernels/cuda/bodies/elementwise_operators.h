// The elementwise operators on numbers, for the interpreter, for fused kernels (whose source begins with this file, so
// it includes nothing) and for the host. Formulas are ONNX's; the backward ones stand in docs/internal-operators.md.
#pragma once
#if !defined(TANDEM_DEVICE)
#define TANDEM_DEVICE __device__ __forceinline__
#endif

namespace tandem::cuda {

// Every elementwise operator: its name, its formula on real numbers and, of a NUMBER, on integers. Operands are a and b, p and
// q the parameters in the order of the operator's row; zero and one are of the operands' type. Fmod is Mod with that attribute.
#define TANDEM_ELEMENTWISE(REAL, NUMBER) \
  NUMBER(Abs, fabs(a), a < 0 ? C(0 - U(a)) : a) \
  REAL(Acos, acos(a)) \
  REAL(Acosh, acosh(a)) \
  NUMBER(Add, a + b, C(U(a) + U(b))) \
  REAL(Asin, asin(a)) \
  REAL(Asinh, asinh(a)) \
  REAL(Atan, atan(a)) \
  REAL(Atanh, atanh(a)) \
  NUMBER(BitShift, a, U(b) < 64 ? C(U(a) << U(b)) : C(0)) \
  NUMBER(BitShiftRight, a, U(b) < 64 ? a >> b : C(a < 0 ? -1 : 0)) \
  NUMBER(BitwiseAnd, a, a & b) \
  NUMBER(BitwiseNot, a, ~a) \
  NUMBER(BitwiseOr, a, a | b) \
  NUMBER(BitwiseXor, a, a ^ b) \
  REAL(Ceil, ceil(a)) \
  REAL(Clip, (a < p ? p : a) > q ? q : a < p ? p : a) \
  REAL(ClipBackward, b > p && b < q ? a : zero) \
  REAL(Cos, cos(a)) \
  REAL(Cosh, cosh(a)) \
  NUMBER(Div, a / b, integer_quotient(a, b)) \
  REAL(Elu, a >= zero ? a : p * expm1(a)) \
  REAL(EluBackward, b > zero ? a : a * (b + p)) \
  REAL(Erf, erf(a)) \
  REAL(Exp, exp(a)) \
  REAL(Floor, floor(a)) \
  NUMBER(Fmod, fmod(a, b), integer_remainder(a, b)) \
  REAL(GeluErf, a * normal_below(a)) \
  REAL(GeluErfBackward, a * (normal_below(b) + b * C(0.3989422804014327) * exp(C(-0.5) * b * b))) \
  REAL(GeluTanh, C(0.5) * a * (one + tanh(gelu_bend(a)))) \
  REAL(GeluTanhBackward, C(0.5) * a * gelu_tanh_slope(b, tanh(gelu_bend(b)))) \
  REAL(HardSigmoid, between(p * a + q, zero, one)) \
  REAL(HardSigmoidBackward, p * b + q > zero && p * b + q < one ? a * p : zero) \
  REAL(HardSwish, a * between(a / C(6) + C(0.5), zero, one)) \
  REAL(HardSwishBackward, b <= C(-3) ? zero : b >= C(3) ? a : a * (b / C(3) + C(0.5))) \
  NUMBER(Identity, a, a) \
  REAL(LeakyRelu, a >= zero ? a : p * a) \
  REAL(LeakyReluBackward, b > zero ? a : p * a) \
  REAL(Log, log(a)) \
  NUMBER(Max, a != a ? a : b != b ? b : a > b ? a : b, a > b ? a : b) \
  NUMBER(Min, a != a ? a : b != b ? b : a < b ? a : b, a < b ? a : b) \
  NUMBER(Mod, floored(fmod(a, b), b), floored(integer_remainder(a, b), b)) \
  NUMBER(Mul, a * b, C(U(a) * U(b))) \
  NUMBER(Neg, -a, C(0 - U(a))) \
  REAL(PRelu, a > zero ? a : b * a) \
  REAL(PReluSlope, a > zero ? one : b) \
  NUMBER(Pow, pow(a, b), integer_power(a, b)) \
  REAL(QuantizeLevels, between(rint(a / b), p, q)) \
  REAL(Reciprocal, one / a) \
  NUMBER(Relu, a < zero ? zero : a, a < 0 ? 0 : a) \
  REAL(ReluBackward, b <= zero ? zero : a) \
  REAL(Round, rint(a)) \
  REAL(Sigmoid, one / (one + exp(-a))) \
  REAL(SigmoidBackward, a * b * (one - b)) \
  NUMBER(Sign, a > zero ? one : a < zero ? -one : a, a > 0 ? 1 : a < 0 ? -1 : 0) \
  REAL(Sin, sin(a)) \
  REAL(Sinh, sinh(a)) \
  REAL(Softplus, (a > zero ? a : zero) + log1p(exp(-fabs(a)))) \
  REAL(Sqrt, sqrt(a)) \
  NUMBER(Sub, a - b, C(U(a) - U(b))) \
  REAL(Swish, a / (one + exp(-p * a))) \
  REAL(SwishBackward, swish_slope(a, p * b, one / (one + exp(-p * b)))) \
  REAL(Tan, tan(a)) \
  REAL(Tanh, tanh(a)) \
  REAL(TanhBackward, a * (one - b * b))

enum class Function : unsigned char {
#define NAME(name, ...) name,
  TANDEM_ELEMENTWISE(NAME, NAME)
#undef NAME
};

template <class C>
TANDEM_DEVICE C between(C v, C low, C high) {
  return v < low ? low : v > high ? high : v;
}
// The normal distribution, what Gelu's other form bends by, and slopes of activations.
template <class C>
TANDEM_DEVICE C normal_below(C x) {
  return C(0.5) * (C(1) + erf(x * C(0.7071067811865476)));
}
template <class C>
TANDEM_DEVICE C gelu_bend(C x) {
  return C(0.7978845608028654) * x * (C(1) + C(0.044715) * x * x);
}
template <class C>
TANDEM_DEVICE C gelu_tanh_slope(C x, C t) {
  return C(1) + t + x * (C(1) - t * t) * C(0.7978845608028654) * (C(1) + C(0.134145) * x * x);
}
template <class C>
TANDEM_DEVICE C swish_slope(C dy, C x, C s) {
  return dy * s * (C(1) + x * (C(1) - s));
}
// A remainder with the divisor's sign.
template <class C>
TANDEM_DEVICE C floored(C r, C divisor) {
  return r != C(0) && (r < C(0)) != (divisor < C(0)) ? r + divisor : r;
}

// C is float or double.
template <class C>
TANDEM_DEVICE C apply_real(Function f, C a, C b, C p, C q) {
  const C zero = 0, one = 1;
  switch (f) {
#define CASE(name, formula, ...) \
  case Function::name: return formula;
    TANDEM_ELEMENTWISE(CASE, CASE)
#undef CASE
  }
  return zero;
}

// Integers are computed in 64 bits with or without a sign: I is long long or unsigned long long. They wrap around, divide towards
// zero, and give 0 where they would divide by it. Negative powers are 0, but of 1 and -1.
template <class I>
TANDEM_DEVICE I integer_power(I base, I exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == I(-1) ? (exponent % 2 != 0 ? I(-1) : 1) : 0;
  unsigned long long result = 1, factor = static_cast<unsigned long long>(base);
  for (; exponent != 0; exponent >>= 1, factor *= factor)
    if (exponent & 1) result *= factor;
  return static_cast<I>(result);
}

template <class I>
TANDEM_DEVICE I integer_quotient(I a, I b) {
  return b == 0 ? 0 : I(-1) < I(0) && b == I(-1) ? I(0 - static_cast<unsigned long long>(a)) : a / b;
}
template <class I>
TANDEM_DEVICE I integer_remainder(I a, I b) {
  return b == 0 || (I(-1) < I(0) && b == I(-1)) ? 0 : a % b;
}
template <class C>
TANDEM_DEVICE C apply_integer(Function f, C a, C b) {
  using U = unsigned long long;
  switch (f) {
#define NONE(...)
#define CASE(name, formula, integer) \
  case Function::name: return integer;
    TANDEM_ELEMENTWISE(NONE, CASE)
#undef CASE
#undef NONE
    default: return a;
  }
}

}  // namespace tandem::cuda
