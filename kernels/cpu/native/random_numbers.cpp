// RandomNumbers(random, samples?) {shape, dtype, layer, seed?, axis?, outer?, inner?} → y, uniform in (0, 1), row-major
// (docs/internal-operators.md).
// The elements of a sample that lie next to each other are a run of consecutive random words.
#include "kernels/cpu/isa.h"
#include "kernels/cpu/native/native.h"
#include "kernels/sample_runs.h"

namespace tandem::native {
namespace {

constexpr std::int64_t chunk = 512;  // elements whose random words are made at a time

float number(std::uint32_t word, float) { return std::min((static_cast<float>(word) + 0.5F) * 0x1p-32F, 1 - 0x1p-24F); }
double number(std::uint32_t word, double) { return (static_cast<double>(word) + 0.5) * 0x1p-32; }

}  // namespace

Descriptions describe_random_numbers(const KernelRequest& request) {
  const Attributes& a = *request.attributes;
  const SampleRuns runs(a, request.outputs[0].shape);
  const bool seeded = a.has("seed");
  const auto layer = static_cast<std::uint32_t>(a.integer("layer", 0)), own_seed = static_cast<std::uint32_t>(a.integer("seed", 0));
  const std::int64_t n = request.outputs[0].shape.elements();
  const int parts = threads_for(n, request.options.threads, 8192);
  KernelDescription d{
      .kernel = "native.random_numbers", .inputs = request.inputs, .outputs = row_major(request.outputs), .efficiency = 0.3};
  for (Operand& in : d.inputs) in = with_layout(in, layout_or_row_major(in));
  const DType dtype = request.outputs[0].dtype;
  if (dtype != DType::float32 && dtype != DType::float64) return {};
  visit_float(dtype, [&]<class T>() {
    const vector::Table& table = vector_table();
    d.make = make_kernel([=, &table](const Memory& m) {
      const auto* const random = m.in<std::int64_t>(0);
      const std::uint64_t seed = seeded ? own_seed : static_cast<std::uint64_t>(random[0]), step = static_cast<std::uint64_t>(random[1]);
      const vector::PhiloxState state{{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32) ^ layer},
                                      {static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(step >> 32)}};
      const std::int64_t first = runs.counted ? random[2] : 0, sample = runs.sample();
      T* const y = m.out<T>(0);
      parallel(parts, [&](int k) {
        const Range r = part_of(n, k, parts);
        std::uint32_t words[chunk];
        for (std::int64_t i = r.begin; i < r.end;) {
          const std::int64_t run = i / runs.inside, at = i % runs.inside;
          const std::int64_t count = std::min({chunk, runs.inside - at, r.end - i});
          table.philox_run(words, (first + run % runs.samples) * sample + run / runs.samples * runs.inside + at, count, state);
          for (std::int64_t j = 0; j < count; ++j) y[i + j] = number(words[j], T());
          i += count;
        }
      });
    });
  });
  return {d};
}

}  // namespace tandem::native
