// Products in 8 bits (graph/operators/fp8.cpp), on processors that have none: the operands are rounded to 8 bits as everywhere, and
// multiplied as the bfloat16 numbers that they exactly are, with sums in float32.
#include "graph/fp8.h"

#include <cmath>
#include <limits>

#include "graph/half.h"
#include "kernels/cpu/native/products.h"
#include "kernels/cpu/native/window.h"

namespace tandem::native {
namespace {


float wide(float x) { return x; }
float wide(BFloat16 x) { return to_float(x); }

// What each bfloat16 number becomes, by its bits.
using Codes = std::vector<std::uint8_t>;
Codes codes_of(DType to) {
  Codes codes(1 << 16);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = fp8_of(to_float(BFloat16{static_cast<std::uint16_t>(i)}), 1, to);
  return codes;
}
const Codes& codes(DType to) {
  static const Codes e4m3 = codes_of(DType::float8e4m3fn), e5m2 = codes_of(DType::float8e5m2);
  return to == DType::float8e5m2 ? e5m2 : e4m3;
}

// Rows of a piece: it is written by columns, too, while it is in a cache.
constexpr std::int64_t piece_rows = 32;

template <class T>
struct Quantizing {
  const T* x;
  std::uint8_t *y, *transposed;  // transposed: null for none
  std::int64_t rows, columns;
  float scale;
  DType to;
  const std::uint8_t* codes;

  // A power of two times a bfloat16 number is one, but for those that are far too small to become anything but 0.
  std::uint8_t element(float v) const {
    if constexpr (std::is_same_v<T, BFloat16>) return codes[fp8_bits(v * scale) >> 16];
    return fp8_of(v, scale, to);
  }

  // Rows [begin, end). The largest magnitude; infinity where one is NaN.
  float run(std::int64_t begin, std::int64_t end) const {
    float largest = 0;
    bool number = true;
    for (std::int64_t top = begin; top < end; top += piece_rows) {
      const std::int64_t bottom = std::min(end, top + piece_rows);
      for (std::int64_t i = top * columns; i < bottom * columns; ++i) {
        const float v = wide(x[i]), magnitude = std::fabs(v);
        number = number && magnitude == magnitude;
        largest = std::max(largest, magnitude);
        y[i] = element(v);
      }
      if (!transposed) continue;
      for (std::int64_t c = 0; c < columns; ++c)
        for (std::int64_t r = top; r < bottom; ++r) transposed[c * rows + r] = y[r * columns + c];
    }
    return number ? largest : std::numeric_limits<float>::infinity();
  }
};

// The numbers as bfloat16, times a power of two: exact, as 8 bits have a smaller range and fewer digits.
void widen(const std::uint8_t* from, DType type, float factor, BFloat16* to, std::int64_t n, int threads) {
  BFloat16 numbers[256];
  const std::span<const float, 256> all = numbers_of(type);
  for (std::size_t i = 0; i < 256; ++i) numbers[i] = number_as<BFloat16>(all[i] * factor);
  const int parts = threads_for(n, threads);
  parallel(parts, [&](int part) {
    const Range r = part_of(n, part, parts);
    for (std::int64_t i = r.begin; i < r.end; ++i) to[i] = numbers[from[i]];
  });
}

template <class T>
KernelDescription quantizing(const KernelRequest& request) {
  KernelDescription d = row_major_description("native.quantize_fp8", request, 0.1);
  const auto to = static_cast<DType>(request.attributes->integer("to"));
  const std::int64_t slot = request.attributes->integer("slot"), rows = d.inputs[0].shape[0], columns = d.inputs[0].shape[1];
  const bool transposes = d.outputs.size() > 3 && d.outputs[3].present();
  const int threads = std::max(1, request.options.threads);
  const std::uint8_t* const known = codes(to).data();
  d.workspace = threads * static_cast<std::int64_t>(sizeof(float));
  d.make = make_kernel([=](const Memory& m) {
    const float scale = fp8_scale(m.in<Fp8Row>(1)[slot]);
    const Quantizing<T> q{m.in<T>(0), m.out<std::uint8_t>(0), transposes ? m.out<std::uint8_t>(3) : nullptr, rows, columns, scale, to,
                          known};
    float* const found = reinterpret_cast<float*>(m.workspace);
    const int parts = threads_for(rows * columns, threads);
    parallel(parts, [&](int part) {
      const Range r = part_of(rows, part, parts);
      found[part] = q.run(r.begin, r.end);
    });
    *m.out<float>(1) = 1 / scale;
    *m.out<float>(2) = *std::max_element(found, found + parts);
  });
  return d;
}

}  // namespace

Descriptions describe_quantize_fp8(const KernelRequest& request) {
  if (request.inputs[0].dtype == DType::bfloat16) return {quantizing<BFloat16>(request)};
  if (request.inputs[0].dtype == DType::float32) return {quantizing<float>(request)};
  return {};
}

Descriptions describe_product_fp8(const KernelRequest& request) {
  if (request.outputs[0].dtype != DType::bfloat16) return {};
  KernelDescription d = row_major_description("native.product_fp8", request, product_efficiency());
  const std::int64_t rows = d.inputs[0].shape[0], inner = d.inputs[0].shape[1], columns = d.inputs[1].shape[0];
  const DType a_type = d.inputs[0].dtype, w_type = d.inputs[1].dtype;
  const bool bias = d.inputs.size() > 4 && d.inputs[4].present();
  const int threads = std::max(1, request.options.threads);
  const MatrixProduct p{rows,  columns, inner, {true, inner, 1}, {true, inner, 1}, columns, true, has_relu(*request.attributes),
                        false, threads};
  const std::int64_t a_bytes = to_line(rows * inner * 2), w_bytes = to_line(columns * inner * 2);
  d.workspace = a_bytes + w_bytes + p.workspace();
  d.make = make_kernel([=](const Memory& m) {
    auto* const a = reinterpret_cast<BFloat16*>(m.workspace);
    auto* const w = reinterpret_cast<BFloat16*>(m.workspace + a_bytes);
    widen(m.in<std::uint8_t>(0), a_type, *m.in<float>(2), a, rows * inner, threads);
    widen(m.in<std::uint8_t>(1), w_type, *m.in<float>(3), w, columns * inner, threads);
    p.run(a, w, m.outputs[0], bias ? m.inputs[4] : nullptr, nullptr, m.workspace + a_bytes + w_bytes);
  });
  return {d};
}

Descriptions describe_fp8_scale_update(const KernelRequest& request) {
  KernelDescription d = row_major_description("native.fp8_scale_update", request, 0.1);
  d.in_place = {{0, 0}};
  const Ints types = request.attributes->ints("to");
  const int margin = static_cast<int>(request.attributes->integer("margin", 0));
  d.make = make_kernel([=](const Memory& m) {
    for (std::size_t i = 0; i < types.size(); ++i) {
      Fp8Row row = m.in<Fp8Row>(0)[i];
      next_scale(row, *m.in<float>(static_cast<int>(i) + 1), static_cast<DType>(types[i]), margin);
      m.out<Fp8Row>(0)[i] = row;
    }
  });
  return {d};
}

}  // namespace tandem::native
