// The elementwise operators on numbers, for the interpreter, for fused kernels (whose source begins with this file, so
// it includes nothing) and for the host. Formulas are ONNX's; the backward ones stand in docs/internal-operators.md.
#pragma once
#if !defined(TANDEM_DEVICE)
#define TANDEM_DEVICE __device__ __forceinline__
#endif

namespace tandem::cuda {

enum class Function : unsigned char {
  Abs, Add, Ceil, Clip, ClipBackward, Cos, Div, Elu, EluBackward, Erf, Exp, Floor, Fmod, HardSigmoid, HardSigmoidBackward, Identity,
  LeakyRelu, LeakyReluBackward, Log, Max, Min, Mod, Mul, Neg, Pow, Reciprocal, Relu, ReluBackward, Round, Sigmoid, SigmoidBackward,
  Sign, Sin, Softplus, Sqrt, Sub, Tanh, TanhBackward,
};

// C is float or double; p and q are the function's parameters in the order of its operator's row.
template <class C>
TANDEM_DEVICE C apply_real(Function f, C a, C b, C p, C q) {
  const C zero = 0, one = 1;
  switch (f) {
    case Function::Abs: return fabs(a);
    case Function::Add: return a + b;
    case Function::Ceil: return ceil(a);
    case Function::Clip: return a < p ? p : a > q ? q : a;
    case Function::ClipBackward: return b > p && b < q ? a : zero;
    case Function::Cos: return cos(a);
    case Function::Div: return a / b;
    case Function::Elu: return a >= zero ? a : p * expm1(a);
    case Function::EluBackward: return b > zero ? a : a * (b + p);
    case Function::Erf: return erf(a);
    case Function::Exp: return exp(a);
    case Function::Floor: return floor(a);
    case Function::Fmod: return fmod(a, b);
    case Function::HardSigmoid: { const C t = p * a + q; return t < zero ? zero : t > one ? one : t; }
    case Function::HardSigmoidBackward: { const C t = p * b + q; return t > zero && t < one ? a * p : zero; }
    case Function::Identity: return a;
    case Function::LeakyRelu: return a >= zero ? a : p * a;
    case Function::LeakyReluBackward: return b >= zero ? a : p * a;
    case Function::Log: return log(a);
    case Function::Max: return a != a ? a : b != b ? b : a > b ? a : b;
    case Function::Min: return a != a ? a : b != b ? b : a < b ? a : b;
    case Function::Mod: { const C r = fmod(a, b); return r != zero && (r < zero) != (b < zero) ? r + b : r; }
    case Function::Mul: return a * b;
    case Function::Neg: return -a;
    case Function::Pow: return pow(a, b);
    case Function::Reciprocal: return one / a;
    case Function::Relu: return a < zero ? zero : a;
    case Function::ReluBackward: return b > zero ? a : zero;
    case Function::Round: return rint(a);
    case Function::Sigmoid: return one / (one + exp(-a));
    case Function::SigmoidBackward: return a * b * (one - b);
    case Function::Sign: return a > zero ? one : a < zero ? -one : a;
    case Function::Sin: return sin(a);
    case Function::Softplus: return (a > zero ? a : zero) + log1p(exp(-fabs(a)));
    case Function::Sqrt: return sqrt(a);
    case Function::Sub: return a - b;
    case Function::Tanh: return tanh(a);
    case Function::TanhBackward: return a * (one - b * b);
  }
  return zero;
}

// Negative powers are 0, but of 1 and -1.
TANDEM_DEVICE long long integer_power(long long base, long long exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 != 0 ? -1 : 1) : 0;
  unsigned long long result = 1, factor = static_cast<unsigned long long>(base);
  for (; exponent != 0; exponent >>= 1, factor *= factor)
    if (exponent & 1) result *= factor;
  return static_cast<long long>(result);
}

// Integers wrap around, divide towards zero, and give 0 where they would divide by it.
TANDEM_DEVICE long long apply_integer(Function f, long long a, long long b) {
  using U = unsigned long long;
  switch (f) {
    case Function::Abs: return a < 0 ? static_cast<long long>(0 - static_cast<U>(a)) : a;
    case Function::Add: return static_cast<long long>(static_cast<U>(a) + static_cast<U>(b));
    case Function::Div: return b == 0 ? 0 : b == -1 ? static_cast<long long>(0 - static_cast<U>(a)) : a / b;
    case Function::Fmod: return b == 0 || b == -1 ? 0 : a % b;
    case Function::Max: return a > b ? a : b;
    case Function::Min: return a < b ? a : b;
    case Function::Mod: { const long long r = b == 0 || b == -1 ? 0 : a % b; return r != 0 && (r < 0) != (b < 0) ? r + b : r; }
    case Function::Mul: return static_cast<long long>(static_cast<U>(a) * static_cast<U>(b));
    case Function::Neg: return static_cast<long long>(0 - static_cast<U>(a));
    case Function::Pow: return integer_power(a, b);
    case Function::Relu: return a < 0 ? 0 : a;
    case Function::Sign: return a > 0 ? 1 : a < 0 ? -1 : 0;
    case Function::Sub: return static_cast<long long>(static_cast<U>(a) - static_cast<U>(b));
    default: return a;
  }
}

}  // namespace tandem::cuda
