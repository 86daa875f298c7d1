// QuantizeFp8 and Fp8ScaleUpdate (graph/operators/fp8.cpp). Their products are cuBLASLt's (kernels/cuda/cublas/product_fp8.cpp).
#include "kernels/cuda/bodies/fp8.h"

#include <algorithm>

#include "kernels/cuda/native/launches.h"

namespace tandem::cuda {

// Of bfloat16 rows whose length is a multiple of 8.
Descriptions describe_quantize_fp8(const KernelRequest& request, Libraries*) {
  KernelDescription d = row_major_description(request, "native.quantize_fp8");
  const Shape x = d.inputs[0].shape;
  if (d.inputs[0].dtype != DType::bfloat16 || x[1] % QuantizeFp8Body::width != 0 || x.elements() == 0) return {};
  QuantizeFp8Body body{};
  body.rows = x[0];
  body.columns = x[1];
  body.tiles_across = ceil_div(x[1], QuantizeFp8Body::tile);
  body.to = static_cast<DType>(request.attributes->integer("to"));
  const std::int64_t blocks = ceil_div(x[0], QuantizeFp8Body::tile) * body.tiles_across, slot = request.attributes->integer("slot");
  const bool transposes = has(d.outputs, 3);
  d.efficiency = 0.8;
  d.workspace = blocks * static_cast<std::int64_t>(sizeof(float));
  d.make = launches([=](const Buffers& b) -> Launches {
    QuantizeFp8Body quantize = body;
    quantize.x = b.in<BFloat16>(0);
    quantize.row = b.in<Fp8Row>(1) + slot;
    quantize.y = b.out<std::uint8_t>(0);
    quantize.transposed = transposes ? b.out<std::uint8_t>(3) : nullptr;
    quantize.part = reinterpret_cast<float*>(b.workspace);
    const LargestBody largest{quantize.part, blocks, quantize.row, b.out<float>(1), b.out<float>(2)};
    return [=](void* stream) {
      launch(quantize, blocks, stream);
      launch(largest, 1, stream);
    };
  });
  return {d};
}

Descriptions describe_fp8_scale_update(const KernelRequest& request, Libraries*) {
  KernelDescription d = row_major_description(request, "native.fp8_scale_update");
  d.in_place = {{0, 0}};
  d.efficiency = 0.1;
  d.make = launches([types = request.attributes->ints("to"),
                     margin = static_cast<int>(request.attributes->integer("margin", 0))](const Buffers& b) -> Launches {
    std::vector<Launches> all;
    for (std::size_t first = 0; first < types.size(); first += fp8_rows_a_launch) {
      Fp8ScaleUpdateBody body{};
      body.count = static_cast<int>(std::min<std::size_t>(fp8_rows_a_launch, types.size() - first));
      body.margin = margin;
      body.state = b.in<Fp8Row>(0) + first;
      body.now = b.out<Fp8Row>(0) + first;
      for (std::size_t i = 0; i < static_cast<std::size_t>(body.count); ++i) {
        body.types[i] = static_cast<std::uint8_t>(types[first + i]);
        body.amax[i] = b.in<float>(first + i + 1);
      }
      all.push_back(launches_of(body, ceil_div(body.count, Fp8ScaleUpdateBody::threads)));
    }
    return in_turn(std::move(all));
  });
  return {d};
}

}  // namespace tandem::cuda
