// The nodes of a scaled loss (graph/operators/loss_scale.cpp): AllFinite, LossScale, LossScaleUpdate, ScaledScalars.
#include <algorithm>

#include "graph/updates.h"
#include "kernels/cuda/bodies/loss_scale.h"
#include "kernels/cuda/native/tensor_tables.h"
#include "kernels/precision.h"

namespace tandem::cuda {
namespace {

bool all_single(const KernelRequest& request) {
  const auto single = [](const Operand& o) { return o.dtype == DType::float32 && !o.layout.opaque(); };
  return std::all_of(request.inputs.begin(), request.inputs.end(), single) && single(request.outputs[0]);
}

KernelDescription plain(const KernelRequest& request, std::string_view kernel) {
  KernelDescription d = description_of(request, kernel, Layout::row_major(1));
  d.outputs[0].layout = Layout::row_major(d.outputs[0].shape.rank());
  d.efficiency = 0.1;
  return d;
}

struct Tested {
  std::int64_t elements;
  bool narrow;
};

// As many launches as the tables of tensors need, then one over what they found.
Launches finite_launches(const Buffers& b, const std::vector<Tested>& tensors, Narrow type) {
  std::vector<FinitePartBody::Tensor> list;
  for (std::size_t t = 0; t < tensors.size(); ++t)
    list.push_back({b.inputs[t], tensors[t].elements, tensors[t].narrow, in_packs({b.inputs[t]})});
  auto all = tables_of<&FinitePartBody::table>(std::span<const FinitePartBody::Tensor>(list), [&] {
    return FinitePartBody{{}, type, 0, reinterpret_cast<float*>(b.workspace)};
  });
  std::int64_t parts = 0;
  for (auto& [body, blocks] : all) {
    body.first_part = parts;
    parts += blocks;
  }
  const FiniteBody last{reinterpret_cast<const float*>(b.workspace), parts, b.out<float>(0)};
  return [all = std::move(all), last](void* stream) {
    for (const auto& one : all) one.start(stream);
    launch(last, 1, stream);
  };
}

}  // namespace

// In whatever layouts the operands lie, in float32 or one type of 16 bits.
Descriptions describe_all_finite(const KernelRequest& request, Libraries*) {
  const auto narrow = std::find_if(request.inputs.begin(), request.inputs.end(), [](const Operand& o) { return is_16_bit(o.dtype); });
  const DType type = narrow == request.inputs.end() ? DType::float32 : narrow->dtype;
  KernelDescription d;
  d.kernel = "native.all_finite";
  d.inputs = request.inputs;
  d.outputs = request.outputs;
  d.outputs[0].layout = Layout::row_major(0);
  d.efficiency = 0.8;
  std::vector<Tested> tensors;
  for (Operand& o : d.inputs) {
    if ((o.dtype != DType::float32 && o.dtype != type) || o.layout.opaque()) return {};
    if (o.layout.any()) o.layout = Layout::row_major(o.shape.rank());
    tensors.push_back({physical_elements(o.shape, o.layout), o.dtype != DType::float32});
    d.workspace += pieces_of<decltype(FinitePartBody::table)>(tensors.back().elements) * static_cast<std::int64_t>(sizeof(float));
  }
  d.make = launches([tensors, type](const Buffers& b) {
    return finite_launches(b, tensors, type == DType::float16 ? Narrow::float16 : Narrow::bfloat16);
  });
  return {d};
}

Descriptions describe_loss_scale(const KernelRequest& request, Libraries*) {
  if (!all_single(request)) return {};
  KernelDescription d = plain(request, "native.loss_scale");
  d.make = launches([start = request.attributes->real("start")](const Buffers& b) -> Launches {
    const LossScaleBody body{b.in<LossScaleState>(0), b.out<float>(0), start};
    return [body](void* stream) { launch(body, 1, stream); };
  });
  return {d};
}

Descriptions describe_loss_scale_update(const KernelRequest& request, Libraries*) {
  if (!all_single(request)) return {};
  KernelDescription d = plain(request, "native.loss_scale_update");
  d.in_place = {{0, 0}};
  d.make = launches([interval = static_cast<float>(request.attributes->integer("interval"))](const Buffers& b) -> Launches {
    const LossScaleUpdateBody body{b.in<LossScaleState>(0), b.in<float>(1), b.out<LossScaleState>(0), interval};
    return [body](void* stream) { launch(body, 1, stream); };
  });
  return {d};
}

Descriptions describe_scaled_scalars(const KernelRequest& request, Libraries*) {
  if (!all_single(request)) return {};
  KernelDescription d = plain(request, "native.scaled_scalars");
  const Attributes& a = *request.attributes;
  d.make = launches(
      [start = a.real("start"), n = update_numbers(static_cast<UpdateKind>(a.integer("kind", 0)), a)](const Buffers& b) -> Launches {
        const ScaledScalarsBody body{
            b.in<StepScalars>(0), b.in<LossScaleState>(1), b.in<float>(2), b.out<StepScalars>(0), start, n.kind, n.beta1, n.beta2};
        return [body](void* stream) { launch(body, 1, stream); };
      });
  return {d};
}

}  // namespace tandem::cuda
