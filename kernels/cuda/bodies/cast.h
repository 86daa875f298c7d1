// Cast. Elements are counted in the output's packed order.
#pragma once
#include "graph/small_types.h"
#include "kernels/cuda/bodies/index.h"
#include "kernels/cuda/bodies/pack.h"

namespace tandem::cuda {

// The types that Cast knows, as ONNX numbers them; small ones are the bytes that graph/small_types.h tells, from 17 on.
enum class Number : std::uint8_t {
  f32 = 1,
  u8 = 2,
  i8 = 3,
  u16 = 4,
  i16 = 5,
  i32 = 6,
  i64 = 7,
  boolean = 9,
  f16 = 10,
  f64 = 11,
  u32 = 12,
  u64 = 13,
  bf16 = 16
};

// Converts as C++ does; integers go through 64 bits, the others through double.
struct CastBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  const void* x;
  void* y;
  Number from, to;
  std::uint32_t elements;
  Nest<1> nest;
  SmallRounding rounding;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t i = t.block() * threads + t.thread(); i < elements; i += t.blocks() * threads) {
      const std::int64_t at = nest.offset(static_cast<std::uint32_t>(i));
      switch (from) {
        case Number::f32: write(i, static_cast<double>(static_cast<const float*>(x)[at])); break;
        case Number::f64: write(i, static_cast<const double*>(x)[at]); break;
        case Number::f16: write(i, static_cast<double>(load(static_cast<const Half*>(x)[at]))); break;
        case Number::bf16: write(i, static_cast<double>(load(static_cast<const BFloat16*>(x)[at]))); break;
        case Number::u8: write(i, static_cast<std::int64_t>(static_cast<const std::uint8_t*>(x)[at])); break;
        case Number::boolean: write(i, static_cast<std::int64_t>(static_cast<const std::uint8_t*>(x)[at] != 0)); break;
        case Number::i8: write(i, static_cast<std::int64_t>(static_cast<const std::int8_t*>(x)[at])); break;
        case Number::u16: write(i, static_cast<std::int64_t>(static_cast<const std::uint16_t*>(x)[at])); break;
        case Number::i16: write(i, static_cast<std::int64_t>(static_cast<const std::int16_t*>(x)[at])); break;
        case Number::i32: write(i, static_cast<std::int64_t>(static_cast<const std::int32_t*>(x)[at])); break;
        case Number::u32: write(i, static_cast<std::int64_t>(static_cast<const std::uint32_t*>(x)[at])); break;
        case Number::i64: write(i, static_cast<const std::int64_t*>(x)[at]); break;
        case Number::u64: write(i, static_cast<const std::uint64_t*>(x)[at]); break;
        default: write(i, number(static_cast<const std::uint8_t*>(x)[at], static_cast<DType>(from)));
      }
    }
  }

 private:
  static TANDEM_DEVICE double number(std::uint8_t element, DType t) {
    if (t == DType::uint4 || t == DType::uint2) return element;
    if (t == DType::int4 || t == DType::int2) return static_cast<std::int8_t>(element);
    return static_cast<double>(of_bits(float_bits_of(element, t)));
  }
  template <class V>
  TANDEM_DEVICE std::uint8_t element(V v, DType t) const {
    if (t == DType::int4 || t == DType::uint4 || t == DType::int2 || t == DType::uint2)
      return low_bits(v == v ? static_cast<std::int64_t>(v) : 0, t);
    return small_of(to_odd(static_cast<double>(v)), t, rounding);
  }
  // The bits of a float32 from which a second rounding gives what a single one had.
  static TANDEM_DEVICE std::uint32_t to_odd(double v) {
    const auto f = static_cast<float>(v);
    const std::uint32_t bits = bits_of(f);
    const auto back = static_cast<double>(f);
    if (back == v || v != v || v - v != 0) return bits;
    return ((back < 0 ? back < v : back > v) ? bits - 1 : bits) | 1U;
  }
#if defined(__CUDACC__)
  static TANDEM_DEVICE std::uint32_t bits_of(float v) { return __float_as_uint(v); }
  static TANDEM_DEVICE float of_bits(std::uint32_t v) { return __uint_as_float(v); }
#else
  static std::uint32_t bits_of(float v) { return std::bit_cast<std::uint32_t>(v); }
  static float of_bits(std::uint32_t v) { return std::bit_cast<float>(v); }
#endif

  template <class V>
  TANDEM_DEVICE void write(std::int64_t i, V v) const {
    switch (to) {
      case Number::f32: static_cast<float*>(y)[i] = static_cast<float>(v); break;
      case Number::f64: static_cast<double*>(y)[i] = static_cast<double>(v); break;
      case Number::f16: static_cast<Half*>(y)[i] = store<Half>(static_cast<float>(v)); break;
      case Number::bf16: static_cast<BFloat16*>(y)[i] = store<BFloat16>(static_cast<float>(v)); break;
      case Number::boolean: static_cast<std::uint8_t*>(y)[i] = v != V(0); break;
      case Number::u8: static_cast<std::uint8_t*>(y)[i] = static_cast<std::uint8_t>(v); break;
      case Number::i8: static_cast<std::int8_t*>(y)[i] = static_cast<std::int8_t>(v); break;
      case Number::u16: static_cast<std::uint16_t*>(y)[i] = static_cast<std::uint16_t>(v); break;
      case Number::i16: static_cast<std::int16_t*>(y)[i] = static_cast<std::int16_t>(v); break;
      case Number::i32: static_cast<std::int32_t*>(y)[i] = static_cast<std::int32_t>(v); break;
      case Number::u32: static_cast<std::uint32_t*>(y)[i] = static_cast<std::uint32_t>(v); break;
      case Number::i64: static_cast<std::int64_t*>(y)[i] = static_cast<std::int64_t>(v); break;
      case Number::u64: static_cast<std::uint64_t*>(y)[i] = static_cast<std::uint64_t>(v); break;
      default: static_cast<std::uint8_t*>(y)[i] = element(v, static_cast<DType>(to));
    }
  }
};

// Between float32 and types of 16 bits in one memory order, eight elements at a time.
template <class From, class To>
struct FloatCastBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  const From* x;
  To* y;
  std::int64_t elements;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const std::int64_t first = t.block() * threads + t.thread(), step = t.blocks() * threads, packs = elements / 8;
    for (std::int64_t i = first; i < packs; i += step) {
      const Pack<From, 8> from = read_pack<8>(x, i);
      Pack<To, 8> to;
      for (int k = 0; k < 8; ++k) to.v[k] = store<To>(load(from.v[k]));
      write_pack(y, i, to);
    }
    for (std::int64_t i = packs * 8 + first; i < elements; i += step) y[i] = store<To>(load(x[i]));
  }
};

}  // namespace tandem::cuda
