// Local response normalization by our own kernels, channels last.
#include "kernels/cuda/bodies/lrn.h"
#include "kernels/cuda/native/window.h"

namespace tandem::cuda {
namespace {

constexpr std::string_view lrn_family = "native.lrn";

}  // namespace

Descriptions describe_lrn(const KernelRequest& request, Libraries*) {
  const bool backward = request.op == "LRNBackward", training = request.op == "LRNTraining";
  std::optional<KernelDescription> d = channels_last_description(request, backward   ? "native.lrn_backward"
                                                                          : training ? "native.lrn_training"
                                                                                     : "native.lrn");
  const Operand nothing{DType::uint8, Shape{0}, Layout::opaque(lrn_family)};
  if (!d || (backward && d->inputs[3] != nothing)) return {};
  if (training) d->outputs[1] = nothing;
  const Attributes& a = *request.attributes;
  const std::int64_t size = a.integer("size");
  const LrnGeometry g{d->inputs[0].shape.elements(),
                      static_cast<std::int32_t>(d->inputs[0].shape[1]),
                      static_cast<std::int32_t>((size - 1) / 2),
                      static_cast<std::int32_t>(size / 2),
                      static_cast<double>(a.real("alpha", 1e-4F)) / static_cast<double>(size),
                      static_cast<double>(a.real("beta", 0.75F)),
                      static_cast<double>(a.real("bias", 1.0F))};
  visit_storage(d->inputs[0].dtype, [&]<class T>() {
    d->make = launches([=](const Buffers& b) {
      if (backward) return launches_over(LrnBackwardBody<T>{b.in<T>(0), b.in<T>(1), b.in<T>(2), b.out<T>(0), g}, g.elements);
      return launches_over(LrnBody<T>{b.in<T>(0), b.out<T>(0), g}, g.elements);
    });
  });
  return {*d};
}

}  // namespace tandem::cuda
