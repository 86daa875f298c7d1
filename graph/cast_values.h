// Values of a source in another type, element by element as they are read.
#pragma once
#include "graph/tensor.h"

namespace tandem {

// tensor.cast(dtype). Of a tensor that is not in memory one that is not, either: it reads the other.
inline Tensor cast_later(const Tensor& tensor, DType dtype) {
  class Values final : public TensorSource {
   public:
    Values(Tensor from, DType to) : from_(std::move(from)), to_(to) {}
    void read(std::span<std::byte> to, std::int64_t offset) const override {
      const auto size = static_cast<std::int64_t>(size_of(to_)), held = static_cast<std::int64_t>(size_of(from_.dtype()));
      Tensor part(TensorType{from_.dtype(), Shape{std::ssize(to) / size}});
      from_.read(part.write(), offset / size * held);
      const Tensor cast = part.cast(to_);
      std::ranges::copy(cast.bytes(), to.begin());
    }

   private:
    const Tensor from_;
    const DType to_;
  };
  if (dtype == tensor.dtype() || tensor.in_memory()) return tensor.cast(dtype);
  return {TensorType{dtype, tensor.shape()}, std::make_shared<Values>(tensor, dtype)};
}

}  // namespace tandem
