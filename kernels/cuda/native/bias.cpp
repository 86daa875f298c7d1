// Launches that add a bias, apply Relu or mask a gradient, behind a library's kernel.
#include "kernels/cuda/native/bias.h"

#include "kernels/cuda/bodies/bias.h"
#include "kernels/cuda/launch/launch.h"

namespace tandem::cuda {

Binder bias_binder(const Operand& y, int bias, bool relu) {
  return visit_storage(y.dtype, [&]<class T>() -> Binder {
    return [elements = y.shape.elements(), channels = y.shape[1], bias, relu](const Buffers& b) -> Launches {
      const BiasBody<T> body{b.out<T>(0), bias < 0 ? nullptr : b.in<T>(static_cast<std::size_t>(bias)), elements,
                             static_cast<std::int32_t>(channels), relu};
      const std::int64_t blocks = blocks_for(elements, BiasBody<T>::threads);
      return [body, blocks](void* stream) { launch(body, blocks, stream); };
    };
  });
}

Binder mask_binder(const Operand& dx, std::size_t y) {
  return visit_storage(dx.dtype, [&]<class T>() -> Binder {
    return [elements = dx.shape.elements(), y](const Buffers& b) -> Launches {
      return [body = MaskBody<T>{b.out<T>(0), b.in<T>(y), elements}, blocks = blocks_for(elements, MaskBody<T>::threads)](void* stream) {
        launch(body, blocks, stream);
      };
    };
  });
}

}  // namespace tandem::cuda
