// Comparisons, logic, Where and Cast.
#include <array>

#include "kernels/cuda/bodies/choice.h"
#include "kernels/cuda/launch/launch.h"
#include "kernels/cuda/native/describe.h"
#include "kernels/cuda/native/native.h"
#include "kernels/cuda/native/nest.h"

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
};

// Loops over the output in its packed order with the inputs' strides: place 0 the output's, then the inputs'.
std::vector<LoopDim> broadcast_loops(const KernelDescription& d) {
  const Shape& shape = d.outputs[0].shape;
  const std::vector<std::int64_t> y = strides_of(d.outputs[0]);
  std::vector<LoopDim> dims;
  for (std::size_t axis = 0; axis < y.size(); ++axis) dims.push_back({shape.dims[axis], {y[axis]}});
  for (const Operand& in : d.inputs) {
    const std::vector<std::int64_t> strides = strides_of(in);
    const std::size_t missing = y.size() - strides.size();
    for (std::size_t axis = 0; axis < y.size(); ++axis) {
      const bool repeated = axis < missing || in.shape.dims[axis - missing] == 1;
      dims[axis].strides.push_back(repeated ? 0 : strides[axis - missing]);
    }
  }
  return ordered(std::move(dims));
}

template <class F>
bool visit_comparable(DType dtype, F&& f) {
  switch (dtype) {
    case DType::boolean:
    case DType::uint8: f.template operator()<std::uint8_t>(); return true;
    case DType::int32: f.template operator()<std::int32_t>(); return true;
    case DType::int64: f.template operator()<std::int64_t>(); return true;
    default:
      if (!is_float(dtype)) return false;
      visit_storage(dtype, f);
      return true;
  }
}

template <class Body>
Launches launches_of(const Body& body) {
  return [body, blocks = blocks_for(body.elements, Body::threads)](void* stream) { launch(body, blocks, stream); };
}

KernelDescription whole_description(const KernelRequest& request, std::string_view kernel) {
  KernelDescription d = description_of(request, kernel, layout_of(request, request.outputs[0].shape.rank()));
  d.efficiency = 0.6;
  return d;
}

}  // namespace

Descriptions describe_comparison(const KernelRequest& request, Libraries*) {
  KernelDescription d = whole_description(request, "native.comparison");
  if (!fit_index(d)) return {};
  std::vector<LoopDim> dims = broadcast_loops(d);
  const bool binary = d.inputs.size() > 1;
  const auto nest = nest_of<2>(dims, {1, binary ? 2 : 1});
  if (!nest) return {};
  const auto elements = static_cast<std::uint32_t>(d.outputs[0].shape.elements());
  for (const ComparisonRow& row : comparisons) {
    if (row.op != request.op) continue;
    visit_comparable(d.inputs[0].dtype, [&]<class T>() {
      d.make = launches([=, comparison = row.comparison](const Buffers& b) {
        return launches_of(CompareBody<T>{b.in<T>(0), binary ? b.in<T>(1) : nullptr, b.out<std::uint8_t>(0), elements, comparison, *nest});
      });
    });
  }
  return d.make ? Descriptions{d} : Descriptions{};
}

Descriptions describe_where(const KernelRequest& request, Libraries*) {
  KernelDescription d = whole_description(request, "native.where");
  const std::size_t size = size_of(d.outputs[0].dtype);
  if (!fit_index(d) || size == 0) return {};
  const auto nest = nest_of<3>(broadcast_loops(d), {1, 2, 3});
  if (!nest) return {};
  const auto elements = static_cast<std::uint32_t>(d.outputs[0].shape.elements());
  visit_bytes(size, [&]<class Unit>() {
    d.make = launches([=](const Buffers& b) { return launches_of(WhereBody<Unit>{b.in<std::uint8_t>(0), b.in<Unit>(1), b.in<Unit>(2), b.out<Unit>(0), elements, *nest}); });
  });
  return {d};
}

Descriptions describe_cast(const KernelRequest& request, Libraries*) {
  KernelDescription d = whole_description(request, "native.cast");
  if (!fit_index(d) || size_of(d.inputs[0].dtype) == 0 || size_of(d.outputs[0].dtype) == 0) return {};
  const auto nest = nest_of<1>(broadcast_loops(d), {1});
  if (!nest) return {};
  const auto elements = static_cast<std::uint32_t>(d.outputs[0].shape.elements());
  const auto from = static_cast<Number>(d.inputs[0].dtype), to = static_cast<Number>(d.outputs[0].dtype);
  d.make = launches([=](const Buffers& b) { return launches_of(CastBody{b.inputs[0], b.outputs[0], from, to, elements, *nest}); });
  return {d};
}

}  // namespace tandem::cuda
