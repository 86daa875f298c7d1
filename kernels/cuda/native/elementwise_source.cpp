// Writes the source of a fused elementwise kernel, an instruction a line.
#include <bit>

#include "kernels/cuda/bodies/elementwise_operators_text.h"
#include "kernels/cuda/native/elementwise.h"

namespace tandem::cuda {
namespace {

// Storage types by their bits; conversions as bodies/types.h has them.
struct TypeRow {
  DType dtype;
  std::string_view storage, compute, load, store;
};
constexpr TypeRow types[] = {
    {DType::float32, "float", "float", "v", "v"},
    {DType::float64, "double", "double", "v", "v"},
    {DType::float16, "unsigned short", "float", "half_to_float(v)", "float_to_half(v)"},
    {DType::bfloat16, "unsigned short", "float", "bfloat16_to_float(v)", "float_to_bfloat16(v)"},
    {DType::int8, "signed char", "long long", "v", "static_cast<T>(v)"},
    {DType::int16, "short", "long long", "v", "static_cast<T>(v)"},
    {DType::int32, "int", "long long", "v", "static_cast<T>(v)"},
    {DType::int64, "long long", "long long", "v", "v"},
    {DType::uint8, "unsigned char", "long long", "v", "static_cast<T>(v)"},
    {DType::uint16, "unsigned short", "long long", "v", "static_cast<T>(v)"},
    {DType::uint32, "unsigned", "long long", "v", "static_cast<T>(v)"},
    {DType::uint64, "unsigned long long", "unsigned long long", "v", "v"},
};

constexpr std::string_view conversions = R"(
namespace {
__device__ float half_to_float(unsigned short v) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(v)); return f; }
__device__ unsigned short float_to_half(float v) { unsigned short h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v)); return h; }
__device__ float bfloat16_to_float(unsigned short v) { return __uint_as_float(static_cast<unsigned>(v) << 16); }
__device__ unsigned short float_to_bfloat16(float v) { unsigned short h; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(v)); return h; }
}
)";

// As many elements at once as fill 16 bytes, if every operand can be read and written so.
int vector_of(const ElementwiseProgram& p, std::int64_t size) {
  for (std::int64_t vector = 16 / size; vector > 1; vector /= 2) {
    bool fits = p.elements % vector == 0;
    for (std::size_t k = 0; k < p.walks.size(); ++k) {
      if (p.walks[k] != Walk::strided) continue;
      const std::int64_t inner = p.dims.back().strides[k + 1];
      fits &= inner <= 1 && p.dims.back().size % vector == 0;
      for (std::size_t d = 0; d + 1 < p.dims.size(); ++d) fits &= inner == 0 || p.dims[d].strides[k + 1] % vector == 0;
    }
    if (fits) return static_cast<int>(vector);
  }
  return 1;
}

}  // namespace

FusedSource fused_source(const ElementwiseProgram& p) {
  const TypeRow* type = nullptr;
  for (const TypeRow& row : types)
    if (row.dtype == p.dtype) type = &row;
  if (!type) fail("no elementwise kernels for ", p.dtype);
  FusedSource source;
  source.vector = vector_of(p, static_cast<std::int64_t>(size_of(p.dtype)));
  std::string& s = source.text;
  s = concat(elementwise_operators_text, conversions, "using namespace tandem::cuda;\nusing T = ", type->storage,
             ";\nusing C = ", type->compute, ";\n__device__ C load(T v) { return ", type->load, "; }\n__device__ T store(C v) { return ",
             type->store, "; }\nstruct alignas(", source.vector, " * sizeof(T)) Pack { T v[", source.vector, "]; };\nstruct Arguments {");
  for (int k = 0; k < p.inputs; ++k) s += concat(" const T* x", k, ";");
  for (std::size_t k = 0; k < p.results.size(); ++k) s += concat(" T* y", k, ";");
  s += concat(" };\nextern \"C\" __global__ void __launch_bounds__(", source.threads,
              ") tandem_elementwise(const Arguments a) {\n  const long long first = blockIdx.x * ", source.threads, "LL + threadIdx.x, step = gridDim.x * ", source.threads,
              "LL;\n  for (long long v = first; v < ", p.elements / source.vector, "LL; v += step) {\n    const long long i = v * ", source.vector, ";\n");
  bool any_strided = false;
  for (const Walk w : p.walks) any_strided |= w == Walk::strided;
  if (any_strided) {
    s += "    unsigned rest = static_cast<unsigned>(i);\n";
    for (std::size_t d = p.dims.size(); d-- > 0;)
      s += concat("    const unsigned c", d, " = rest % ", p.dims[d].size, "u; rest /= ", p.dims[d].size, "u;\n");
  }
  std::vector<bool> packed(p.walks.size(), false);
  for (std::size_t k = 0; k < p.walks.size(); ++k) {
    std::string at = p.walks[k] == Walk::along ? "i" : "0";
    packed[k] = p.walks[k] == Walk::along;
    if (p.walks[k] == Walk::strided) {
      packed[k] = p.dims.back().strides[k + 1] == 1;
      for (std::size_t d = 0; d < p.dims.size(); ++d)
        if (p.dims[d].strides[k + 1] != 0) at += concat(" + c", d, " * ", p.dims[d].strides[k + 1], "LL");
    }
    if (packed[k])
      s += concat("    const Pack p", k, " = *reinterpret_cast<const Pack*>(a.x", k, " + ", at, ");\n");
    else
      s += concat("    const C r", k, " = load(a.x", k, "[", at, "]);\n");
  }
  for (std::size_t k = 0; k < p.results.size(); ++k) s += concat("    Pack q", k, ";\n");
  s += concat("#pragma unroll\n    for (int k = 0; k < ", source.vector, "; ++k) {\n");
  for (std::size_t k = 0; k < p.walks.size(); ++k)
    if (packed[k]) s += concat("      const C r", k, " = load(p", k, ".v[k]);\n");
  for (std::size_t j = 0; j < p.instructions.size(); ++j) {
    const Instruction& n = p.instructions[j];
    const std::string target = concat("      const C r", static_cast<std::size_t>(p.inputs) + j, " = ");
    const auto number = [](float v) { return concat("static_cast<C>(__int_as_float(", std::bit_cast<std::int32_t>(v), "))"); };
    const std::string function = concat("static_cast<Function>(", static_cast<int>(n.function), ")");
    if (is_float(p.dtype))
      s += concat(target, "apply_real<C>(", function, ", r", static_cast<int>(n.a), ", r", static_cast<int>(n.b), ", ", number(n.p), ", ",
                  number(n.q), ");\n");
    else
      s += concat(target, "static_cast<T>(apply_integer(", function, ", r", static_cast<int>(n.a), ", r", static_cast<int>(n.b), "));\n");
  }
  for (std::size_t k = 0; k < p.results.size(); ++k) s += concat("      q", k, ".v[k] = store(r", static_cast<int>(p.results[k]), ");\n");
  s += "    }\n";
  for (std::size_t k = 0; k < p.results.size(); ++k) s += concat("    *reinterpret_cast<Pack*>(a.y", k, " + i) = q", k, ";\n");
  s += "  }\n}\n";
  return source;
}

}  // namespace tandem::cuda
