// Names and sizes of element types.
#include "graph/dtype.h"

namespace tandem {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  std::size_t size;
  int bits = static_cast<int>(8 * size);
};
constexpr Row rows[] = {
    {DType::undefined, "undefined", 0}, {DType::float32, "float32", 4}, {DType::uint8, "uint8", 1},
    {DType::int8, "int8", 1},           {DType::uint16, "uint16", 2},   {DType::int16, "int16", 2},
    {DType::int32, "int32", 4},         {DType::int64, "int64", 8},     {DType::string, "string", 0},
    {DType::boolean, "bool", 1},        {DType::float16, "float16", 2}, {DType::float64, "float64", 8},
    {DType::uint32, "uint32", 4},       {DType::uint64, "uint64", 8},   {DType::bfloat16, "bfloat16", 2},
    {DType::float8e4m3fn, "float8e4m3fn", 1}, {DType::float8e4m3fnuz, "float8e4m3fnuz", 1}, {DType::float8e5m2, "float8e5m2", 1},
    {DType::float8e5m2fnuz, "float8e5m2fnuz", 1}, {DType::float8e8m0, "float8e8m0", 1}, {DType::float4e2m1, "float4e2m1", 1, 4},
    {DType::float6e2m3, "float6e2m3", 1, 6}, {DType::float6e3m2, "float6e3m2", 1, 6}, {DType::uint4, "uint4", 1, 4},
    {DType::int4, "int4", 1, 4},        {DType::uint2, "uint2", 1, 2},  {DType::int2, "int2", 1, 2},
};

const Row* find(DType dtype) {
  for (const Row& row : rows)
    if (row.dtype == dtype) return &row;
  return nullptr;
}

}  // namespace

std::string_view name_of(DType dtype) {
  const Row* row = find(dtype);
  return row ? row->name : "unsupported";
}

std::size_t size_of(DType dtype) {
  const Row* row = find(dtype);
  return row ? row->size : 0;
}

int bits_of(DType dtype) {
  const Row* row = find(dtype);
  return row ? row->bits : 0;
}

}  // namespace tandem
