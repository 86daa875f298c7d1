// Element types. The numbers are those of ONNX's TensorProto.DataType. An element of fewer than 8 bits takes a byte of its own wherever
// tandem holds it, a signed integer with its sign; files pack several of them into one (importer/message/tensor_data.h).
#pragma once
#include <cstdint>
#include <string_view>

#include "base/error.h"

namespace tandem {

enum class DType : int {
  undefined = 0,
  float32 = 1,
  uint8 = 2,
  int8 = 3,
  uint16 = 4,
  int16 = 5,
  int32 = 6,
  int64 = 7,
  string = 8,
  boolean = 9,
  float16 = 10,
  float64 = 11,
  uint32 = 12,
  uint64 = 13,
  bfloat16 = 16,
  float8e4m3fn = 17,
  float8e4m3fnuz = 18,
  float8e5m2 = 19,
  float8e5m2fnuz = 20,
  uint4 = 21,
  int4 = 22,
  float4e2m1 = 23,
  float8e8m0 = 24,
  uint2 = 25,
  int2 = 26,
  float6e2m3 = 27,
  float6e3m2 = 28,
};

std::string_view name_of(DType dtype);   // "float32"; "dtype 23" is never returned: unknown numbers give "unsupported"
std::size_t size_of(DType dtype);        // bytes of one element; 0 for string, undefined and unsupported types
inline bool is_float(DType t) {
  return t == DType::float32 || t == DType::float64 || t == DType::float16 || t == DType::bfloat16;
}
// Small types are stored, moved, cast and quantized to; nothing is computed in them (graph/small_types.h).
constexpr bool is_small(DType t) { return t >= DType::float8e4m3fn && t <= DType::float6e3m2; }
constexpr bool is_small_integer(DType t) { return t == DType::uint4 || t == DType::int4 || t == DType::uint2 || t == DType::int2; }
constexpr bool is_small_float(DType t) { return is_small(t) && !is_small_integer(t); }
int bits_of(DType dtype);                // of one element in a file: 2, 4, 6 or 8 of a small type
inline bool is_integer(DType t) { return size_of(t) != 0 && !is_float(t) && !is_small(t) && t != DType::boolean; }
inline std::string to_string(DType t) { return std::string(name_of(t)); }
inline std::string text_of(DType t) { return to_string(t); }

template <class T>
constexpr DType dtype_of();
template <> constexpr DType dtype_of<float>() { return DType::float32; }
template <> constexpr DType dtype_of<double>() { return DType::float64; }
template <> constexpr DType dtype_of<std::int8_t>() { return DType::int8; }
template <> constexpr DType dtype_of<std::uint8_t>() { return DType::uint8; }
template <> constexpr DType dtype_of<std::int16_t>() { return DType::int16; }
template <> constexpr DType dtype_of<std::uint16_t>() { return DType::uint16; }
template <> constexpr DType dtype_of<std::int32_t>() { return DType::int32; }
template <> constexpr DType dtype_of<std::uint32_t>() { return DType::uint32; }
template <> constexpr DType dtype_of<std::int64_t>() { return DType::int64; }
template <> constexpr DType dtype_of<std::uint64_t>() { return DType::uint64; }
template <> constexpr DType dtype_of<bool>() { return DType::boolean; }

// visit_float(dtype, [&]<class T>() { ... }) with T = float or double.
template <class F>
decltype(auto) visit_float(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float32: return f.template operator()<float>();
    case DType::float64: return f.template operator()<double>();
    default: fail("expected float32 or float64, got ", name_of(dtype));
  }
}

// visit_number(dtype, [&]<class T>() { ... }) with T any C++ arithmetic type that ONNX has.
template <class F>
decltype(auto) visit_number(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float32: return f.template operator()<float>();
    case DType::float64: return f.template operator()<double>();
    case DType::int8: return f.template operator()<std::int8_t>();
    case DType::uint8: return f.template operator()<std::uint8_t>();
    case DType::int16: return f.template operator()<std::int16_t>();
    case DType::uint16: return f.template operator()<std::uint16_t>();
    case DType::int32: return f.template operator()<std::int32_t>();
    case DType::uint32: return f.template operator()<std::uint32_t>();
    case DType::int64: return f.template operator()<std::int64_t>();
    case DType::uint64: return f.template operator()<std::uint64_t>();
    case DType::boolean: return f.template operator()<bool>();
    default: fail("expected a number type, got ", name_of(dtype));
  }
}

}  // namespace tandem
