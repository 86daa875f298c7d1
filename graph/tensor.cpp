// Storage is shared between copies of a tensor until one of them is written to, so that handing weights and constants on costs
// nothing.
#include "graph/tensor.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "base/memory.h"
#include "graph/half.h"
#include "graph/small_types.h"

namespace tandem {

// The tensor's own values, or where another's lie, or from where they are read when they are asked for.
struct Tensor::Storage {
  explicit Storage(std::size_t bytes) : size(bytes), own(bytes), values(own) {}
  explicit Storage(std::span<const std::byte> others) : size(others.size()), own(others.begin(), others.end()), values(own) {}  // a copy
  Storage(std::span<const std::byte> others, std::shared_ptr<const void> kept)
      : size(others.size()), values(others), owner(std::move(kept)), is_view(true) {}
  Storage(std::size_t bytes, std::shared_ptr<const TensorSource> from) : size(bytes), source(std::move(from)), here(bytes == 0) {}
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::span<const std::byte> load() {
    if (here.load(std::memory_order_acquire)) return values;
    const std::lock_guard lock(loading);
    if (here.load(std::memory_order_relaxed)) return values;
    std::vector<std::byte> read(size);
    source->read(read, 0);
    own = std::move(read);
    values = own;
    here.store(true, std::memory_order_release);
    return values;
  }

  std::size_t size = 0;
  std::vector<std::byte> own;
  std::span<const std::byte> values;
  std::shared_ptr<const void> owner;
  bool is_view = false;
  std::shared_ptr<const TensorSource> source;  // null: the values are here
  std::mutex loading;
  std::atomic<bool> here{true};
};

namespace {

std::size_t held_bytes(const TensorType& type) {
  if (size_of(type.dtype) == 0) fail("a tensor cannot hold ", name_of(type.dtype), " elements");
  return static_cast<std::size_t>(bytes_of(type));
}

}  // namespace

Tensor::Tensor(TensorType type) : type_(std::move(type)) {
  const std::size_t bytes = held_bytes(type_);
  storage_ = allocate(bytes, [&] { return std::make_shared<Storage>(bytes); }, "a tensor ", type_);
}

Tensor::Tensor(TensorType type, std::shared_ptr<const TensorSource> source)
    : type_(std::move(type)), storage_(std::make_shared<Storage>(held_bytes(type_), std::move(source))) {
}

Tensor Tensor::view(TensorType type, const std::byte* data, std::shared_ptr<const void> owner) {
  Tensor t;
  t.storage_ = std::make_shared<Storage>(std::span(data, held_bytes(type)), std::move(owner));
  t.type_ = std::move(type);
  return t;
}

std::span<const std::byte> Tensor::bytes() const {
  if (!storage_) return {};
  return allocate(storage_->size, [&] { return storage_->load(); }, "a tensor ", type_);
}

std::span<std::byte> Tensor::write() {
  if (!storage_) return {};
  if (storage_.use_count() > 1 || storage_->is_view || storage_->source)
    storage_ = allocate(storage_->size, [&] { return std::make_shared<Storage>(storage_->load()); }, "a copy of a tensor ", type_);
  return storage_->own;
}

std::int64_t Tensor::byte_size() const { return storage_ ? static_cast<std::int64_t>(storage_->size) : 0; }

bool Tensor::in_memory() const { return !storage_ || storage_->here.load(std::memory_order_acquire); }

void Tensor::read(std::span<std::byte> to, std::int64_t offset) const {
  if (offset < 0 || std::ssize(to) > byte_size() - offset) fail("tensor of ", byte_size(), " bytes, asked for ", to.size(), " at ", offset);
  if (to.empty()) return;
  if (!in_memory()) return storage_->source->read(to, offset);
  std::copy_n(storage_->values.begin() + offset, to.size(), to.begin());
}

void Tensor::release() const {
  if (!storage_ || !storage_->source || storage_->size == 0) return;
  const std::lock_guard lock(storage_->loading);
  storage_->here.store(false, std::memory_order_release);
  storage_->values = {};
  std::vector<std::byte>().swap(storage_->own);
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
