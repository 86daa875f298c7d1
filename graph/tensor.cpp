// Storage is shared between copies of a tensor until one of them is written to, so that handing weights and constants on costs
// nothing.
#include "graph/tensor.h"

#include <algorithm>

#include "base/memory.h"
#include "graph/half.h"
#include "graph/small_types.h"

namespace tandem {

// The tensor's own values, or where another's lie.
struct Tensor::Storage {
  explicit Storage(std::size_t bytes) : own(bytes), values(own) {}
  explicit Storage(std::span<const std::byte> others) : own(others.begin(), others.end()), values(own) {}  // a copy
  Storage(std::span<const std::byte> others, std::shared_ptr<const void> kept) : values(others), owner(std::move(kept)), is_view(true) {}
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::vector<std::byte> own;
  std::span<const std::byte> values;
  std::shared_ptr<const void> owner;
  bool is_view = false;
};

namespace {

std::size_t bytes_of(const TensorType& type) {
  const std::size_t size = size_of(type.dtype);
  if (size == 0) fail("a tensor cannot hold ", name_of(type.dtype), " elements");
  return static_cast<std::size_t>(type.shape.elements()) * size;
}

}  // namespace

Tensor::Tensor(TensorType type) : type_(std::move(type)) {
  const std::size_t bytes = bytes_of(type_);
  storage_ = allocate(bytes, [&] { return std::make_shared<Storage>(bytes); }, "a tensor ", type_);
}

Tensor Tensor::view(TensorType type, const std::byte* data, std::shared_ptr<const void> owner) {
  Tensor t;
  t.storage_ = std::make_shared<Storage>(std::span(data, bytes_of(type)), std::move(owner));
  t.type_ = std::move(type);
  return t;
}

std::span<const std::byte> Tensor::bytes() const { return storage_ ? storage_->values : std::span<const std::byte>(); }

std::span<std::byte> Tensor::write() {
  if (!storage_) return {};
  if (storage_.use_count() > 1 || storage_->is_view)
    storage_ = allocate(
        storage_->values.size(), [&] { return std::make_shared<Storage>(storage_->values); }, "a copy of a tensor ", type_);
  return storage_->own;
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
