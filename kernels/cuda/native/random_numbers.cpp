// RandomNumbers, row-major.
#include "kernels/cuda/bodies/random_numbers.h"
#include "kernels/cuda/native/launches.h"
#include "kernels/sample_runs.h"

namespace tandem::cuda {

Descriptions describe_random_numbers(const KernelRequest& request, Libraries*) {
  const Attributes& a = *request.attributes;
  KernelDescription d = description_of(request, "native.random_numbers", Layout());
  for (Operand& in : d.inputs)
    if (in.layout.any()) in.layout = Layout::row_major(in.shape.rank());
  const Shape& shape = d.outputs[0].shape;
  d.outputs[0].layout = Layout::row_major(shape.rank());
  const SampleRuns runs(a, shape);
  d.efficiency = 0.5;
  if (d.outputs[0].dtype != DType::float32 && d.outputs[0].dtype != DType::float64) return {};
  visit_float(d.outputs[0].dtype, [&]<class T>() {
    RandomNumbersBody<T> body{};
    body.elements = shape.elements();
    body.outside = runs.outside;
    body.samples = runs.samples;
    body.inside = runs.inside;
    body.holds_samples = runs.counted;
    body.layer = static_cast<std::uint32_t>(a.integer("layer", 0));
    body.seeded = a.has("seed");
    body.seed = static_cast<std::uint32_t>(a.integer("seed", 0));
    d.make = launches([body](const Buffers& b) {
      RandomNumbersBody<T> bound = body;
      bound.random = b.in<std::int64_t>(0);
      bound.y = b.out<T>(0);
      return launches_over(bound, bound.elements);
    });
  });
  return {d};
}

}  // namespace tandem::cuda
