// Storage is shared between copies of a tensor until one of them is written to, so that handing weights and constants on costs
// nothing.
#include "graph/tensor.h"

#include <algorithm>

#include "base/memory.h"
#include "graph/half.h"
#include "graph/small_types.h"

namespace tandem {

Tensor::Tensor(TensorType type) : type_(std::move(type)) {
  const std::size_t size = size_of(type_.dtype);
  if (size == 0) fail("a tensor cannot hold ", name_of(type_.dtype), " elements");
  const std::size_t bytes = static_cast<std::size_t>(type_.shape.elements()) * size;
  storage_ = allocate(bytes, [&] { return std::make_shared<std::vector<std::byte>>(bytes); }, "a tensor ", type_);
}

std::span<const std::byte> Tensor::bytes() const {
  return storage_ ? std::span<const std::byte>(*storage_) : std::span<const std::byte>();
}

std::span<std::byte> Tensor::write() {
  if (!storage_) return {};
  if (storage_.use_count() > 1)
    storage_ = allocate(
        storage_->size(), [&] { return std::make_shared<std::vector<std::byte>>(*storage_); }, "a copy of a tensor ", type_);
  return *storage_;
}

bool Tensor::operator==(const Tensor& other) const {
  return type_ == other.type_ && (storage_ == other.storage_ || std::ranges::equal(bytes(), other.bytes()));
}

Tensor Tensor::reshaped(Shape shape) const {
  if (shape.elements() != type_.shape.elements()) fail("cannot reshape ", type_.shape, " to ", shape);
  Tensor t = *this;
  t.type_.shape = std::move(shape);
  return t;
}

Tensor Tensor::cast(DType dtype) const { return cast(dtype, SmallRounding{}); }

Tensor Tensor::cast(DType dtype, SmallRounding rounding) const {
  if (dtype == type_.dtype) return *this;
  if (is_small(type_.dtype)) {
    Tensor numbers(TensorType{DType::float32, type_.shape});
    const auto to = numbers.write<float>();
    const auto table = numbers_of(type_.dtype);
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = table[std::to_integer<std::size_t>(bytes()[i])];
    return numbers.cast(dtype, rounding);
  }
  Tensor out(TensorType{dtype, type_.shape});
  if (is_small(dtype)) {
    const bool whole = is_small_integer(dtype) && !is_float(type_.dtype);
    const Tensor from = cast(whole ? DType::int64 : DType::float64);
    const auto to = out.write();
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i] = std::byte{whole ? low_bits(from.values<std::int64_t>()[i], dtype) : element_of(from.values<double>()[i], dtype, rounding)};
    return out;
  }
  visit_storable(type_.dtype, [&]<class From>() {
    visit_storable(dtype, [&]<class To>() {
      const auto from = values<From>();
      const auto to = out.write<To>();
      for (std::size_t i = 0; i < from.size(); ++i) to[i] = number_as<To>(from[i]);
    });
  });
  return out;
}

std::vector<std::int64_t> Tensor::to_int64s() const {
  if (is_float(type_.dtype) || is_small_float(type_.dtype)) fail("expected integers, got ", type_);
  const Tensor t = cast(DType::int64);
  const auto v = t.values<std::int64_t>();
  return {v.begin(), v.end()};
}

std::vector<double> Tensor::to_doubles() const {
  const Tensor t = cast(DType::float64);
  const auto v = t.values<double>();
  return {v.begin(), v.end()};
}

}  // namespace tandem
