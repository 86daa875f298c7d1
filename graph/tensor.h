// A host tensor: row-major values with their type. Copies share the storage; write() makes it unique first. A view's are another's memory.
// Values may lie elsewhere, in a file or on a device (TensorSource). They are in memory from when they are asked for until their release.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "graph/shape.h"

namespace tandem {

struct SmallRounding;

// Where values lie that need not be in memory.
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  // Bytes of the values, from `offset` on. Fails (io, or as whoever made it says) where they cannot be had.
  virtual void read(std::span<std::byte> to, std::int64_t offset) const = 0;
};

class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(TensorType type);  // zeros; fails for types without a fixed element size
  // Values where they lie, aligned to their element, which are not copied and do not change; `owner` keeps them, and may be null where
  // something else does. Fails as above.
  static Tensor view(TensorType type, const std::byte* data, std::shared_ptr<const void> owner = nullptr);
  Tensor(TensorType type, std::shared_ptr<const TensorSource> source);
  template <class T>
  static Tensor of(Shape shape, std::span<const T> values);
  template <class T>
  static Tensor of(Shape shape, std::initializer_list<T> values) {
    return of(std::move(shape), std::span<const T>(values.begin(), values.size()));
  }
  template <class T>
  static Tensor scalar(T value) {
    return of(Shape{}, std::span<const T>(&value, 1));
  }

  const TensorType& type() const { return type_; }
  DType dtype() const { return type_.dtype; }
  const Shape& shape() const { return type_.shape; }
  std::int64_t elements() const { return byte_size() / static_cast<std::int64_t>(std::max<std::size_t>(1, size_of(type_.dtype))); }
  bool defined() const { return type_.dtype != DType::undefined; }

  std::span<const std::byte> bytes() const;  // of a source all are read, where they are not in memory
  std::span<std::byte> write();  // of values of its own: those that others have, too, and a view's are copied first
  std::int64_t byte_size() const;
  // Some of the bytes. Of a source no more than these is read.
  void read(std::span<std::byte> to, std::int64_t offset) const;
  bool in_memory() const;
  void release() const;  // values of a source leave the memory: spans of them, of all copies, end. Others stay
  const void* identity() const { return storage_.get(); }  // the same for tensors that share their storage
  template <class T>
  std::span<const T> values() const;  // fails where T is not the element type
  template <class T>
  std::span<T> write();

  Tensor reshaped(Shape shape) const;               // same elements, other shape
  Tensor cast(DType dtype) const;                   // numbers and booleans; to 16 bits rounded to the nearest
  Tensor cast(DType dtype, SmallRounding rounding) const;  // the same; how to round to a small type (graph/small_types.h)
  std::vector<std::int64_t> to_int64s() const;      // any integer or boolean type, small ones too
  std::vector<double> to_doubles() const;           // any number type
  bool operator==(const Tensor& other) const;       // type and bytes

 private:
  struct Storage;
  TensorType type_;
  std::shared_ptr<Storage> storage_;
};

template <class T>
std::span<const T> Tensor::values() const {
  if (dtype_of<T>() != type_.dtype) fail("tensor holds ", name_of(type_.dtype), ", read as ", name_of(dtype_of<T>()));
  const auto b = bytes();
  return {reinterpret_cast<const T*>(b.data()), b.size() / sizeof(T)};
}

template <class T>
std::span<T> Tensor::write() {
  if (dtype_of<T>() != type_.dtype) fail("tensor holds ", name_of(type_.dtype), ", written as ", name_of(dtype_of<T>()));
  const auto b = write();
  return {reinterpret_cast<T*>(b.data()), b.size() / sizeof(T)};
}

template <class T>
Tensor Tensor::of(Shape shape, std::span<const T> values) {
  Tensor t(TensorType{dtype_of<T>(), std::move(shape)});
  if (t.elements() != static_cast<std::int64_t>(values.size()))
    fail("tensor of shape ", t.shape(), " given ", values.size(), " values");
  std::copy(values.begin(), values.end(), t.write<T>().begin());
  return t;
}

}  // namespace tandem
