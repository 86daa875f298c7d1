// Comparisons, logic and Where, whose result is of another type than their operands.
#include <algorithm>

#include "kernels/cuda/bodies/comparison.h"
#include "kernels/cuda/native/broadcast.h"

namespace tandem::cuda {
namespace {

struct ComparisonRow {
  std::string_view op;
  Comparison comparison;
};
constexpr ComparisonRow comparisons[] = {
    {"Equal", Comparison::equal}, {"Greater", Comparison::greater}, {"GreaterOrEqual", Comparison::greater_or_equal},
    {"Less", Comparison::less},   {"LessOrEqual", Comparison::less_or_equal}, {"And", Comparison::both},
    {"Or", Comparison::either},   {"Xor", Comparison::one}, {"Not", Comparison::negation},
    {"IsNaN", Comparison::no_number},
};

}  // namespace

bool is_comparison(std::string_view op) {
  return std::any_of(std::begin(comparisons), std::end(comparisons), [&](const ComparisonRow& row) { return row.op == op; });
}

Descriptions describe_comparison(const KernelRequest& request, Libraries*) {
  KernelDescription d = broadcast_description(request, "native.comparison");
  if (!fit_index(d)) return {};
  std::vector<LoopDim> dims = broadcast_loops(d);
  const bool binary = d.inputs.size() > 1;
  const auto nest = nest_of<2>(dims, {1, binary ? 2 : 1});
  if (!nest) return {};
  const auto elements = static_cast<std::uint32_t>(d.outputs[0].shape.elements());
  for (const ComparisonRow& row : comparisons) {
    if (row.op != request.op) continue;
    visit_stored_number(d.inputs[0].dtype, [&]<class T>() {
      d.make = launches([=, comparison = row.comparison](const Buffers& b) {
        return launches_over(CompareBody<T>{b.in<T>(0), binary ? b.in<T>(1) : nullptr, b.out<std::uint8_t>(0), elements, comparison, *nest},
                             elements);
      });
    });
  }
  return d.make ? Descriptions{d} : Descriptions{};
}

Descriptions describe_where(const KernelRequest& request, Libraries*) {
  KernelDescription d = broadcast_description(request, "native.where");
  const std::size_t size = size_of(d.outputs[0].dtype);
  if (!fit_index(d) || size == 0) return {};
  const auto nest = nest_of<3>(broadcast_loops(d), {1, 2, 3});
  if (!nest) return {};
  const auto elements = static_cast<std::uint32_t>(d.outputs[0].shape.elements());
  visit_bytes(size, [&]<class Unit>() {
    d.make = launches([=](const Buffers& b) {
      return launches_over(WhereBody<Unit>{b.in<std::uint8_t>(0), b.in<Unit>(1), b.in<Unit>(2), b.out<Unit>(0), elements, *nest}, elements);
    });
  });
  return {d};
}

}  // namespace tandem::cuda
